"""Faults: of the model's server, of the client's end, of the process itself; each in several states."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from pinnace_fuzz.judge.campaigns.cases import case
from pinnace_fuzz.judge.campaigns.states import START, STATES
from pinnace_fuzz.judge.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
    from pinnace_fuzz.judge.playing.pool import Pool

NAME = "faults"
_MODEL: tuple[Mapping[str, Any], ...] = (
    *({"error": status} for status in (400, 401, 429, 500, 503, 529)),
    {"overflow": True},
    {"refuse": "rst"},
    {"refuse": "fin"},
    {"text": ["one", " two"], "cut": "rst"},
    {"text": ["one", " two"], "cut": "fin"},
    {"chunks": [{"text": "one"}, {"raw": "data: {broken\n\n"}]},
    {"chunks": [{"text": "one"}, {"raw": "data: null\n\n"}]},
    {"chunks": [{"text": "one"}, {"event": {"error": {"message": "Overloaded", "type": "overloaded_error"}}}]},
    {"text": ["one"], "finish": None, "done": False},
    {"text": ["one"], "finish": "length"},
    {"text": ["one"], "finish": "content_filter"},
    {"tool": {"name": "nosuchtool", "args": {}}},
    {"tool": {"name": "bash", "args": "{broken"}},
    {"tool": {"name": "bash", "args": {}}},
    {"tool": [{"name": "bash", "args": {"command": "echo a"}}, {"name": "bash", "args": {"command": "exit 3"}}]},
    {"chunks": [{"finish": "stop"}]},
)
_PROMPT = {"send": START}
_STEER = {"send": {"id": "st", "type": "steer", "message": "STEERED"}}
_ABORT = {"send": {"id": "ab", "type": "abort"}}


def model_faults() -> Iterator[Scenario]:
    """Yield answers that fail, once and for ever, with and without a queued text."""
    for line in _MODEL:
        needs = ["llm", "tools"] if "tool" in line else ["llm"]
        yield case(NAME, [_PROMPT, "quiet"], [line], needs=needs)
        yield case(NAME, [_PROMPT, _STEER, "quiet"], [line, line, line], needs=needs)
    stalled = {"text": ["one"], "stall": True}
    yield case(NAME, [_PROMPT, {"try": "delta"}, _ABORT, "quiet"], [stalled], needs=["llm"])
    yield case(NAME, [_PROMPT, {"requests": 1}, _ABORT, "quiet"], [{"gate": "g", "text": "x"}], needs=["llm"])


def client_faults() -> Iterator[Scenario]:
    """Yield ends: stdin closed, signals, a reader that stops, in every state."""
    bash = {"send": {"id": "b", "type": "bash", "command": "sleep 0.3; echo x"}}
    yield case(NAME, [bash, {"close": "stdin"}, {"exit": {"code": None}}], needs=["bash"], exit=None)
    for state in STATES.values():
        fields: dict[str, Any] = {} if state.settings is None else {"settings": state.settings}
        for end in ({"close": "stdin"}, {"signal": "TERM"}):
            yield case(
                NAME, [*state.client, end, {"exit": {"code": None}}], state.llm, needs=state.needs, exit=None, **fields
            )
        yield case(
            NAME,
            [
                *state.client,
                {"reading": False},
                {"send": [{"id": f"r{n}", "type": "get_state"} for n in range(200)]},
                {"reading": True},
            ],
            state.llm,
            needs=state.needs,
            **fields,
        )


def deaths() -> Iterator[Scenario]:
    """Yield kills in every state, with the session opened again."""
    for state in STATES.values():
        fields: dict[str, Any] = {} if state.settings is None else {"settings": state.settings}
        before = [{"send": {"id": "w", "type": "prompt", "message": "BEFORE"}}, "quiet"]
        after = [
            {"restart": "same"},
            {"send": [{"id": "m", "type": "get_messages"}, {"id": "z", "type": "get_state"}]},
            "answered",
        ]
        # Requests count from the beginning of the case.
        client = [{"requests": 2} if step == {"requests": 1} else step for step in state.client]
        needs = sorted({*state.needs, "llm", "resume", "sessions"})
        yield case(
            NAME, [*before, *client, *after], [{"text": "before"}, *state.llm], needs=needs, has_session=True, **fields
        )


def faults(run: "CampaignRun", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """Play them all, those of the client first: they are the fewest and show the most."""
    for group in (client_faults(), model_faults(), deaths()):
        for each in group:
            if is_over():
                return
            if run.fits(each):
                run.try_case(pool, each, NAME)
