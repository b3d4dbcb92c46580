"""Builds one agent from its options and the user's files."""
