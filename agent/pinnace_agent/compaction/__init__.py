"""Compaction: the older part of a conversation becomes a summary, so that the rest fits the model's window."""
