"""Amazon Bedrock's ConverseStream over real connections: whole answers, signatures, refusals, and what they call for.

All answers here are constructed after the published format, never recorded.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.bedrock.provider import BedrockConverseStreamProvider
from pinnace_agent.llm.bedrock.signature import Scope, SigningKeys, Unsigned, signed_headers
from pinnace_agent.llm.builder import FailureSigns, MessageBuilder
from pinnace_agent.llm.outcomes import Outcome, OutcomeKind, classify_failure
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_fuzz.harness.model_server.event_frames import encode_frame
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Reply
from pinnace_spec.records.messages import AssistantMessage

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PATH = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
KEYS = SigningKeys("AKIDEXAMPLE0000", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "AQoDYXdzEJr1234567890")
STREAM_TYPE = "application/vnd.amazon.eventstream"
THOUGHT, TEXT = "hm 𝄞", "Hé\u2028l\u0085o"


def frame(kind: str, **payload: object) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, json.dumps(payload).encode())


def exception(kind: str, **payload: object) -> bytes:
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return encode_frame(headers, json.dumps(payload).encode())


def delta(index: int, **what: object) -> bytes:
    return frame("contentBlockDelta", contentBlockIndex=index, delta=what, p="abc")


def stop(reason: str) -> bytes:
    return frame("messageStop", stopReason=reason)


USAGE = frame(
    "metadata",
    usage={
        "inputTokens": 3,
        "outputTokens": 2,
        "totalTokens": 18,
        "cacheReadInputTokens": 8,
        "cacheWriteInputTokens": 5,
        "cacheDetails": [{"ttl": "1h", "inputTokens": 4}],
    },
    metrics={"latencyMs": 1},
)
EVENTS = (
    frame("messageStart", role="assistant"),
    delta(0, reasoningContent={"text": THOUGHT[:1]}),
    delta(0, reasoningContent={"text": THOUGHT[1:]}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    frame("contentBlockStop", contentBlockIndex=0),
    delta(1, text=TEXT[:2]),
    delta(1, text=TEXT[2:]),
    frame("contentBlockStop", contentBlockIndex=1),
    frame("contentBlockStart", contentBlockIndex=2, start={"toolUse": {"toolUseId": "tooluse_1", "name": "bash"}}),
    delta(2, toolUse={"input": '{"comm'}),
    delta(2, toolUse={"input": 'and": "ls"}'}),
    frame("contentBlockStop", contentBlockIndex=2),
    stop("tool_use"),
    USAGE,
)
HELLO = (frame("messageStart", role="assistant"), delta(0, text="Hello"), stop("end_turn"), USAGE)
CONTENT = [
    {"type": "thinking", "thinking": THOUGHT, "thinkingSignature": "c2ln"},
    {"type": "text", "text": TEXT},
    {"type": "toolCall", "id": "tooluse_1", "name": "bash", "arguments": {"command": "ls"}},
]


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the environment have keys, and no other setting of AWS."""
    for name in [*filter(lambda each: each.startswith("AWS_"), os.environ)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    for name, value in zip(names, KEYS, strict=True):
        monkeypatch.setenv(name, str(value))


def request_at(base_url: str, **more: Any) -> LlmRequest:
    model = served_model(
        id=MODEL,
        api="bedrock-converse-stream",
        provider="amazon-bedrock",
        baseUrl=base_url,
        reasoning=True,
        cost=prices(1, 2, 3, 4),
    )
    tool = ToolSpec("bash", "Runs.", {"type": "object"})
    question: Any = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
    return LlmRequest(model, "Be brief.", (question,), (tool,), "low", None, {}, "s1")._replace(**more)


class Asked:
    """An answer, and what was seen of it."""

    def __init__(self, request: LlmRequest) -> None:
        self.witness = StreamWitness()
        self.builder = MessageBuilder(request.model, self.witness, 0)

    @property
    def message(self) -> AssistantMessage:
        return self.builder.message

    @property
    def failure(self) -> str:
        assert self.message["stopReason"] == "error"
        return self.message.get("errorMessage", "")

    @property
    def signs(self) -> FailureSigns:
        return self.builder.signs

    @property
    def outcome(self) -> Outcome:
        return classify_failure(self.failure, "amazon-bedrock", self.signs)


async def ask(base_url: str, **more: Any) -> Asked:
    request = request_at(base_url, **more)
    asked = Asked(request)
    try:
        await BedrockConverseStreamProvider().stream(request, asked.builder)
    finally:
        await close_clients()
    assert asked.witness.judge(asked.message) == []
    return asked


async def answer_to(answer: Answer, **more: Any) -> Asked:
    with RawServer(answer) as server:
        return await ask(server.url, **more)


def streaming(*events: bytes, is_ended: bool = True) -> Answer:
    def answer(reply: Reply) -> None:
        reply.head(content_type=STREAM_TYPE)
        reply.chunks(*events)
        if is_ended:
            reply.end()
        else:
            reply.wait_gone()

    return answer


def refusing(status: int, body: object, *headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda reply: reply.whole(data, *headers, status=f"{status} No", content_type="application/json")


def signature_of(server: RawServer, headers: Mapping[str, str], path: str, body: bytes, region: str) -> str:
    """Return the signature that a request must have, at the moment that it names."""
    moment = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    unsigned = Unsigned("POST", server.url + path, {"content-type": headers["content-type"]}, body)
    return signed_headers(unsigned, KEYS, Scope(region, "bedrock"), moment)["Authorization"]


# Whole answers


async def test_an_answer_is_asked_for_with_a_signature_and_read() -> None:
    with RawServer(streaming(*EVENTS)) as server:
        asked = await ask(server.url)
    (request,) = server.requests

    assert (request.method, request.path) == ("POST", PATH)
    assert request.headers["accept"] == STREAM_TYPE
    assert request.headers["host"] == server.url.removeprefix("http://")
    assert request.headers["x-amz-security-token"] == KEYS.session_token
    assert request.headers["authorization"] == signature_of(server, request.headers, PATH, request.body, "us-east-1")
    assert asked.message["stopReason"] == "toolUse"
    assert asked.message["content"] == CONTENT
    usage = asked.message["usage"]
    assert (usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]) == (3, 2, 8, 5)
    assert (usage["totalTokens"], usage.get("cacheWrite1h")) == (18, 4)


async def test_an_arn_is_one_part_of_the_path_and_names_the_region() -> None:
    arn = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1"
    path = "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aapplication-inference-profile%2Fa1/converse-stream"
    with RawServer(streaming(*HELLO)) as server:
        request = request_at(server.url)
        await ask(server.url, model={**request.model, "id": arn})
    (received,) = server.requests
    assert received.path == path
    expected = signature_of(server, received.headers, path, received.body, "eu-west-1")
    assert received.headers["authorization"] == expected


async def test_what_a_hook_makes_of_a_request_is_signed() -> None:
    class Hooks:
        changes_payload = True
        observes_stream = True

        def __init__(self) -> None:
            self.seen: list[Any] = []

        async def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
            return {**headers, "x-amz-trace": "1"}

        async def payload(self, payload: object) -> object:
            return {"messages": [], "more": 1}

        async def answered(self, status: int, headers: Mapping[str, str]) -> None:
            pass

        async def streamed(self, data: object) -> None:
            self.seen.append(data)

    hooks = Hooks()
    with RawServer(streaming(*HELLO)) as server:
        await ask(server.url, hooks=hooks)
    (received,) = server.requests
    names = "content-type;host;x-amz-date;x-amz-security-token;x-amz-trace"
    assert json.loads(received.body) == {"messages": [], "more": 1}
    assert f"SignedHeaders={names}," in received.headers["authorization"]
    assert hooks.seen[2] == {"messageStop": {"stopReason": "end_turn"}}


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_a_stream_that_comes_in_other_pieces_is_the_same_answer(size: int) -> None:
    data = b"".join(EVENTS)
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    assert (await answer_to(streaming(*pieces))).message["content"] == CONTENT


async def test_the_usage_is_the_last_event_and_the_end_is_not_waited_for() -> None:
    asked = await answer_to(streaming(*HELLO, is_ended=False))
    assert asked.message["stopReason"] == "stop"


async def test_redacted_thoughts_are_kept_as_their_bytes() -> None:
    redacted = [delta(0, reasoningContent={"redactedContent": part}) for part in ("cmVk", "YWN0ZWQ=")]
    end = frame("contentBlockStop", contentBlockIndex=0)
    asked = await answer_to(streaming(*redacted, end, delta(1, text="x"), stop("end_turn"), USAGE))
    assert asked.message["content"][0] == {
        "type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "cmVkYWN0ZWQ=", "redacted": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "stop_reason"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("guardrail_intervened", "error")],
)
async def test_a_stop_reason_is_understood(reason: str, stop_reason: str) -> None:
    asked = await answer_to(streaming(delta(0, text="x"), stop(reason), USAGE))
    assert asked.message["stopReason"] == stop_reason
    if stop_reason == "error":
        assert asked.failure == "Provider stopped with: guardrail_intervened"


# Keys


async def test_a_bearer_token_takes_the_place_of_a_signature() -> None:
    with RawServer(streaming(*HELLO)) as server:
        await ask(server.url, api_key="bedrock-api-key-1234")
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer bedrock-api-key-1234"
    assert "x-amz-date" not in headers


async def test_a_gateway_can_be_asked_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEDROCK_SKIP_AUTH", "1")
    with RawServer(streaming(*HELLO)) as server:
        await ask(server.url)
    assert "authorization" not in server.requests[0].headers


async def test_the_profile_has_keys_and_region(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "work")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile work]\nregion = eu-west-3 # Paris\n\n[default]\nregion=x\n")
    lines = ["[other]", "aws_access_key_id = no", "[work]", f"AWS_ACCESS_KEY_ID={KEYS.access_key_id}"]
    lines += [f"aws_secret_access_key = {KEYS.secret_access_key}", f"aws_session_token={KEYS.session_token}"]
    (tmp_path / ".aws" / "credentials").write_text("\n".join(lines))
    with RawServer(streaming(*HELLO)) as server:
        await ask(server.url)
    request = server.requests[0]
    expected = signature_of(server, request.headers, PATH, request.body, "eu-west-3")
    assert request.headers["authorization"] == expected


