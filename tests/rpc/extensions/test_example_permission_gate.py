"""The permission gate, at work in the real program."""

from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import EXAMPLES, Extended, MakeExtension, Start, call, calls

from pinnace_campaigns.trials.one_shot import OneShotStarter

REMOVE = call("bash", command="rm -rf build")
NAME = "permission_gate.py"


def at_the_gate(extended: Start, gate: str | Path = NAME) -> Extended:
    """An agent whose model wants to remove a folder that is there."""
    one = extended(gate, [REMOVE, {"text": "done"}])
    (one.work / "build").mkdir()
    return one


def test_a_call_that_the_user_approves_runs(extended: Start) -> None:
    one = at_the_gate(extended)
    one.begin("clean up")
    question = one.asked("select")
    call_id = one.pi.wait({"type": "tool_execution_start"}, since=0)["toolCallId"]
    one.reply(question, value="Yes")
    one.pi.wait({"type": "agent_settled"})

    assert not (one.work / "build").exists()
    assert {
        "title": "Run this command?\n\nrm -rf build",
        "options": ["Yes", "No"],
        "timeout": 60_000,
        "toolCallId": call_id,
    } == {name: question[name] for name in ("title", "options", "timeout", "toolCallId")}


@pytest.mark.parametrize(
    "answer",
    [
        {"value": "No"},
        {"cancelled": True},
        {"value": "Yes, please"},
        {"confirmed": True},
        {"value": ["Yes"]},
        {},
    ],
    ids=["no", "cancelled", "not-offered", "of-another-kind", "a-list", "nothing"],
)
def test_any_other_answer_blocks(extended: Start, answer: dict[str, object]) -> None:
    one = at_the_gate(extended)
    one.begin("clean up")
    one.reply(one.asked("select"), **answer)
    one.pi.wait({"type": "agent_settled"})

    assert (one.work / "build").exists()
    assert [("The user did not allow this command.", True)] == one.ends
    assert ["The user did not allow this command."] == one.read


def test_no_answer_in_time_blocks_and_a_late_one_changes_nothing(extended: Start, changed: MakeExtension) -> None:
    one = at_the_gate(extended, changed(NAME, TIMEOUT_S="0.2"))
    one.begin("clean up")
    question = one.asked("select")
    one.pi.wait({"type": "agent_settled"})
    one.reply(question, value="Yes")
    one.pi.ask("get_state")

    assert 200 == question["timeout"]
    assert (one.work / "build").exists()
    assert [("The user did not allow this command.", True)] == one.ends


def test_a_gate_that_raises_blocks(extended: Start, changed: MakeExtension) -> None:
    one = at_the_gate(extended, changed(NAME, DANGEROUS="None"))
    one.say("clean up")

    assert (one.work / "build").exists()
    [(event, error)] = one.errors
    assert (event, True) == (
        "tool_call",
        error.startswith("AttributeError: 'NoneType' object has no attribute 'search' ("),
    )
    [(text, is_error)] = one.ends
    assert is_error
    assert "'NoneType' object has no attribute 'search'" in text


def test_a_harmless_command_runs_without_a_question(extended: Start) -> None:
    one = extended(NAME, [call("bash", command="echo fine"), {"text": "done"}])
    one.say("go")

    assert [("fine\n", False)] == one.ends
    assert [] == one.frames()


def test_two_calls_of_one_turn_are_asked_about_one_after_the_other(extended: Start) -> None:
    one = extended(
        NAME, [calls(("bash", {"command": "rm -rf a"}), ("bash", {"command": "rm -rf b"})), {"text": "done"}]
    )
    for name in "ab":
        (one.work / name).mkdir()
    one.begin("clean up")
    first = one.asked("select")
    one.reply(first, value="No")
    second = one.asked("select")
    one.reply(second, value="Yes")
    one.pi.wait({"type": "agent_settled"})

    assert ["a"] == [path.name for path in one.work.iterdir()]
    assert first["toolCallId"] != second["toolCallId"]


def test_without_a_user_it_denies_the_call(print_agent: OneShotStarter) -> None:
    def prepare(work: Path) -> None:
        (work / "build").mkdir()

    words = ["-p", "clean up", "-e", str(EXAMPLES / NAME)]
    one_shot = print_agent(words, [REMOVE, {"text": "done"}], prepare=prepare)
    printed = one_shot.end()

    assert (0, "done\n") == (printed.code, printed.out)
    assert (one_shot.home.work / "build").exists()
    assert "no user to ask" in str(one_shot.llm.requests[-1].body["messages"][-1]["content"])
