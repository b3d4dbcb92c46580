"""HTTP to model servers: connections, one request, its streamed answer. Imports llm; independent of any API."""