async def test_variables_of_the_provider_alone_name_a_profile(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(
        "[own]\naws_access_key_id = AKIDOWN\naws_secret_access_key = own-secret-0123456789\n"
    )
    variables = {"AWS_PROFILE": "own", "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys")}
    with RawServer(streaming(*HELLO)) as server:
        await ask(server.url, variables=variables)
    assert "Credential=AKIDOWN/" in server.requests[0].headers["authorization"]


async def test_without_keys_one_error_names_what_was_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    asked = await ask("http://127.0.0.1:1")
    assert asked.signs.kind == "no_credentials"
    files = [f"{tmp_path}/.aws/{name} (can't be read: No such file or directory)" for name in ("config", "credentials")]
    assert asked.failure == (
        "No AWS credentials were found:\n"
        "- AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not\n"
        f"- the profile default is not in {files[0]} and {files[1]}\n"
        "- AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and AWS_CONTAINER_CREDENTIALS_FULL_URI are not set\n"
        "- AWS_EC2_METADATA_DISABLED is true, so the metadata of EC2 are not asked"
    )


def container(expires_s: float) -> Answer:
    expiration = datetime.fromtimestamp(time.time() + expires_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    keys = {"AccessKeyId": "AKIDTASK", "SecretAccessKey": "task-secret-0123456789", "Token": "task-token-0123456789"}
    return refusing(200, {**keys, "Expiration": expiration})


@pytest.mark.parametrize(("expires_s", "asked_for"), [(3600, 1), (60, 2)])
async def test_the_keys_of_a_container_are_kept_until_they_expire(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expires_s: float, asked_for: int
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    (tmp_path / "token").write_text("container-token-0123\n")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    with RawServer(container(expires_s)) as keys, RawServer(streaming(*HELLO)) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{keys.url}/v1/keys")
        # A proxy that nothing listens at, for all but the model: keys are asked for past it.
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", f"127.0.0.1:{server.port}")
        for _ in range(2):
            assert (await ask(server.url)).message["stopReason"] == "stop"
    assert len(keys.requests) == asked_for
    assert (keys.requests[0].method, keys.requests[0].path) == ("GET", "/v1/keys")
    assert keys.requests[0].headers["authorization"] == "container-token-0123"
    assert "Credential=AKIDTASK/" in server.requests[0].headers["authorization"]
    assert server.requests[0].headers["x-amz-security-token"] == "task-token-0123456789"
    assert REDACTOR.text("task-secret-0123456789 task-token-0123456789") == "[redacted] [redacted]"


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("http://keys.example/", "must begin with https://, or name this machine or the address of ECS or EKS"),
        ("file:///etc/passwd", "must begin with https://, or name this machine or the address of ECS or EKS"),
        ("http://[/", "is no address"),
    ],
)
async def test_keys_are_not_asked_for_at_a_strange_address(
    monkeypatch: pytest.MonkeyPatch, uri: str, problem: str
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)
    asked = await ask("http://127.0.0.1:1")
    assert asked.failure.endswith(f"- AWS_CONTAINER_CREDENTIALS_FULL_URI {problem}")


