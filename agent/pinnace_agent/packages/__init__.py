"""Packages of extensions, skills, prompts and themes, from npm, git and folders: found, read, installed, removed.

Imports `config`, `shell`, `search` and `files`. What only reads is loaded where settings name a package; npm and git
run where a command line asks for it.
"""
