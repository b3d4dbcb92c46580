"""The span that a process works for, and the variables that make a span the one that another process works for.

Both as the W3C's Trace Context spells them, in the environment.
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

NAME: Final = "pinnace"
VARIABLES: Final = {"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE"}
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def parent_in(environ: Mapping[str, str]) -> otel_context.Context:
    """Return a context of the span that the environment names; an empty one if it names none."""
    carrier = {name: environ[variable] for name, variable in VARIABLES.items() if environ.get(variable)}
    return _PROPAGATOR.extract(carrier, otel_context.Context())


def variables_of(context: otel_context.Context) -> dict[str, str]:
    """Return the variables of the span of a context; none if it has none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, context)
    return {VARIABLES[name]: value for name, value in carrier.items()}


def release() -> str:
    """Return the version of this program, for resources and spans."""
    try:
        return version(NAME)
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"