# Failures


@pytest.mark.parametrize(
    ("status", "name", "message", "text", "kind"),
    [
        (429, "ThrottlingException", "Too many tokens", "Throttling error: Too many tokens", OutcomeKind.TRANSIENT),
        (503, "ServiceUnavailableException", "no", "Service unavailable: no", OutcomeKind.TRANSIENT),
        (500, "InternalServerException", "no", "Internal server error: no", OutcomeKind.TRANSIENT),
        (
            400,
            "ValidationException",
            "Input is too long for requested model.",
            "Validation error: Input is too long for requested model.",
            OutcomeKind.OVERFLOW,
        ),
        (403, "AccessDeniedException", "No access", "AccessDeniedException: No access", OutcomeKind.FATAL),
    ],
)
async def test_a_refusal_is_worded_and_classified(
    status: int, name: str, message: str, text: str, kind: OutcomeKind
) -> None:
    header = f"x-amzn-ErrorType: {name}:http://internal.amazon.com/coral/com.amazon.bedrock/"
    asked = await answer_to(refusing(status, {"message": message}, header))
    assert asked.failure == text
    assert (asked.signs.status, asked.signs.codes) == (status, (name,))
    assert asked.outcome.kind is kind
    assert classify_failure(text, "amazon-bedrock").kind is kind  # the text alone is left in a session


