"""The trace that a task works for, as variables of the environment for the programs that it starts.

Set around a call of a tool where something traces runs; empty everywhere else. Has no access to what traces.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.tools.base import ToolContext

TRACE_VARIABLES: Final[ContextVar[Mapping[str, str]]] = ContextVar("trace_variables", default=MappingProxyType({}))
"""`TRACEPARENT`, and `TRACESTATE` where there is one, as the W3C's Trace Context spells them."""

CallTrace = Callable[[int, "ToolContext"], AbstractContextManager[None]]
"""Makes the trace of the turn's call with this number current while its tool is executed, also in its environment."""
