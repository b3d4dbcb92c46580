"""Images for models: their type and size, and resizing to limits. Imports `tools.base` and `shell`."""
