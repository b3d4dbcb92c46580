"""Chaos of a durable host: clients that attach, while clients, agents, the zygote, the host and disks fail.

`python -P -m pinnace_campaigns.chaos.hosted --steps 10000 --seed 1`; see docs/soak-and-chaos.md.
"""
