"""Trials of our own tests: agents in homes of their own, judged by schemas and observers when a test ends."""
