"""The durable host: one process that keeps agents alive between clients, with their journals and connections.

Imports point from the host's entry to its agents and connections, and from those to `agents`, which runs the processes,
and to `protocol` and `locations`, which need the standard library alone: `attach` imports them too.
"""
