"""Text for tools: matching, replacing, windows, differences, search results. Imports `tools.base` and `shell`."""
