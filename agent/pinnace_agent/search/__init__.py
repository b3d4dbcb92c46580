"""Searches files in Python where the system has no program for it: globs, ignore rules, patterns, and a program.

Imports the standard library alone, so that the program starts quickly. Imported by `config`, `prompting` and `tools`.
"""