async def test_a_refusal_of_a_gateway_shows_its_body() -> None:
    asked = await answer_to(refusing(403, {"detail": "no"}))
    assert asked.failure == '403: {"detail":"no"}'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("throttlingException", "Throttling error: slow down"),
        ("modelStreamErrorException", "Model stream error: slow down"),
        ("serviceUnavailableException", "Service unavailable: slow down"),
    ],
)
async def test_an_exception_in_the_stream_ends_it_and_is_tried_again(kind: str, text: str) -> None:
    asked = await answer_to(streaming(delta(0, text="Hel"), exception(kind, message="slow down"), is_ended=False))
    assert asked.failure == text
    assert asked.outcome.kind is OutcomeKind.TRANSIENT
    assert asked.message["content"] == [{"type": "text", "text": "Hel"}]


async def test_an_error_that_the_service_has_no_exception_for_is_named() -> None:
    headers = {":message-type": "error", ":error-code": "InternalError", ":error-message": "broken"}
    asked = await answer_to(streaming(encode_frame(headers, b""), is_ended=False))
    assert asked.failure == "InternalError: broken"


async def test_a_damaged_frame_ends_the_stream_at_once() -> None:
    data = bytearray(delta(0, text="lo"))
    data[-1] ^= 1
    asked = await answer_to(streaming(delta(0, text="Hel"), bytes(data), is_ended=False))
    assert asked.failure == "The event stream cannot be read: the checksum of a frame is wrong"
    assert asked.signs.kind == "bad_answer"
    assert asked.message["content"] == [{"type": "text", "text": "Hel"}]


async def test_damage_after_the_stop_reason_costs_the_usage_alone() -> None:
    asked = await answer_to(streaming(delta(0, text="x"), stop("end_turn"), b"\0" * 12))
    assert asked.message["stopReason"] == "stop"


async def test_a_page_in_the_place_of_a_stream_is_no_answer() -> None:
    asked = await answer_to(lambda reply: reply.whole(b"<!DOCTYPE html><p>Hello", content_type="text/html"))
    assert asked.failure == "The event stream cannot be read: the checksum of a prelude is wrong"


@pytest.mark.parametrize("count", range(0, len(EVENTS) - 2, 3))
async def test_a_stream_that_is_cut_is_an_error_that_keeps_what_came(count: int) -> None:
    data = b"".join(EVENTS[: count + 1])[:-3]
    asked = await answer_to(streaming(data))
    assert asked.outcome.kind is OutcomeKind.TRANSIENT
    assert re.match("Bedrock stream ended without a stop reason|Stream ended without finish_reason", asked.failure)


async def test_no_secret_is_in_an_error_that_echoes_the_request() -> None:
    def answer(reply: Reply) -> None:
        echo = f"{KEYS.secret_access_key} {reply.request.headers['x-amz-security-token']}"
        refusing(400, {"message": echo}, "x-amzn-ErrorType: ValidationException")(reply)

    assert (await answer_to(answer)).failure == "Validation error: [redacted] [redacted]"
