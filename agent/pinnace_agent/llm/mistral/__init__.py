"""Provider: Mistral. Imports llm, its transport, and the reader of chat completions, which are related."""
