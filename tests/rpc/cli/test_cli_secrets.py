"""Keys are in the request to the provider and nowhere else."""

import json
from collections.abc import Callable, Iterable

import pytest

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MARK = "sk-marker"
COMMANDS = ("get_state", "get_messages", "get_available_models", "get_session_stats", "get_commands")
PROMPT = {"id": "p", "type": "prompt", "message": "go"}


def everything_said(pi: HomedAgent) -> str:
    """All records, all of stderr, and every file of the home but the two that hold keys."""
    texts = [json.dumps(each.record) for each in pi.records]
    texts.append(pi.stderr_text)
    for path in pi.home.root.rglob("*"):
        if path.is_file() and path.name not in ("models.json", "auth.json"):
            texts.append(f"{path} {path.read_bytes().decode(errors='replace')}")
    return "\n".join(texts)


def models(llm: FakeLlm, **provider: object) -> dict[str, object]:
    """models.json with the given fields in the provider `fake`."""
    described = pi_models(llm.base_url)["providers"]
    assert isinstance(described, dict)
    return {"providers": {"fake": {**described["fake"], **provider}}}


@pytest.mark.parametrize(
    ("provider", "flags", "sent"),
    [
        ({"apiKey": f"{MARK}-file"}, (), f"Bearer {MARK}-file"),
        ({"apiKey": "$KEY"}, (), f"Bearer {MARK}-variable"),
        ({"apiKey": f"!printf {MARK}-command"}, (), f"Bearer {MARK}-command"),
        ({}, ("--api-key", f"{MARK}-flag"), f"Bearer {MARK}-flag"),
        ({"headers": {"X-Secret": f"{MARK}-header"}, "authHeader": True}, (), "Bearer sk-fake"),
    ],
)
@pytest.mark.parametrize(
    "answer", [{"text": "hello"}, {"error": {"status": 401, "body": {"error": {"message": "wrong key"}}}}]
)
def test_a_key_reaches_the_provider_and_is_said_nowhere(
    provider: dict[str, object],
    flags: tuple[str, ...],
    sent: str,
    answer: Scripted,
    agent: AgentStarter,
    llm: Callable[[Iterable[Scripted]], FakeLlm],
) -> None:
    fake = llm([answer])
    pi = agent(fake, *flags, "--verbose", models=models(fake, **provider), env={"KEY": f"{MARK}-variable"})
    pi.send(PROMPT)
    pi.wait({"type": "agent_end"})
    for command in COMMANDS:
        pi.request({"type": command})
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    (request,) = fake.requests
    assert sent == request.headers["authorization"]
    if "headers" in provider:
        assert f"{MARK}-header" == request.headers["x-secret"]
    assert MARK not in everything_said(pi)


def test_a_key_that_the_provider_repeats_is_not_passed_on(
    agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """Some servers quote a wrong key in their refusal, and some quote the header."""
    text = f"Incorrect API key provided: {MARK}-file (Bearer {MARK}-file, {MARK}-header)"
    fake = llm([{"error": {"status": 401, "body": {"error": {"message": text}}}}])
    described = models(fake, apiKey=f"{MARK}-file", headers={"X-Secret": f"{MARK}-header"})
    pi = agent(fake, models=described)
    pi.send(PROMPT)
    message = pi.wait({"type": "message_end", "message": {"role": "assistant"}})["message"]
    assert "Incorrect API key provided" in message["errorMessage"]
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    assert MARK not in everything_said(pi)


@pytest.mark.parametrize(
    "provider",
    [
        {"apiKey": f"!echo {MARK}; echo {MARK} >&2; exit 1"},
        {"apiKey": f"!printf '{MARK}\\n{MARK}'"},
        {"apiKey": f"$MISSING {MARK}"},
        {"apiKey": f"{MARK}\u00e9"},
        {"headers": {"X-Secret": f"$MISSING {MARK}"}},
        {"headers": {"X-Secret": f"{MARK}\n{MARK}"}},
        {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": MARK},
        {"baseUrl": "no address", "apiKey": MARK},
    ],
)
def test_a_failure_does_not_show_the_key(
    provider: dict[str, object], agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    fake = llm([])
    pi = agent(fake, "--verbose", models=models(fake, **provider))
    pi.send({**PROMPT, "id": "x"})
    answered = pi.wait_response("x")
    if answered["success"]:
        pi.wait({"type": "agent_end"})
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    assert MARK not in everything_said(pi)


@pytest.mark.parametrize(
    "provider",
    [
        {"apiKey": [MARK]},
        {"headers": MARK},
        {"headers": {"X-Secret": [MARK]}},
        {"models": [{"id": "m1", "headers": {"X-Secret": {"value": MARK}}}]},
    ],
)
def test_an_entry_that_is_left_out_is_reported_without_its_keys(
    provider: dict[str, object], agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    fake = llm([])
    pi = agent(fake, "--provider", "offline", "--model", "rehearsal", models=models(fake, **provider))
    pi.request({"type": "get_available_models"})
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    assert "left out" in pi.stderr_text
    assert MARK not in everything_said(pi)
