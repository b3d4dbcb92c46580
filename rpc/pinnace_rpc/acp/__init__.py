"""Mode acp: the Agent Client Protocol on stdin and stdout, one agent process for each session.

`connection` reads and writes for the client, `session` speaks to one agent; `translation` maps what one says to what
the other understands.
"""
