"""A provider whose `stream_simple` answers: whole conversations, and whatever such a function may do wrong."""

from collections.abc import Callable

import pytest
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, rejected_provider

SECRET = "sk-stream-secret-123456"
# Answers as the last message of the user says.
STREAMS = f"""
import pathlib
import time

import trio

DONE = {{"type": "done", "reason": "stop", "usage": {{"input": 10, "output": 5}}}}
tried = []


def words(*texts):
    yield {{"type": "start"}}
    yield {{"type": "text_start", "contentIndex": 0}}
    for text in texts:
        yield {{"type": "text_delta", "contentIndex": 0, "delta": text}}


async def stream(model, context, options):
    last = context.messages[-1]
    said = "".join(block["text"] for block in last["content"] if block["type"] == "text")
    if last["role"] == "toolResult":
        for event in words("the tool said ", said):
            yield event
        yield DONE
        return
    match said:
        case "hang":
            try:
                for event in words("begun"):
                    yield event
                await trio.sleep_forever()
            finally:
                pathlib.Path("closed").touch()
        case "raise":
            raise RuntimeError("broken, with " + options.api_key)
        case "exit":
            raise SystemExit(3)
        case "late":
            for event in words("half"):
                yield event
            raise ValueError("in the middle")
        case "wrong":
            yield {{"type": "start"}}
            yield {{"type": "text_delta", "contentIndex": 4, "delta": "x"}}
        case "end":
            for event in words("half"):
                yield event
        case "again":
            tried.append(1)
            if len(tried) < 2:
                yield {{"type": "error", "reason": "error", "error": "503 service unavailable"}}
            else:
                for event in words("second"):
                    yield event
                yield DONE
        case "call":
            yield {{"type": "toolcall_start", "contentIndex": 0, "id": "c1", "toolName": "bash"}}
            yield {{
                "type": "toolcall_end",
                "contentIndex": 0,
                "toolCall": {{"id": "c1", "name": "bash", "arguments": {{"command": "echo hi"}}}},
            }}
            yield {{"type": "done", "reason": "toolUse"}}
        case "see":
            names = sorted(tool["name"] for tool in context.tools)
            key = options.api_key[::-1]  # a key is redacted
            text = f"{{model['id']}} {{key}} {{options.thinking_level}} {{dict(options.headers)}} {{names}}"
            context.messages[0]["content"] = "changed"
            for event in words(text, " ", context.system_prompt[:3]):
                yield event
            yield DONE
        case _:
            for event in words("said ", said):
                yield event
            yield DONE


def in_a_thread(model, context, options):
    yield from words("from ", "a thread")
    time.sleep(0.01)
    yield DONE


def no_stream(model, context, options):
    return 7


def extension(pi):
    models = [{{"id": "m", "reasoning": True, "cost": {{"input": 1000000, "output": 1000000}}}}]
    for name, function in (("s", stream), ("t", in_a_thread), ("n", no_stream)):
        pi.register_provider(
            name,
            base_url="http://127.0.0.1",
            api="mine-" + name,
            api_key="{SECRET}",
            headers={{"x-a": "b"}},
            models=models,
            stream_simple=function,
        )
"""


@pytest.fixture
def streams(extended: Start, written: MakeExtension) -> Callable[..., Extended]:
    def start(provider: str = "s", **options: object) -> Extended:
        words = ("--provider", provider, "--model", "m")
        return extended(written(STREAMS), (), *words, names_model=False, **options)

    return start


def last(one: Extended) -> dict[str, object]:
    message: dict[str, object] = one.pi.ask("get_messages")["messages"][-1]
    return message


def answer(one: Extended, text: str) -> str:
    one.say(text)
    return str(one.pi.ask("get_last_assistant_text")["text"])


def test_a_stream_becomes_an_answer_with_usage_and_cost(streams: Callable[..., Extended]) -> None:
    one = streams()
    assert "said hello" == answer(one, "hello")
    stats = one.pi.ask("get_session_stats")
    assert (10, 5, 15.0) == (stats["tokens"]["input"], stats["tokens"]["output"], stats["cost"])
    updates = [each["assistantMessageEvent"]["type"] for each in one.pi.found({"type": "message_update"})]
    assert ["text_start", "text_delta", "text_delta", "text_end"] == [each for each in updates if each != "start"]
    assert "m" in [each["id"] for each in one.pi.ask("get_available_models")["models"] if each["provider"] == "s"]


def test_a_stream_sees_the_request_and_changes_nothing_by_it(streams: Callable[..., Extended]) -> None:
    one = streams()
    text = answer(one, "see")
    assert f"m {SECRET[::-1]} medium {{'x-a': 'b'}} ['bash', 'edit', 'read', 'write']" in text
    assert "see" in str(one.pi.ask("get_messages")["messages"][0])


def test_a_stream_calls_tools(streams: Callable[..., Extended]) -> None:
    one = streams()
    assert "the tool said hi" in answer(one, "call")


def test_an_abort_closes_the_stream(streams: Callable[..., Extended]) -> None:
    one = streams()
    one.begin("hang")
    one.pi.wait({"type": "message_update"})
    one.pi.ask("abort")
    assert "aborted" == last(one)["stopReason"]
    assert (one.work / "closed").exists()
    assert "said more" == answer(one, "more")


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("raise", ['stream_simple of provider "s"', "broken, with [redacted]"]),
        ("exit", ['stream_simple of provider "s"', "SystemExit: 3"]),
        ("late", ["in the middle"]),
        ("wrong", ['event 2 (text_delta): "contentIndex"', "open block"]),
        ("end", ['ended without "done" or "error"']),
    ],
)
def test_whatever_goes_wrong_in_a_stream_fails_its_request_alone(
    streams: Callable[..., Extended], deed: str, words: list[str]
) -> None:
    one = streams(settings={"retry": {"enabled": False}})
    one.say(deed)
    message = last(one)
    assert "error" == message["stopReason"]
    assert all(word in str(message["errorMessage"]) for word in words), message
    assert "said on" == answer(one, "on")
    assert SECRET not in one.pi.stderr_text


def test_a_transient_error_of_a_stream_is_tried_again(streams: Callable[..., Extended]) -> None:
    one = streams(settings={"retry": {"enabled": True, "baseDelayMs": 1}})
    assert "second" == answer(one, "again")
    assert one.pi.found({"type": "auto_retry_start"})


def test_a_plain_generator_is_read_in_a_thread(streams: Callable[..., Extended]) -> None:
    assert "from a thread" == answer(streams("t"), "hello")


def test_a_function_that_returns_no_stream_fails_the_request(streams: Callable[..., Extended]) -> None:
    one = streams("n")
    one.say("hello")
    assert 'provider "n": it must return an async iterator of events, not int' in str(last(one)["errorMessage"])


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ("api='a', api_key='k', stream_simple=7", "stream_simple"),
        ("api='a', api_key='k', stream_simple=lambda model: []", "(model, context, options)"),
        ("api_key='k', stream_simple=lambda model, context, options: []", "needs api"),
        ("api='a', models=[{'id': 'm'}], stream_simple=lambda model, context, options: []", "api_key or oauth"),
    ],
)
def test_a_wrong_registration_is_refused_where_it_is_made(
    extended: Start, written: MakeExtension, fields: str, word: str
) -> None:
    assert word in extended(written(rejected_provider(fields)), ()).notice()


def test_the_example_of_a_stream(extended: Start) -> None:
    one = extended("echo_provider.py", (), "--provider", "echo", "--model", "parrot", names_model=False)
    assert "ahoy there" == answer(one, "ahoy there")
