"""What a client of the simulation knows of dialogs: their outcomes are the answers, or what stands for none."""

import random

import pytest

from pinnace_fuzz.simulation.dialogs import Dialogs
from pinnace_fuzz.simulation.hosted.dialogs import SharedDialogs

REQUEST = {"type": "extension_ui_request", "id": "1", "method": "confirm", "title": "ask 1"}


def notify(text: str) -> dict[str, object]:
    return {"type": "extension_ui_request", "id": "n", "method": "notify", "message": text}


def opened(found: list[str], **fields: object) -> tuple[Dialogs, str]:
    """Return dialogs of which one was answered, and the answer as it is reported."""
    for seed in range(100):
        dialogs = Dialogs(random.Random(seed), lambda _, text: found.append(text))
        if (answer := dialogs.take({**REQUEST, **fields})) is not None:
            return dialogs, str(dialogs.answered(answer[1])["confirmed"])
    raise AssertionError("none was answered")


@pytest.mark.parametrize("is_answer", [True, False])
def test_without_a_limit_the_outcome_is_the_answer(is_answer: bool) -> None:
    """Nothing else has ended it."""
    found: list[str] = []
    dialogs, answer = opened(found)

    dialogs.take(notify(f"ask 1={answer if is_answer else answer == 'False'}"))

    assert is_answer == (not found)


@pytest.mark.parametrize("leave", [True, False])
def test_an_abort_or_a_limit_may_have_ended_it(leave: bool) -> None:
    """Then the outcome is what stands for none."""
    found: list[str] = []
    dialogs, _ = opened(found, **({} if leave else {"timeout": 500}))
    if leave:
        dialogs.leave()

    dialogs.take(notify("ask 1=False"))

    assert [] == found


def test_an_outcome_comes_once() -> None:
    """A second one, or one of a dialog that was not opened, is reported."""
    found: list[str] = []
    dialogs, answer = opened(found)
    for text in (f"ask 1={answer}", f"ask 1={answer}", "ask 2=True"):
        dialogs.take(notify(text))

    assert 2 == len(found)
    assert not dialogs.is_open


@pytest.mark.parametrize(
    ("event", "outcome", "is_found"),
    [
        ("", "True", False),
        ("", "False", True),
        ("abort", "False", False),
        ("abort", "a", True),
        ("again", "True", True),
        ("another session", "a", False),
        ("an open replacement", "a", False),
    ],
)
def test_of_a_host_one_of_the_answers_is_the_outcome(event: str, outcome: str, is_found: bool) -> None:
    """Unless something has ended the dialog; and its command is executed once, unless it was given again."""
    found: list[str] = []
    dialogs, draws = SharedDialogs(lambda _, text: found.append(text)), random.Random(0)
    dialogs.command(draws)
    dialogs.take(REQUEST, draws)
    dialogs.answered({"id": "1", "confirmed": True})
    match event:
        case "abort":
            dialogs.send("client", {"id": "c1", "type": "abort"})
        case "an open replacement":
            dialogs.send("client", {"id": "c1", "type": "fork"})
        case "again":
            dialogs.take({**REQUEST, "id": "2"}, draws)
        case "another session":
            dialogs.forget()
        case _:
            pass
    dialogs.take(notify(f"ask 1={outcome}"), draws)

    assert is_found == bool(found)


def test_a_dialog_of_a_session_that_is_not_announced_is_found() -> None:
    """The answer of the command that has begun it comes first."""
    found: list[str] = []
    dialogs = Dialogs(random.Random(0), lambda _, text: found.append(text))
    dialogs.follow({"message": "/ask 1 confirm 0.0"}, ["c1"])
    dialogs.take(REQUEST)
    dialogs.replaced("c1")
    dialogs.take(REQUEST)

    assert ["'ask 1' is opened, and the session that it belongs to is not announced yet"] == found[:1]
