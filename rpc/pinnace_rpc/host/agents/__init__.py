"""The processes of the host's agents: how they are started, when they run, what follows when they end.

Imports nothing of the rest of the host, which implements the observer in `ports`.
"""
