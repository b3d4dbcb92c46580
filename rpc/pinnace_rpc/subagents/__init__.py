"""The agents that a run starts: each a process of its own, with no more rights than the agent that starts it.

`rights.py` decides what one is started with, `process.py` is one of them, `mailbox.py` the messages to it, and
`children.py` all of one agent. Implements `core/ports/children.py` of the agent; imports `options` and the agent.
Loaded where the tool `subagent` exists.
"""
