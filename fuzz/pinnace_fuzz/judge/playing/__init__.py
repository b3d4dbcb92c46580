"""Plays scenarios against one agent process, step by step, and records its trace."""
