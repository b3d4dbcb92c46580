"""Searches files in Python where the system has no program for it: globs, ignore rules, patterns, and a program.

The program imports the standard library alone, so that it starts quickly. Imported by `config`, `packages`, `prompting`
and `tools`.
"""
