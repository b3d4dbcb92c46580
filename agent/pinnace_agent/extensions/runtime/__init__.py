"""The extensions of one session instance: runner, tasks, commands, tools, event lane. Imports handlers and below."""
