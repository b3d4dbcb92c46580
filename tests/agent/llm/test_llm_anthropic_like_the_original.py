"""The efforts of Anthropic's answers, and models that may answer for another, as the original sends and records them.

What release 1.5.2 sent is kept in tests/data, so that this runs without it. Where it is present it must still send
that. To record anew, delete the file and run this with the original.
"""

from typing import Final, cast

import pytest
from tests.agent.llm.conversations import BASH, answer, call, result, thinking
from tests.agent.llm.original_providers import ProviderCase, ask_original, built_in, compared, sent
from tests.agent.llm.recording import Recorder
from tests.agent.samples import text_block, user
from tests.recorded import RecordedList

from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.provider import AnthropicMessagesProvider
from pinnace_agent.llm.anthropic.request import request_body
from pinnace_agent.llm.anthropic.thinking import thinking_of
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.raw_server import RawServer
from pinnace_spec.records.messages import THINKING_LEVELS, AssistantMessage, Message, Model, ThinkingLevel

RECORD: Final = RecordedList("anthropic-efforts")


def model(model_id: str) -> Model:
    """Return a model without the threads of the original, which keep the conversation on the server."""
    found = built_in("anthropic", model_id)
    compat = {**(found.get("compat") or {}), "supportsMessageThreads": False}
    return cast("Model", {**found, "compat": compat})


OPUS, FABLE, BEFORE = model("claude-opus-5"), model("claude-fable-5-1"), model("claude-opus-4-8")

FALLING_BACK = model("claude-fable-5")


def said(of: Model, effort: str | None, *content: object) -> AssistantMessage:
    """Return an answer that was given with an effort."""
    message = answer(of, *(content or (text_block("Yes."),)))  # type: ignore[arg-type]  # the blocks of tests
    return message if effort is None else {**message, "providerThinkingLevel": effort}


CALL: Final = (thinking("Hm.", "c2ln"), call("toolu_1", command="ls"))
HISTORIES: Final[dict[str, list[Message]]] = {
    "none": [user("hi")],
    "the same": [user("hi"), said(OPUS, "high"), user("go on")],
    "another": [user("hi"), said(OPUS, "low"), user("go on"), said(OPUS, "max"), user("and")],
    "without one": [user("hi"), said(OPUS, None), user("go on")],
    "no effort": [user("hi"), said(OPUS, "none"), user("go on")],
    "a call": [user("hi"), said(OPUS, "medium", *CALL), result("toolu_1", "a file"), said(OPUS, "low"), user("and")],
    "another model": [user("hi"), said(FABLE, "medium"), user("go on"), said(BEFORE, None), user("and")],
    "another provider": [user("hi"), said({**OPUS, "provider": "openrouter"}, "medium"), user("go on")],
    "an empty answer": [user("hi"), said(OPUS, "medium", text_block(" ")), user("go on")],
}
CASES: Final = [
    *(ProviderCase(f"level {level}, {of['id']}", of, [user("hi")], {}, level, (BASH,)) for of in (OPUS, FABLE, BEFORE)
      for level in THINKING_LEVELS),
    *(ProviderCase(f"{name}, {level}", OPUS, messages, {}, level) for name, messages in HISTORIES.items()
      for level in ("off", "medium", "max")),
    *(ProviderCase(f"level {level}, with others", FALLING_BACK, [user("hi")], {}, level, (BASH,))
      for level in ("off", "high")),
    *(ProviderCase(f"{name}, before", BEFORE, messages, {}, "medium") for name, messages in HISTORIES.items()),
]  # fmt: skip
ENV: Final = {"ANTHROPIC_API_KEY": "key"}


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    RECORD.check(ask_original(original_pi, [case._replace(variables=ENV) for case in CASES]))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: ProviderCase) -> None:
    (theirs,) = (each for each in RECORD.read() if each["case"] == case.name)
    assert compared(sent(case), case) == compared(theirs, case)


def test_another_effort_leaves_what_is_cached_as_it_is() -> None:
    """All that precedes the last marker of the request before is in the next one, whatever its level is."""

    def body(level: str, messages: list[Message]) -> dict[str, object]:
        request = LlmRequest(OPUS, "Be brief.", messages, (BASH,), level, "key", {}, "s1")  # type: ignore[arg-type]  # a level
        compat = compat_of(OPUS)
        return request_body(request, compat, "none", thinking_of(request, compat))

    first = body("low", [user("hi")])
    second = body("max", [user("hi"), said(OPUS, "low"), user("go on")])
    assert {**first, "messages": ()} == {**second, "messages": ()}
    before, after = cast("list[object]", first["messages"]), cast("list[object]", second["messages"])
    assert after[: len(before)] == before


@pytest.mark.parametrize(
    ("of", "level", "effort"),
    [
        (OPUS, "minimal", "low"),
        (OPUS, "max", "max"),
        ({**OPUS, "thinkingLevelMap": {"off": None}}, "off", "high"),
        (OPUS, "off", None),
        (BEFORE, "max", None),
    ],
)
async def test_an_answer_keeps_its_effort(of: Model, level: ThinkingLevel, effort: str | None) -> None:
    """Also one that has failed; a session has it then for the requests that follow."""
    with RawServer(lambda reply: reply.whole(b"", status="400 No")) as server:
        request = LlmRequest({**of, "baseUrl": server.url}, "", [user("hi")], (), level, "key", {}, "s1")
        builder = MessageBuilder(request.model, Recorder(), 0)
        await AnthropicMessagesProvider().stream(request, builder)
        await close_clients()
    assert builder.message.get("providerThinkingLevel") == effort
