"""Runs packages of npm for pi in both programs, and compares what a client sees."""
