"""Hooks of the engine's jobs: where extensions take part in a run. Imports runtime and below."""
