"""A session: one conversation, its tree of entries, its context, its settings, and where its files are.

`store` is the file of a session and imports nothing of this folder; `queue` is the messages that wait in it. In the
folder imports point from `library`, `opening` and `replacement` (the sessions of this process) to `conversation` (one
session), from there to `context` and `context_meter`, and from these to `tree` and `branch`.
"""
