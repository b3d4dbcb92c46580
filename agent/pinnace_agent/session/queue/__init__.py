"""The queue of messages that survives the process, in the session's file.

Imports point from `durable_queue` to `history`, which is loaded when a file has operations, and from both to
`operations`.
"""
