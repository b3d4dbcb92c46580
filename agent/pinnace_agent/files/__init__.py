"""Files that a repository, a session or a model names: which may be opened, and the one place that opens them.

Imports nothing of the rest of the agent.
"""
