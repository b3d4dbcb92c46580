"""The parts of a prompt: context files, skills, templates, system prompt. Imports `config`, `search` and `files`."""
