"""Judges ours and other agents, and writes docs/judged.md: which agents, their runs, the page. Import from the left."""
