"""The conversation as data and as rendered lines, and how they look: has no widgets and no tasks."""
