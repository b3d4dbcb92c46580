"""Files and paths: which may be opened, the one place that opens them, and the one way to write whole files.

Imports nothing of the rest of the agent; inside, imports point to `opener`, `regular_file` and `protected`.
"""
