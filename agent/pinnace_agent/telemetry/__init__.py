"""Telemetry: spans and metrics of what an agent does, for an OpenTelemetry collector.

An observer: it takes the records that a process emits, and wraps the providers of models. `variables` says
what the standard variables ask for, and `switch` loads `otel` where that is anything, which alone imports the library,
an extra; `conventions` and `content` are pure. Imports `llm`, `redaction`, `core` and `compaction`; no other
room imports this one.
"""
