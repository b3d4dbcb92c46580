"""Redaction: no key of this process leaves it in a record, on stderr, in a log, a session file or an export.

`redactor` knows the keys and is what writers ask; `forms` says in which forms a key can appear, `search` is the fast
first look, `replacing` what follows when it finds something. `growing` does all this for a text that arrives in pieces;
`credentials` finds keys in addresses and headers. Imports of this room: the specification and the standard library.
"""
