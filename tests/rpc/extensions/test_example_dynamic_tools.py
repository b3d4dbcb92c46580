"""Tools that come while the session goes on, in the real program."""

from tests.rpc.extensions.conftest import EXAMPLES, Start, call

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

NAME = "dynamic_tools.py"


def test_a_tool_of_the_start_is_declared_and_described(extended: Start) -> None:
    one = extended(NAME, [call("echo_session", message="hello"), {"text": "done"}])
    one.say("go")

    assert [("[session] hello", False)] == one.ends
    assert "echo_session" in one.declared
    assert "Say a message after '[session] '" in one.prompt
    assert "Use echo_session whenever" in one.prompt


def test_a_tool_of_a_command_is_there_with_the_next_request(extended: Start) -> None:
    one = extended(NAME, [{"text": "one"}, call("shout", message="hello"), {"text": "done"}])
    one.say("first")
    assert "shout" not in one.declared
    one.command("/echo-tool shout HEY")
    reported = one.notice()
    one.say("second")

    assert reported.endswith("echo_session, shout")
    assert "shout" in one.declared
    assert "Use shout whenever" in one.prompt
    assert [("HEY: hello", False)] == one.ends


def test_a_tool_that_is_taken_out_is_not_declared(extended: Start) -> None:
    one = extended(NAME, [{"text": "one"}, call("echo_session", message="hello"), {"text": "done"}])
    one.say("first")
    one.command("/quiet echo_session")
    one.say("second")

    assert "echo_session" not in one.declared
    assert "Use echo_session" not in one.prompt
    [(text, is_error)] = one.ends
    assert is_error
    assert "echo_session" in text


def test_registering_a_name_again_replaces_the_tool(extended: Start) -> None:
    one = extended(NAME, [call("shout", message="hello"), {"text": "done"}])
    one.command("/echo-tool shout HEY")
    one.command("/echo-tool shout HO")
    one.say("go")

    assert [("HO: hello", False)] == one.ends
    assert 1 == one.declared.count("shout")


def test_it_works_without_a_client(print_agent: OneShotStarter) -> None:
    script: list[Scripted] = [call("echo_session", message="hello"), {"text": "done"}]
    one_shot = print_agent(["-p", "go", "-e", str(EXAMPLES / NAME)], script)

    assert (0, "done\n", "") == one_shot.end()
    assert "[session] hello" in str(one_shot.llm.requests[-1].body["messages"][-1]["content"])
