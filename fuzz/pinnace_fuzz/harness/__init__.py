"""Runs any agent: its process, pipes, home and model, and a journal of what passed. Knows no rules."""
