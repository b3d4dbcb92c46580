"""The result of a process: read from its records, written to a file; used by the modes, and imports none of them."""
