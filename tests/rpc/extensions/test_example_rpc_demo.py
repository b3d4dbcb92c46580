"""Every frame of the dialogs' protocol, byte for byte what a client gets."""

import pytest
from tests.rpc.extensions.conftest import EXAMPLES, Extended, Start

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.records import Record

NAME = "rpc_demo.py"
# Of which kind an answer has to be, by dialog.
ANSWERS: dict[str, dict[str, object]] = {
    "select": {"value": "green"},
    "confirm": {"confirmed": True},
    "input": {"value": "Bob"},
    "editor": {"value": "edited"},
}


def plain(frame: Record) -> Record:
    return {name: value for name, value in frame.items() if name not in ("type", "id")}


def demo(one: Extended, answers: dict[str, dict[str, object]]) -> str:
    """Run the demo with these answers; return what it shows of them."""
    command = one.begin("/demo")
    for method, answer in answers.items():
        one.reply(one.asked(method), **answer)
    shown = one.notice()
    one.accepted(command)
    return shown


def test_every_record_follows_the_protocol(extended: Start) -> None:
    one = extended(NAME)
    assert "green True Bob 'edited'" == demo(one, ANSWERS)
    one.pi.ask("get_state")

    assert [
        {"method": "setStatus", "statusKey": "demo", "statusText": "ready"},
        {"method": "select", "title": "Which colour?", "options": ["red", "green"], "timeout": 10_000},
        {"method": "confirm", "title": "Sure?", "message": "This asks only once."},
        {"method": "input", "title": "Your name?", "placeholder": "Ann"},
        {"method": "editor", "title": "Edit this", "prefill": "first line\nsecond line"},
        {"method": "notify", "message": "green True Bob 'edited'", "notifyType": "info"},
        {"method": "setStatus", "statusKey": "demo", "statusText": "asked"},
        {"method": "setWidget", "widgetKey": "demo", "widgetLines": ["one", "two"], "widgetPlacement": "belowEditor"},
        {"method": "setTitle", "title": "demo"},
        {"method": "set_editor_text", "text": "/demo"},
        {"method": "set_editor_text", "text": " again", "paste": True},
        {"method": "setStatus", "statusKey": "demo"},
        {"method": "setWidget", "widgetKey": "demo"},
    ] == [plain(frame) for frame in one.frames()]
    ids = [frame["id"] for frame in one.frames()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "answer",
    [{"cancelled": True}, {"value": 7}, {"confirmed": "yes"}, {}],
    ids=["cancelled", "a-number", "a-text-for-yes", "nothing"],
)
def test_an_invalid_answer_counts_as_cancelled(extended: Start, answer: dict[str, object]) -> None:
    assert "None False None None" == demo(extended(NAME), dict.fromkeys(ANSWERS, answer))


def test_the_three_kinds_of_answers_are_not_mixed_up(extended: Start) -> None:
    wrong: dict[str, dict[str, object]] = {**ANSWERS, "confirm": {"value": "yes"}, "input": {"confirmed": True}}

    assert "green False None 'edited'" == demo(extended(NAME), wrong)


def test_an_answer_to_nothing_is_dropped(extended: Start) -> None:
    one = extended(NAME)
    for request_id in ("not-asked", 7, None):
        one.pi.send({"type": "extension_ui_response", "id": request_id, "value": "x"})

    assert "green True Bob 'edited'" == demo(one, ANSWERS)


def test_methods_that_need_a_terminal_send_nothing(extended: Start) -> None:
    one = extended(NAME)
    one.command("/demo-terminal")

    assert "('', [], False, False)" == one.notice()
    assert ["setStatus", "notify"] == [frame["method"] for frame in one.frames()]
    assert [] == one.errors


def test_an_error_of_a_command_is_reported(extended: Start) -> None:
    one = extended(NAME)
    one.begin("/demo-error")
    error = one.pi.wait({"type": "extension_error"})

    assert ("command:demo-error", "command") == (error["extensionPath"], error["event"])
    assert "RuntimeError: on purpose (rpc_demo.py, line 59)" == error["error"]


def test_without_a_client_every_question_has_its_default(print_agent: OneShotStarter) -> None:
    printed = print_agent(["-p", "/demo", "-e", str(EXAMPLES / NAME)]).end()

    assert (0, "") == (printed.code, printed.err)


def test_without_a_client_an_error_goes_to_stderr(print_agent: OneShotStarter) -> None:
    printed = print_agent(["-p", "/demo-error", "-e", str(EXAMPLES / NAME)]).end()

    assert "Extension error (command:demo-error): RuntimeError: on purpose" in printed.err
    assert "" == printed.out
