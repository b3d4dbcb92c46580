"""A durable host with its agent and attached clients, as one simulated machine.

The host and the agent are the real programs, each in a process of its own (`processes`); between them, and between the
host and its clients, are pipes in memory. `history` composes one, with crashes of each process and of the machine, and
processes that are stopped; `events` judges what clients get. Imports point from `history` to the others.
"""
