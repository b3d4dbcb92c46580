"""Provider: Amazon Bedrock's ConverseStream. Imports llm, its transport and redaction."""
