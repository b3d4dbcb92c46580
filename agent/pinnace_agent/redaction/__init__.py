"""Redaction: no key of this process leaves it in a record, on stderr, in a log, a session file or an export.

Writers call `redactor`, which knows the keys; `forms` lists in which forms a key can appear, `search` finds whether one
is there, and `replacing` takes it out. `growing` does this for a text that arrives in pieces; `credentials` finds keys
in addresses and headers. This room imports `core` and the specification.
"""
