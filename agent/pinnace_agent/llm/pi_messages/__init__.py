"""Provider: the gateway of pi. Imports llm and its transport."""
