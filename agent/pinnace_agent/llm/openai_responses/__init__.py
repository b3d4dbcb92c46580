"""Provider: OpenAI Responses, and every server that speaks them. Imports llm and its transport."""
