"""Commands from inside the agent whose answer somebody waits for.

They pass the chart like those of clients, so they wait behind what clients have sent, and are refused as those are.
Their numbers are below zero, so that nobody takes them for a client's. Must not know who asks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import trio

from pinnace_agent.refusals import refusal
from pinnace_agent.session.replacement import SessionRequest
from pinnace_statechart import effects as fx


@dataclass(slots=True)
class InnerRequest:
    """One command, and what has become of it."""

    ref: int
    text: str = ""
    session: SessionRequest | None = None
    instructions: str | None = None
    on_refused: Callable[[str], None] | None = None
    """Told why it was refused, if nobody waits."""
    problem: str | None = None
    """Why it was refused."""
    is_cancelled: bool = False
    result: Mapping[str, object] | None = None
    answered: trio.Event = field(default_factory=trio.Event)


class InnerRequests:
    """Those that are not answered yet, by number."""

    def __init__(self) -> None:
        """Begin with none."""
        self._last = 0
        self._open: dict[int, InnerRequest] = {}

    def __getitem__(self, ref: int) -> InnerRequest:
        """Return a request that is not answered yet."""
        return self._open[ref]

    def new(self) -> InnerRequest:
        """Return a request with a number of its own."""
        self._last -= 1
        request = self._open[self._last] = InnerRequest(self._last)
        return request

    def accept(self, effect: fx.Accept) -> None:
        """Take the answer of the chart."""
        self._open[effect.ref].is_cancelled = bool(effect.cancelled)
        self._answer(effect.ref)

    def accept_compact(self, ref: int, result: Mapping[str, object]) -> None:
        """Take what a compaction has made."""
        self._open[ref].result = result
        self._answer(ref)

    def refuse(self, effect: fx.Refuse) -> None:
        """Take the chart's refusal."""
        request = self._open[effect.ref]
        request.problem = refusal(effect).text
        if request.on_refused is not None:
            request.on_refused(request.problem)
        self._answer(effect.ref)

    def _answer(self, ref: int) -> None:
        self._open.pop(ref).answered.set()
