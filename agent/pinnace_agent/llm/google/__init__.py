"""Provider: Google's Generative Language API. Imports llm and its transport."""
