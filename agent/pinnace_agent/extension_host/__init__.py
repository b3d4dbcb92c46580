"""The life of a session's extensions, over ports of the running agent. Imports `engine`, `extensions` and below."""
