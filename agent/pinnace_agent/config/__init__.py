"""Configuration from files and the environment: settings, values, trust.

Imports `llm`, `redaction`, `shell`, `search`, `files` and `core`; only `trust_digest` asks `extensions.loading` which
files the extensions of a project are.
"""
