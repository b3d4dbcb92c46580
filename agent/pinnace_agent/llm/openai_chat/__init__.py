"""Provider: OpenAI chat completions, and every server that speaks them. Imports llm and its transport."""
