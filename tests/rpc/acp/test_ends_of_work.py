"""Where work of an editor's session ends whose agent, or whose next run, goes on: units of the adapter."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from pinnace_rpc.acp.core import EditorAgent
from pinnace_rpc.acp.figures import Figures
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, RequestError
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.prompts import PromptMessage
from pinnace_rpc.acp.translation.shown import CallFailed, Noticed, Shown
from pinnace_rpc.acp.translation.stop_reasons import TurnResult
from pinnace_rpc.acp.translation.translator import Translator
from pinnace_rpc.acp.translation.v1.lifecycle import Turns
from pinnace_rpc.acp.translation.v2.lifecycle import States
from pinnace_rpc.acp.translation.version import Lifecycle
from pinnace_rpc.acp.turns import PromptTurn
from pinnace_rpc.acp.work import Work

DETACHED = RequestError(INTERNAL_ERROR, "left", {"errorCode": "detached"})


class Replies:
    """Collects responses and updates."""

    def __init__(self) -> None:
        self.refused: list[RequestError] = []
        self.answered: list[Mapping[str, object]] = []
        self.updates: list[Mapping[str, object]] = []

    def respond(self, _: object, result: Mapping[str, object]) -> None:
        self.answered.append(result)

    def refuse(self, _: object, error: RequestError) -> None:
        self.refused.append(error)


@pytest.mark.parametrize(("lost", "code"), [(DETACHED, "detached"), (None, None)])
def test_a_prompt_whose_fate_is_not_known_is_not_said_to_be_without_a_message(
    lost: RequestError | None, code: str | None
) -> None:
    """Version 2, R-ACP-102: also if it was cancelled. The editor has left, or the agent has died."""
    replies = Replies()
    states = States(replies, replies.updates.append)
    turn = PromptTurn(1, PromptMessage("go", (), ()), "sent", is_cancelled=True)
    states.begin(turn)

    states.end(turn, TurnResult("cancelled", {}), continues=False, lost=lost)

    [refused] = replies.refused
    assert (cast("Mapping[str, object]", refused.data or {})).get("errorCode") == code
    assert replies.updates[-1]["stopReason"] == "cancelled"


def test_work_without_a_prompt_ends_with_its_agent() -> None:
    """Version 1."""
    replies = Replies()
    turns = Turns(replies, replies.updates.append, shows_usage=False)
    turns.work(is_at_work=True, outcome=None)

    turns.stop(DETACHED)

    marks: list[Any] = [cast("Any", each["_meta"])["pinnace"]["running"] for each in replies.updates]
    assert marks == [True, False]


class Unanswered:
    """An agent, and the figures that it is asked for, whose answers come when the test wants."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Mapping[str, object]], None]] = {}
        self.refreshed: Callable[[], None] = lambda: None

    def send(self, command: str, _: object, on_answer: Callable[[Mapping[str, object]], None]) -> None:
        self.answers[command] = on_answer

    def refresh(self, then: Callable[[], None]) -> None:
        self.refreshed = then

    def refresh_models(self) -> None:
        """There are none."""

    def take_spent(self) -> None:
        """It has no figures."""

    def is_handled(self, _: str) -> bool:
        return False


def work_of(
    agent: Unanswered, translator: Translator, lifecycle: Lifecycle, shown: list[Shown], *, has_questions: bool = False
) -> Work:
    figures = cast("Figures", agent)
    core = cast("EditorAgent", agent)
    return Work(
        core,
        Outbox(),
        translator,
        figures,
        lifecycle,
        shown.append,
        lambda: None,
        lambda: has_questions,
        is_at_work=False,
    )


@pytest.mark.parametrize("has_questions", [False, True])
def test_a_cancellation_of_an_idle_session_ends_an_open_question(has_questions: bool) -> None:
    """A command of a former connection may have asked it, of which this one knows no work."""
    agent = Unanswered()
    lifecycle = Turns(Replies(), list[object]().append, shows_usage=False)
    work_of(agent, Translator(), lifecycle, [], has_questions=has_questions).cancel()

    assert has_questions == ("abort" in agent.answers)


def test_the_calls_of_the_next_run_stay_open_when_a_turn_ends() -> None:
    """A steered message begins a run while the last figures of the turn are read."""
    replies, agent, translator, shown = Replies(), Unanswered(), Translator(), list[Shown]()
    turns = Turns(replies, replies.updates.append, shows_usage=False)
    work = work_of(agent, translator, turns, shown)
    work.prompt(1, Params({"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}))
    agent.answers["prompt"]({"success": True, "data": {"disposition": "started"}})
    work.begin()
    work.settle({"type": "agent_settled"})
    work.begin()
    call = {"type": "toolCall", "id": "call_0", "name": "ls", "arguments": {}}
    answer = {"role": "assistant", "content": [call], "stopReason": "toolUse"}
    shown += translator.take({"type": "message_start", "entryId": "a", "message": {**answer, "content": []}})
    shown += translator.take({"type": "message_end", "entryId": "a", "message": answer})

    agent.refreshed()

    assert len(replies.answered) == 1
    assert not [each for each in shown if isinstance(each, CallFailed)]


def test_work_that_was_cancelled_has_ended_before_that_of_a_message_behind_it() -> None:
    """Version 2: a steered message begins a run while the last figures of the turn are read."""
    replies, agent = Replies(), Unanswered()
    work = work_of(agent, Translator(), States(replies, replies.updates.append), [])
    work.prompt(1, Params({"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}))
    work.cancel()
    agent.answers["prompt"]({"success": False, "error": "aborted", "errorCode": "aborted"})
    agent.answers["abort"]({"success": True})
    work.begin()

    assert [(each["state"], each.get("stopReason")) for each in replies.updates] == [
        ("running", None),
        ("idle", "cancelled"),
        ("running", None),
    ]
    agent.refreshed()
    assert len(replies.updates) == 3


def test_keys_that_are_not_read_again_are_shown_to_the_user() -> None:
    replies, agent, shown = Replies(), Unanswered(), list[Shown]()
    work = work_of(agent, Translator(), States(replies, replies.updates.append), shown)
    work.expect_keys()
    work.prompt(1, Params({"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}))
    agent.answers["reload"]({"success": False, "error": "auth.json is no JSON"})

    [notice] = [each for each in shown if isinstance(each, Noticed)]
    assert (notice.severity, "auth.json" in notice.description) == ("warning", True)
