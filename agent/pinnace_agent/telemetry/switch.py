"""Has an agent or a batch observed where the standard variables ask for an export, and loads the library only then.

A problem is one line on stderr, and never one of the run. The keys of collectors are taken out of the environment: what
a model runs could send them anywhere. Imports nothing of OpenTelemetry.
"""

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import unquote

from pinnace_agent.core.surroundings import environment
from pinnace_agent.core.user_warnings import Notice
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.telemetry.variables import CAPTURE, ENDPOINT, HEADERS, TelemetryExports, unsupported_capture, wanted

if TYPE_CHECKING:  # loaded where something is exported
    from pinnace_agent.engine.profile import AgentProfile
    from pinnace_agent.telemetry.otel.batch import BatchSpan
    from pinnace_agent.telemetry.otel.observer import Telemetry

_Made = TypeVar("_Made")
OnRecord = Callable[[Mapping[str, object]], None]

EXTRA: Final = "otel"
"""What the extra installs."""


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

    def warn(text: str) -> None:
        profile.warnings.add(Notice("telemetry", f"telemetry: {REDACTOR.text(text)}"))

    telemetry = _made(environment(), _observe, warn)
    profile.environment = {name: value for name, value in profile.environment.items() if name not in HEADERS}
    if telemetry is None:
        return on_record, _nothing
    profile.registry.wrap_provider = telemetry.provider
    profile.trace_call = telemetry.trace_call
    return telemetry.before(on_record), telemetry.close


def _nothing() -> None:
    """There is nothing to end."""


def begin_batch(tasks: int) -> "BatchSpan | None":
    """Begin the span of a batch, if the variables ask for spans; `tasks` is how many are to be run.

    Called in a process of its own. Never waits for a collector and never raises.
    """

    def begun(what: TelemetryExports, environ: Mapping[str, str]) -> "BatchSpan | None":
        if not what.traces:
            return None
        from pinnace_agent.telemetry.otel.batch import begin_span

        return begin_span(what, environ, tasks)

    return _made(os.environ, begun, _report)


def _observe(what: TelemetryExports, environ: Mapping[str, str]) -> "Telemetry":
    from pinnace_agent.telemetry.otel.observer import observe

    return observe(what, environ)


def _made(
    environ: MutableMapping[str, str],
    make: Callable[[TelemetryExports, Mapping[str, str]], _Made],
    report: Callable[[str], None],
) -> _Made | None:
    """Return what exports, or None; and take the keys of collectors out of the environment."""
    what = wanted(environ)
    try:
        if what is None:
            return None
        for name in (ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"):
            REDACTOR.learn_address(environ.get(name, ""))
        if (capture := unsupported_capture(environ)) is not None:
            report(f"{CAPTURE}={capture} is not supported, so no content is exported: use SPAN_ONLY")
        return make(what, environ)
    except Exception as error:  # no library, or a value that it refuses: telemetry never ends a run
        reason = " ".join(str(error).split())
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "opentelemetry":
            from pinnace_agent.core.installing import how_to_install

            reason = f"the extra {EXTRA} is not installed. Install it with: {how_to_install(EXTRA)}"
        report(f"nothing is exported: {reason}")
        return None
    finally:
        _take_keys(environ)


def withhold_keys(profile: "AgentProfile") -> None:
    """Keep the keys of collectors from an agent that is not observed: the program that it is in exports its own."""
    _take_keys(environment())
    profile.environment = {name: value for name, value in profile.environment.items() if name not in HEADERS}


def _take_keys(environ: MutableMapping[str, str]) -> None:
    for name in HEADERS:
        for pair in environ.pop(name, "").split(","):
            key, _, value = pair.partition("=")
            REDACTOR.learn_values({key.strip(): unquote(value.strip())})


def _report(text: str) -> None:
    sys.stderr.write(f"pinnace: telemetry: {REDACTOR.text(text)}\n")
