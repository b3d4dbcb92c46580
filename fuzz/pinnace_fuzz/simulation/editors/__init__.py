"""Editors and their adapters, with a durable host or without one, as one simulated machine.

An editor is scripted (`client`); its adapter, the host and the agents are the real programs, each in a process of its
own. `adapters` starts them, `connection` is the conversation with one adapter, `answers` and `questions` its answers
and its questions, `views` knows what an editor has been shown, `prompts` what has become of its messages, and `history`
composes a history. Imports point from `history` to the others.
"""
