"""One conversation that goes from any API to any other and back: what each may know of the others' answers.

The answers are constructed after the published formats, never recorded.
"""

import itertools
import json

import pytest
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.providers import find_provider
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_campaigns.trials.model_streams import AZURE, STREAMS, TEXT, THOUGHT, TOOL, ModelStream
from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply
from pinnace_spec.records.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

QUESTION: UserMessage = {"role": "user", "content": "What is here?", "timestamp": 0}
RESULT = "a-file-and-a-folder"
SIGNATURE = "c2ln"

PAIRS = list(itertools.permutations((*STREAMS, AZURE), 2))
NAMES = [f"{one.api} to {other.api}" for one, other in PAIRS]


async def ask(stream: ModelStream, history: list[Message]) -> str:
    """Ask for one answer, add it and the result of its call to the history, and return what was sent."""
    model = served_model(api=stream.api, provider=stream.api, baseUrl="", reasoning=True, cost=prices(1, 2))

    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(*stream.events(TEXT))
        reply.end()

    with RawServer(answer) as server:
        model["baseUrl"] = server.url
        witness = StreamWitness()
        builder = MessageBuilder(model, witness, 0)
        provider = find_provider(stream.api)
        assert provider is not None
        request = LlmRequest(model, "", history, (ToolSpec(TOOL, "Runs.", {"type": "object"}),), "low", "key", {}, "s1")
        await provider.stream(request, builder)
        await close_clients()
    assert witness.judge(builder.message) == []
    history += [builder.message, result_of(builder.message)]
    return json.dumps(json.loads(server.requests[0].body), ensure_ascii=False)


def result_of(message: AssistantMessage) -> ToolResultMessage:
    (call,) = (block for block in message["content"] if block["type"] == "toolCall")
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "content": [{"type": "text", "text": RESULT}],
        "isError": False,
        "timestamp": 0,
    }


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=NAMES)
async def test_an_answer_goes_to_another_api_without_its_thoughts_and_comes_back_with_them(
    one: ModelStream, other: ModelStream
) -> None:
    history: list[Message] = [QUESTION]
    await ask(one, history)
    elsewhere = await ask(other, history)
    back = await ask(one, history)

    assert TEXT in elsewhere
    assert RESULT in elsewhere
    assert THOUGHT not in elsewhere
    assert SIGNATURE not in elsewhere
    assert (back.count(TEXT), back.count(RESULT)) == (2, 2)
    # Where a provider keeps the thoughts itself, their words are not sent, but what names them is.
    assert back.count(THOUGHT) <= 1
    assert THOUGHT in back or "rs_1" in back
    assert (SIGNATURE in back) == (one.api in {"anthropic-messages", "google-generative-ai"})


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=NAMES)
async def test_a_call_of_another_api_has_its_result_under_one_id(one: ModelStream, other: ModelStream) -> None:
    """However the id is made acceptable, it is the same on both sides; Google's older models pair by order alone."""
    history: list[Message] = [QUESTION]
    await ask(one, history)
    body = json.loads(await ask(other, history))

    match other.api:
        case "openai-completions":
            _, answer, result = body["messages"]
            assert answer["tool_calls"][0]["id"] == result["tool_call_id"]
        case "mistral-conversations":
            _, answer, result = body["messages"]
            assert answer["tool_calls"][0]["id"] == result["tool_call_id"]
            assert len(result["tool_call_id"]) == 9
        case "anthropic-messages":
            _, answer, result = body["messages"]
            (call,) = (block for block in answer["content"] if block["type"] == "tool_use")
            assert call["id"] == result["content"][0]["tool_use_id"]
        case "openai-responses" | "azure-openai-responses":
            (call,) = (item for item in body["input"] if item.get("type") == "function_call")
            (output,) = (item for item in body["input"] if item.get("type") == "function_call_output")
            assert call["call_id"] == output["call_id"]
        case _:
            _, answer, result = body["contents"]
            assert answer["parts"][-1]["functionCall"]["name"] == result["parts"][0]["functionResponse"]["name"]
