"""Scenarios: what they are, how their files are read, and the expressions over records."""
