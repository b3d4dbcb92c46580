"""Decides by the standard variables whether anything is exported, and loads the library only then.

A problem is one line on stderr, and never one of the run. The keys of collectors are taken out of the environment: what
a model runs could send them anywhere. Imports nothing of OpenTelemetry.
"""

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from pinnace_agent.redaction.redactor import REDACTOR

if TYPE_CHECKING:  # loaded where something is exported
    from pinnace_agent.engine.profile import AgentProfile
    from pinnace_agent.telemetry.otel.observer import Telemetry

OnRecord = Callable[[Mapping[str, object]], None]

EXTRA: Final = "otel"
CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
HEADERS: Final = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
)
"""Hold the keys of collectors."""
_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_CAPTURING: Final = frozenset({"true", "span_only", "span_and_event"})
_NOT_CAPTURING: Final = frozenset({"", "false", "no_content"})


class Wanted(NamedTuple):
    """What the variables ask for."""

    traces: tuple[str, ...]
    """The exporters of spans, by their standard names; empty: spans are not exported."""
    metrics: tuple[str, ...]
    has_content: bool
    """Whether prompts and outputs are exported, too."""


def wanted(environ: Mapping[str, str]) -> Wanted | None:
    """Return what is to be exported; None: nothing is."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    traces, metrics = _exporters(environ, "TRACES"), _exporters(environ, "METRICS")
    if not traces and not metrics:
        return None
    return Wanted(traces, metrics, environ.get(CAPTURE, "").strip().lower() in _CAPTURING)


def _exporters(environ: Mapping[str, str], signal: str) -> tuple[str, ...]:
    named = [name.strip().lower() for name in environ.get(f"OTEL_{signal}_EXPORTER", "").split(",")]
    names = tuple(dict.fromkeys(name for name in named if name))
    if not names and any(environ.get(name) for name in (_ENDPOINT, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")):
        return ("otlp",)
    return () if "none" in names else names


def begin(profile: "AgentProfile", on_record: OnRecord | None) -> tuple[OnRecord | None, Callable[[], object]]:
    """Have an agent observed, if the variables ask for it.

    Starts the threads that export, so it is called in the process of the agent, after any fork. Never waits for a
    collector and never raises.

    Args:
        profile: Of the agent; its models and its calls of tools are observed.
        on_record: Takes the records of the agent, if anything does.

    Returns:
        What takes the records now, and what ends the export: it blocks for two seconds at most.
    """
    try:
        telemetry = _observer(os.environ)
    finally:
        _hide_keys(profile, os.environ)
    if telemetry is None:
        return on_record, _nothing
    profile.registry.wrap_provider = telemetry.provider
    profile.trace_call = telemetry.trace_call
    return telemetry.before(on_record), telemetry.close


def _nothing() -> None:
    """There is nothing to end."""


def _observer(environ: Mapping[str, str]) -> "Telemetry | None":
    what = wanted(environ)
    if what is None:
        return None
    for name in (_ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"):
        REDACTOR.learn_address(environ.get(name, ""))
    if (capture := environ.get(CAPTURE, "").strip().lower()) not in _CAPTURING | _NOT_CAPTURING:
        _report(f"{CAPTURE}={capture} is not supported, so no content is exported: use SPAN_ONLY")
    try:
        from pinnace_agent.telemetry.otel.observer import observe

        return observe(what, environ)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        _report(f"nothing is exported: the extra {EXTRA} is not installed (pip install 'pinnace[{EXTRA}]')")
    except Exception as error:  # a value that the library refuses: telemetry never ends a run
        _report(f"nothing is exported: {error}")
    return None


def _hide_keys(profile: "AgentProfile", environ: MutableMapping[str, str]) -> None:
    for name in HEADERS:
        for pair in environ.pop(name, "").split(","):
            key, _, value = pair.partition("=")
            # All of them, whatever they are called: nothing else is in such a variable for a reason.
            REDACTOR.learn(unquote(value.strip()))
            REDACTOR.learn_headers({key.strip(): unquote(value.strip())})
    profile.environment = {name: value for name, value in profile.environment.items() if name not in HEADERS}


def _report(text: str) -> None:
    sys.stderr.write(f"pinnace: telemetry: {REDACTOR.text(text)}\n")
