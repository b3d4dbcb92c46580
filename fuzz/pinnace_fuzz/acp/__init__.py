"""Judges an agent of the Agent Client Protocol from its messages: `schema` each one, `observer` their order."""
