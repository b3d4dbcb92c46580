"""What needs the library of OpenTelemetry: `observer` makes spans and metrics, `batch` the span of a batch.

`export` has them sent; `parents` knows which span a process works for.
"""
