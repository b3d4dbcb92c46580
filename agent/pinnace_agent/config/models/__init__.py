"""The models that a process knows, and the choice among them: catalog, patterns, scope. Imports `config` and `llm`."""
