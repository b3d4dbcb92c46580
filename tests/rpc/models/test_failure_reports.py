"""What users and programs get when a model fails: at once, whole, and without a key."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

SETTLED = {"type": "agent_settled"}
FIELDS = ("errorCode", "status", "attempts")


def refusing(status: int, message: str, **more: object) -> Record:
    return {"error": {"status": status, "body": {"error": {"message": message, **more}}}}


def failed(pi: HomedAgent) -> dict[str, Any]:
    """Send a prompt and return the message that failed."""
    pi.request({"type": "prompt", "message": "go"})
    return dict(pi.wait({"type": "message_end", "message": {"stopReason": "error"}})["message"])


def test_a_failed_message_names_the_model_its_address_and_what_to_do(agent: AgentStarter) -> None:
    pi = agent([refusing(404, "no such page")])
    message = failed(pi)

    words, line = message["errorMessage"].split("\n")
    assert words == '404: {"message":"no such page"}'
    assert line.startswith(
        f"Model fake/m1 at {pi.llm.base_url}/v1/chat/completions, attempt 1, not tried again. Check "
    )
    assert ("not_found", 404, 1) == tuple(message[name] for name in FIELDS)
    assert message == pi.request({"type": "get_messages"})["data"]["messages"][-1]


def test_seed_has_the_text_alone(agent: AgentStarter) -> None:
    pi = agent(
        [refusing(500, "no"), refusing(500, "no")],
        protocol="seed",
        settings={"retry": {"baseDelayMs": 1, "maxRetries": 1}},
    )
    pi.request({"type": "prompt", "message": "go"})
    pi.wait({"type": "auto_retry_end"})
    messages = pi.request({"type": "get_messages"})["data"]["messages"]

    assert "attempt 2 of 2" in messages[-1]["errorMessage"]
    assert not any(f'"{name}"' in str(each.record).replace("'", '"') for each in pi.records for name in FIELDS)


def test_no_key_is_in_what_a_failure_reports(agent: AgentStarter) -> None:
    pi = agent([refusing(401, "wrong key: test-key-that-is-secret")], "--api-key", "test-key-that-is-secret")
    message = failed(pi)

    assert "authentication" == message["errorCode"]
    assert not any("test-key-that-is-secret" in str(each.record) for each in pi.records)


def test_a_window_that_is_set_too_large_is_reported_once(agent: AgentStarter) -> None:
    refusal = refusing(400, "the request exceeds the available context size", n_ctx=4096)
    pi = agent([refusal, refusal], settings={"compaction": {"enabled": False}})
    pi.request({"type": "prompt", "message": "go"})
    pi.wait(SETTLED)
    mark = pi.mark()
    pi.request({"type": "prompt", "message": "again"})
    pi.wait(SETTLED, since=mark)

    (warning,) = pi.found({"type": "extension_error", "event": "context_window"})
    assert "contextWindow of fake/m1 is 128000 tokens, but its server takes 4096: " in warning["error"]
    assert 4096 == pi.request({"type": "get_state"})["data"]["model"]["contextWindow"]


@pytest.mark.parametrize("mode", [["-p"], ["--mode", "json"]])
def test_print_mode_reports_a_refused_connection_at_the_first_attempt(
    print_agent: OneShotStarter, mode: list[str]
) -> None:
    """The delay before the next attempt is ten minutes: what is read comes before it."""
    settings = {"retry": {"baseDelayMs": 600_000, "maxAgentDelayMs": 600_000}}
    with socket.socket() as unused:  # bound, so that nobody else listens there either
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        one_shot = print_agent([*mode, "hello"], models=pi_models(address), settings=settings)
        one_shot.close_stdin()
        assert one_shot.process.stderr is not None
        lines = [one_shot.process.stderr.readline().decode() for _ in range(3)]

    assert lines == [
        "pinnace: Connection error: Connection refused (ECONNREFUSED)\n",
        f"pinnace: Model fake/m1 at {address}/v1/chat/completions, attempt 1 of 4. "
        "No server listens there: start it, or correct baseUrl in models.json.\n",
        "pinnace: trying again in 600 s (retry 1 of 3)\n",
    ]


def test_a_refused_connection_is_reported_before_it_is_tried_again(agent: AgentStarter) -> None:
    """A local server that restarts is worth the wait; the client knows of it at once."""
    pi = agent([], settings={"retry": {"baseDelayMs": 600_000, "maxAgentDelayMs": 600_000}})
    pi.llm.go_away()
    pi.request({"type": "prompt", "message": "go"})
    start = pi.wait({"type": "auto_retry_start"})
    pi.request({"type": "abort_retry"})

    assert ("unreachable", 1) == (start["errorCode"], start["attempts"])
    assert "No server listens there" in start["errorMessage"]


def test_a_summary_that_fails_names_the_model_too(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}, refusing(404, "gone")], settings={"compaction": {"keepRecentTokens": 1}})
    pi.request({"type": "prompt", "message": "go " * 100})
    pi.wait(SETTLED)
    answer = pi.request({"type": "compact"})

    assert f"Model fake/m1 at {pi.llm.base_url}/v1/chat/completions, attempt 1, not tried again." in answer["error"]


def serving(window: int) -> Callable[[Reply], None]:
    """Answer as a server of OpenAI's API that also lists its model."""

    def answer(reply: Reply) -> None:
        if reply.request.method == "GET":
            body = json.dumps({"data": [{"id": "m1", "max_model_len": window}]})
            reply.whole(body.encode(), content_type="application/json")
            return
        delta = {"choices": [{"index": 0, "delta": {"content": "fine"}, "finish_reason": "stop"}]}
        reply.whole(f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode())

    return answer


def paths(server: RawServer) -> list[str]:
    return [f"{request.method} {request.path}" for request in server.requests]


def test_a_window_larger_than_the_server_reports_is_reported_once(agent: AgentStarter) -> None:
    with RawServer(serving(8192)) as server:
        pi = agent((), models=pi_models(server.url), env={"PI_OFFLINE": "0"})
        assert [] == paths(server)
        pi.request({"type": "prompt", "message": "go"})
        warning = pi.wait({"type": "extension_error", "event": "context_window"})
        pi.request({"type": "prompt", "message": "go", "streamingBehavior": "followUp"})
        pi.request({"type": "get_state"})

        assert "contextWindow of fake/m1 is 128000 tokens, but its server takes 8192" in warning["error"]
        assert 1 == paths(server).count("GET /v1/models")
        assert "but its server takes 8192" in pi.stderr_text


def test_no_server_is_asked_for_its_window_offline(agent: AgentStarter) -> None:
    with RawServer(serving(8192)) as server:
        pi = agent((), "--offline", models=pi_models(server.url), env={"PI_OFFLINE": "0"})
        pi.request({"type": "prompt", "message": "go"})
        pi.wait(SETTLED)
        mark = pi.mark()
        pi.request({"type": "prompt", "message": "go"})
        pi.wait(SETTLED, since=mark)

    assert ["POST /v1/chat/completions"] * 2 == paths(server)
