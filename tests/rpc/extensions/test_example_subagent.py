"""An agent that starts agents, by the program's own protocol."""

import time

from tests.rpc.extensions.conftest import EXAMPLES, Start, call, calls

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

NAME = "subagent.py"


def test_complete_returns_the_answer_and_its_usage(extended: Start) -> None:
    one = extended(
        NAME,
        [call("subagent", task="count the sails"), {"text": ["two ", "sails"]}, {"text": "done"}],
    )
    one.say("hand it on")
    end = one.pi.found({"type": "tool_execution_end"})[0]
    updates = [each["partialResult"]["content"] for each in one.pi.found({"type": "tool_execution_update"})]

    assert [("two sails", False)] == one.ends
    assert "count the sails" == end["result"]["details"]["task"]
    assert 15 == end["result"]["details"]["tokens"]["total"]
    assert [{"type": "text", "text": "two sails"}] == updates[-1]
    assert "subagent" not in str(one.pi.llm.requests[1].body.get("tools"))


def test_several_work_side_by_side(extended: Start) -> None:
    gated = [{"chunks": [{"text": name}, {"gate": name}, {"text": "!"}], "match": f"find {name}"} for name in "ab"]
    first = calls(("subagent", {"task": "find a"}), ("subagent", {"task": "find b"}))
    one = extended(NAME, [{**first, "match": "hand it on"}, *gated, {"text": "done"}])
    one.begin("hand it on")
    for name in "ab":
        one.pi.llm.wait_reached(name)
    one.pi.llm.release("a", "b")
    one.pi.wait({"type": "agent_settled"})

    assert {("a!", False), ("b!", False)} == set(one.ends)


def test_an_abort_ends_the_child(extended: Start) -> None:
    one = extended(NAME, [call("subagent", task="sleep"), {"chunks": [{"text": "zzz"}, {"gate": "g"}]}])
    one.begin("hand it on")
    one.pi.llm.wait_reached("g")
    assert one.pi.descendants()
    one.pi.ask("abort")
    deadline_s = time.monotonic() + 60
    while one.pi.descendants():
        assert time.monotonic() < deadline_s, "the child is still there"
        time.sleep(0.01)

    assert 1 == len(one.pi.llm.wait_disconnects(1))


def test_a_child_that_fails_is_an_error_of_the_call(extended: Start) -> None:
    refused: Scripted = {"error": {"status": 400, "body": {"error": {"message": "not today"}}}}
    one = extended(NAME, [call("subagent", task="x"), refused, {"text": "done"}])
    one.say("hand it on")

    [(text, is_error)] = one.ends
    assert is_error
    assert "not today" in text


def test_it_works_without_a_client(print_agent: OneShotStarter) -> None:
    script: list[Scripted] = [call("subagent", task="count"), {"text": "two"}, {"text": "done"}]
    one_shot = print_agent(["-p", "hand it on", "-e", str(EXAMPLES / NAME)], script)

    assert (0, "done\n", "") == one_shot.end()
