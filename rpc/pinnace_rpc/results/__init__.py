"""The result of a process, read from its records; used by the modes, and imports none of them."""
