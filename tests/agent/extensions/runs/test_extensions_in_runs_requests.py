"""What extensions have a say in when a model is asked: its context, and what goes over the network by any API."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
import trio

from pinnace_agent.extensions.hooks.request_hooks import ProviderHooks
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.providers import find_provider
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.client import close_clients
from pinnace_spec.records.messages import AssistantMessage, Model

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig
    from tests.agent.extensions.runs.conftest import InRuns


# The context.


async def test_handlers_change_the_request_and_not_the_session(rig: "Rig", in_runs: "InRuns") -> None:

    def in_place(_ctx: object, event: Any) -> None:
        event.messages[0]["content"][0]["text"] = "changed"

    extra = {"role": "user", "content": "more", "timestamp": 1}
    rig.on("context", in_place)
    rig.on("context", lambda _ctx, event: {"messages": [*event.messages, extra, {"role": "unknown"}]})
    async with in_runs.agent(in_runs.says("end")) as agent:
        await agent.prompt("go")
        shown: Any = agent.requests[0].messages
        assert ["changed", "more"] == [shown[0]["content"][0]["text"], shown[1]["content"]]
        assert 2 == len(shown)
        kept: Any = agent.session.messages[0]
        assert "go" == kept["content"][0]["text"]


async def test_context_with_system_has_the_system_prompt(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("context", lambda _ctx, event: {"messages": [*event.messages, event.messages[0]]})

    def handler(_ctx: object, event: Any) -> Any:
        system, *rest = event.messages
        return {"messages": [{**system, "content": f"{system['content']} Be kind."}, *rest[1:]]}

    rig.on("context_with_system", handler)
    async with in_runs.agent(in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert ("The prompt. Be kind.", 1) == (agent.requests[0].system_prompt, len(agent.requests[0].messages))
    assert [] == rig.host.reported


async def test_a_removed_system_message_is_reported_and_applied(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("context_with_system", lambda _ctx, event: {"messages": event.messages[1:]})
    async with in_runs.agent(in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert "" == agent.requests[0].system_prompt
    assert ["context_with_system"] == [event for _, event, _ in rig.host.reported]


# The network.

STREAMS: Mapping[str, str] = {
    "openai-completions": 'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    "openai-responses": (
        'data: {"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":"hi"}\n\n'
        'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}\n\n'
    ),
    "anthropic-messages": (
        'data: {"type":"message_start","message":{"id":"m","usage":{}}}\n\ndata: {"type":"message_stop"}\n\n'
    ),
    "google-generative-ai": 'data: {"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}\n\n',
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Silence:
    def started(self, message: AssistantMessage) -> None:
        pass

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        pass

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()


class Asked:
    """One request that was answered."""

    headers: dict[str, str]
    body: Any
    message: AssistantMessage


async def ask(rig: "Rig", api: str, status: str = "200 OK") -> Asked:
    """Let a provider ask a server of the test, with the extensions of a rig."""
    asked = Asked()

    async def serve(stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some()
        head, _, body = data.partition(b"\r\n\r\n")
        pairs = (line.decode().split(": ", 1) for line in head.split(b"\r\n")[1:])
        asked.headers = {name.lower(): value for name, value in pairs}
        while len(body) < int(asked.headers["content-length"]):
            body += await stream.receive_some()
        asked.body = json.loads(body)
        answer = STREAMS[api].encode()
        await stream.send_all(
            f"HTTP/1.1 {status}\r\nX-Kind: test\r\nContent-Type: text/event-stream\r\n"
            f"Content-Length: {len(answer)}\r\n\r\n".encode()
            + answer
        )

    async with trio.open_nursery() as nursery:
        listeners: Any = await nursery.start(trio.serve_tcp, serve, 0)
        port = listeners[0].socket.getsockname()[1]
        model: Model = {
            "id": "m1", "name": "M", "api": api, "provider": "p", "baseUrl": f"http://localhost:{port}/v1",
            "reasoning": False, "input": ["text"], "contextWindow": 1000, "maxTokens": 100,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        }  # fmt: skip
        hooks = ProviderHooks(rig.runner(), model)
        question: Any = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
        request = LlmRequest(model, "Be brief.", (question,), (), "off", "key", {}, "s1", hooks=hooks)
        builder = MessageBuilder(model, Silence(), 0)
        provider = find_provider(api)
        assert provider is not None
        await provider.stream(request, builder)
        await close_clients()
        nursery.cancel_scope.cancel()
    asked.message = builder.message
    return asked


@pytest.mark.parametrize("api", STREAMS)
async def test_handlers_change_headers_and_body(rig: "Rig", api: str) -> None:

    def headers(_ctx: object, event: Any) -> None:
        event.headers["X-Mine"] = "1"
        for name in list(event.headers):
            if name.lower() in ("authorization", "x-api-key", "x-goog-api-key"):
                event.headers[name] = None

    rig.on("before_provider_headers", headers)
    rig.on("before_provider_request", lambda _ctx, event: {**event.payload, "mine": [1]})
    rig.on("before_provider_request", lambda _ctx, event: {**event.payload, "seen": event.payload["mine"]})
    asked = await ask(rig, api)
    assert "1" == asked.headers["x-mine"]
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & asked.headers.keys()
    assert ([1], [1]) == (asked.body["mine"], asked.body["seen"])
    assert "hi" in json.dumps(asked.body)


@pytest.mark.parametrize("api", STREAMS)
async def test_provider_events_fire_from_the_head_to_the_last_event(rig: "Rig", api: str) -> None:
    seen: list[Any] = []
    rig.on("after_provider_response", lambda _ctx, event: seen.append((event.status, event.headers["x-kind"])))
    rig.on("provider_stream_event", lambda _ctx, event: seen.append((event.api, event.model, event.data)))
    await ask(rig, api)
    texts = [line.removeprefix("data: ") for line in STREAMS[api].splitlines() if line.startswith("data: {")]
    assert [(200, "test"), *((api, "m1", json.loads(text)) for text in texts)] == seen


async def test_a_refusal_has_a_head_too(rig: "Rig") -> None:
    seen: list[int] = []
    rig.on("after_provider_response", lambda _ctx, event: seen.append(event.status))
    asked = await ask(rig, "openai-completions", "429 Too Many Requests")
    assert ([429], "error") == (seen, asked.message["stopReason"])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("no object", "what an extension has made of its body is no JSON: it is no object"),
        ({"a": {1, 2}}, "before_provider_request: payload.a: set is not JSON"),
        ({"a": [float("nan")]}, "before_provider_request: payload.a[0]: nan is not a number of JSON"),
    ],
)
async def test_a_body_that_is_not_json_fails_the_request(rig: "Rig", body: object, text: str) -> None:
    rig.on("before_provider_request", lambda *_: body)
    with pytest.raises(AttributeError):  # nothing was sent
        _ = (asked := await ask(rig, "openai-completions")).headers
    assert "error" == asked.message["stopReason"]
    assert text in asked.message.get("errorMessage", "")


async def test_headers_that_are_no_headers_fail_the_request(rig: "Rig") -> None:
    """A handler that was to take one out must not be passed over."""
    rig.on("before_provider_headers", lambda _ctx, event: event.headers.update(mine=3))
    with pytest.raises(AttributeError):  # nothing was sent
        _ = (asked := await ask(rig, "openai-completions")).headers
    assert "error" == asked.message["stopReason"]
    assert "before_provider_headers: a header is a string or None" in asked.message.get("errorMessage", "")


async def test_a_handler_that_fails_changes_nothing(rig: "Rig") -> None:

    def fails(_ctx: object, _event: object) -> None:
        raise ValueError("broken")

    names = (
        "before_provider_headers",
        "before_provider_request",
        "after_provider_response",
        "provider_stream_event",
    )
    for name in names:
        rig.on(name, fails)
    asked = await ask(rig, "openai-completions")
    assert "stop" == asked.message["stopReason"]
    assert list(names) == [event for _, event, _ in rig.host.reported]
