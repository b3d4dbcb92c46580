"""Provider: Anthropic's messages, and every server that speaks them. Imports llm and its transport."""
