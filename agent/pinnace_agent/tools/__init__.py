"""The built-in tools that a model can call."""
