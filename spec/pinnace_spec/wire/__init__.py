"""Bytes to lines, lines to JSON values, and back."""
