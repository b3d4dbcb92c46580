"""Whose requests to AWS are: the sources of keys, and how each is asked. It knows nothing of models."""
