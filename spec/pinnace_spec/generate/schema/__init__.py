"""The published schemas: JSON Schema, TypeScript and AsyncAPI, generated from the models."""
