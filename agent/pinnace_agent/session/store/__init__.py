"""The file of a session: appended, flushed, leased, quarantined, read and repaired.

Imports nothing of `session` itself. Imports point from `file` to the parts of writing, and from `reading` to `entries`.
"""
