"""What needs the library of OpenTelemetry: `observer` makes spans and metrics, `export` has them sent."""
