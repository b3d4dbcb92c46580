"""Texts that go with a message: where they stand, who reads them, that they live as long as the message. R-MSG-09."""

import os
import signal

import pytest
from tests.rpc.extensions.conftest import EXAMPLES

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
CONTEXT = [{"uri": "file:///a.py", "mimeType": "text/x-python", "text": "print(1)"}, {"uri": 'b"\n', "text": "/plan"}]
BLOCKS = [
    {"type": "text", "text": '<file name="file:///a.py">\nprint(1)\n</file>\n'},
    {"type": "text", "text": '<file name="b%22%0A">\n/plan\n</file>\n'},
]
SETTLED = {"type": "agent_settled"}


def contents(pi: HomedAgent) -> list[list[Record]]:
    messages = pi.ask("get_messages")["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


def test_what_goes_with_a_message_is_behind_its_text_and_reaches_the_model(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}])
    pi.ask("prompt", message="go", images=[IMAGE], context=CONTEXT)
    pi.wait(SETTLED)

    [content] = contents(pi)
    assert [{"type": "text", "text": "go"}, *BLOCKS, IMAGE] == content
    sent = pi.llm.requests[0].body["messages"][-1]["content"]
    assert ["go", *(block["text"] for block in BLOCKS)] == [part["text"] for part in sent if part["type"] == "text"]


def test_a_template_is_expanded_in_the_text_alone(agent: AgentStarter) -> None:
    first = agent([{"text": "one"}])
    first.check_end()
    (first.home.agent_dir / "prompts").mkdir()
    (first.home.agent_dir / "prompts" / "plan.md").write_text("Make a plan: $1")
    pi = agent(again=first)
    pi.ask("prompt", message="/plan now", context=CONTEXT)
    pi.wait(SETTLED)

    assert [[{"type": "text", "text": "Make a plan: now"}, *BLOCKS]] == contents(pi)


@pytest.mark.parametrize("name", ["steer", "follow_up"])
def test_a_queued_message_keeps_it_through_a_crash(agent: AgentStarter, name: str) -> None:
    first = agent([{"chunks": [{"text": "one"}, {"hang": True}]}], has_session=True, is_checked=False)
    first.ask("prompt", message="go")
    first.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    first.ask(name, message="and this", context=CONTEXT)
    os.kill(first.process.pid, signal.SIGKILL)
    first.wait_exit()

    pi = agent([{"text": "more", "repeat": -1}], "--continue", again=first)
    [waiting] = pi.ask("get_queue")["messages"]
    assert ("and this", 0) == (waiting["text"], waiting["imageCount"])
    pi.ask("abort", queue="continue")
    pi.wait(SETTLED)

    assert [{"type": "text", "text": "and this"}, *BLOCKS] == contents(pi)[-1]


def test_extensions_that_change_a_message_leave_it(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}], "-e", str(EXAMPLES / "input_transform.py"))
    pi.ask("prompt", message="?quick go", images=[IMAGE], context=CONTEXT)
    pi.wait(SETTLED)

    assert [[{"type": "text", "text": "Answer in one sentence: go"}, *BLOCKS, IMAGE]] == contents(pi)


@pytest.mark.parametrize(
    ("context", "path"),
    [
        ("a", "context"),
        ([1], "context[0]"),
        ([{"uri": "a"}], "context[0].text"),
        ([{"uri": "", "text": ""}], "context[0] uri"),
    ],
)
def test_a_malformed_item_is_refused_by_its_path(agent: AgentStarter, context: object, path: str) -> None:
    pi = agent([])
    answer = pi.request({"type": "prompt", "message": "go", "context": context})

    assert (False, "invalid_field") == (answer["success"], answer["errorCode"])
    assert f"{path} " in answer["error"]
    assert [] == contents(pi)


def test_an_older_generation_does_not_know_it(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}], "--protocol", "seed")
    pi.request({"type": "prompt", "message": "go", "context": CONTEXT})
    pi.wait({"type": "agent_end"})

    assert [[{"type": "text", "text": "go"}]] == contents(pi)
