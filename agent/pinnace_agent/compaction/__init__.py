"""Compaction: the older part of a conversation becomes a summary, so that the rest fits the model's window.

Imports point from `compaction` to `summarize` (the requests), `threshold` and `cut_point` (when and where), and from
there to `session`, which imports nothing of this folder.
"""
