"""Deterministic simulation: a whole agent in one process, of which one seed decides everything around it.

The agent is the real program. The seed decides the order in which its tasks run (`scheduling`), the passing of time,
what its disk keeps (`disk`), how its streams are cut (`streams`), what its model answers (`model`), what its client
does (`client`), and when it crashes. The same seed gives the same trace, byte for byte. `oracles` judge the history;
`history` composes one of an agent, `hosted` one of a durable host with its agent and clients (`processes`), `editors`
one of editors with their adapters, `cli` runs many, and `parts` makes one smaller. Imports point from `cli` to the
histories and from there to the others. Programs are named by their entry points (`program`): nothing of one is imported
here.
"""
