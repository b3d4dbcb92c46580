"""What the standard variables of OpenTelemetry ask for. Pure, and without the library."""

from collections.abc import Mapping
from typing import Final, NamedTuple

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Says whether prompts and outputs are exported."""
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS: Final = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
)
"""Hold the keys of collectors."""
_CAPTURING: Final = frozenset({"true", "span_only", "span_and_event"})
_NOT_CAPTURING: Final = frozenset({"", "false", "no_content"})


class TelemetryExports(NamedTuple):
    """What the variables ask for."""

    traces: tuple[str, ...]
    """The exporters of spans, by their standard names; empty: spans are not exported."""
    metrics: tuple[str, ...]
    has_content: bool
    """Whether prompts and outputs are exported, too."""


def wanted(environ: Mapping[str, str]) -> TelemetryExports | None:
    """Return what is to be exported; None: nothing is."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    traces, metrics = _exporters(environ, "TRACES"), _exporters(environ, "METRICS")
    if not traces and not metrics:
        return None
    return TelemetryExports(traces, metrics, _capture(environ) in _CAPTURING)


def unsupported_capture(environ: Mapping[str, str]) -> str | None:
    """Return the value of `CAPTURE` if it is none that means something here."""
    value = _capture(environ)
    return None if value in _CAPTURING | _NOT_CAPTURING else value


def _capture(environ: Mapping[str, str]) -> str:
    return environ.get(CAPTURE, "").strip().lower()


def _exporters(environ: Mapping[str, str], signal: str) -> tuple[str, ...]:
    named = [name.strip().lower() for name in environ.get(f"OTEL_{signal}_EXPORTER", "").split(",")]
    names = tuple(dict.fromkeys(name for name in named if name))
    if not names and any(environ.get(name) for name in (ENDPOINT, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")):
        return ("otlp",)
    return () if "none" in names else names
