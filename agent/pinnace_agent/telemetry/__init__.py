"""Telemetry: spans and metrics of what an agent does, for an OpenTelemetry collector.

An observer: it takes the records that a process emits, and wraps the providers of models. `switch` decides by the
standard variables whether anything is exported; `conventions` and `content` are pure; `otel` alone imports the library,
an extra, and is loaded only where something is exported. Imports `llm`, `redaction`, `core` and `compaction`; no other
room imports this one.
"""
