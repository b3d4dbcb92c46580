"""A mark is in every place where a key can stand; what the agent does with all of them is searched for it.

Every byte that the agent writes: both outputs, sessions and the files beside them, what commands have printed, what it
leaves in the folder for temporary files. The mark is in what it reads and in what it sends, and nowhere else.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from tests.source_tree import REPOSITORY

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

PYTHONPATH: Final = ("spec", "statechart", "agent", "rpc", "fuzz")
ENVIRONMENT: Final = {"PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in PYTHONPATH)}
MARK: Final = "mArKeR"
# Written by the user; the copy of auth.json is as private as the file.
READ: Final = frozenset({"models.json", "auth.json", "settings.json"})
# One provider for each place of a key, each with the server's address.
PROVIDERS: Final[dict[str, dict[str, Any]]] = {
    "fake": {"apiKey": f"{MARK}-file"},
    "variable": {"apiKey": "$CUSTOM_NAME"},
    "braced": {"apiKey": "a-${CUSTOM_NAME}"},
    "command": {"apiKey": f"!echo {MARK}-command; echo {MARK}-stderr >&2"},
    "headed": {"apiKey": "k", "headers": {"X-Secret": f"{MARK}-header", "X-Other": "$HEADER_NAME"}},
    "overridden": {"apiKey": "k", "modelOverrides": {"m1": {"headers": {"X-Secret": f"{MARK}-override"}}}},
    "authorized": {"apiKey": f"{MARK}-bearer", "authHeader": True},
    "stored": {},
    "own": {},
}
AUTH: Final = {
    "stored": {"type": "api_key", "key": f"{MARK}-stored"},
    "own": {"type": "api_key", "key": "$OWN", "env": {"OWN": f"{MARK}-own"}},
    "anthropic": {"type": "oauth", "access": f"{MARK}-access", "refresh": f"{MARK}-refresh", "expires": 1},
}
# Where keys of providers stand in the environment, and what files name there.
VARIABLES: Final = {
    "OPENAI_API_KEY": MARK,
    "HF_TOKEN": MARK,
    "CUSTOM_NAME": f"{MARK}-var",
    "HEADER_NAME": f"{MARK}a4Tq7bLm9XcZ2vRk8pWd",
}
# What a request of each provider carries, so that the server can quote it.
SENT: Final = {
    "fake": f"{MARK}-file",
    "variable": f"{MARK}-var",
    "braced": f"a-{MARK}-var",
    "command": f"{MARK}-command",
    "headed": f"{MARK}-header {MARK}a4Tq7bLm9XcZ2vRk8pWd",
    "overridden": f"{MARK}-override",
    "authorized": f"{MARK}-bearer",
    "stored": f"{MARK}-stored",
    "own": f"{MARK}-own",
}
QUESTIONS: Final = (
    "get_state get_messages get_available_models get_available_thinking_levels get_session_stats get_commands "
    "get_fork_messages get_entries get_tree hello export_html cycle_model cycle_thinking_level"
).split()


WORK: Final[Sequence[Scripted]] = (
    {"tool_calls": [{"name": "bash", "args": {"command": "env; env > env.txt; yes | head -c 200000"}}]},
    {"text": "done"},
)


@pytest.fixture
def start(agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]) -> Callable[..., HomedAgent]:
    def start(script: Sequence[Scripted], *flags: str, **settings: object) -> HomedAgent:
        fake = llm(script)
        described = pi_models(fake.base_url)["providers"]["fake"]  # type: ignore[index]
        plain = {name: value for name, value in described.items() if name != "apiKey"}
        models = {"providers": {name: {**plain, **provider} for name, provider in PROVIDERS.items()}}
        quick = {"retry": {"maxRetries": 1, "baseDelayMs": 1}, "compaction": {"keepRecentTokens": 1}, **settings}
        first = agent(fake, "--verbose", *flags, models=models, env=VARIABLES, settings=quick, has_session=True)
        (first.home.agent_dir / "auth.json").write_text(json.dumps(AUTH))
        first.check_end()
        return agent([], "--verbose", *flags, again=first)

    return start


def find_marks(pi: HomedAgent) -> list[str]:
    """Say where the mark is in what the agent wrote."""
    said = {"stdout": json.dumps([each.record for each in pi.records]), "stderr": pi.stderr_text}
    for path in pi.home.root.rglob("*"):
        if path.is_file() and path.name not in READ:
            said[str(path.relative_to(pi.home.root))] = path.read_bytes().decode(errors="replace")
    return [
        f"{name}: {text[max(0, text.find(MARK) - 60) : text.find(MARK) + 40]}"
        for name, text in said.items()
        if MARK in text
    ]


def end(pi: HomedAgent) -> None:
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    assert [] == find_marks(pi)


def converse(pi: HomedAgent, provider: str) -> None:
    pi.ask("set_model", provider=provider, modelId="m1")
    pi.say("go")


def test_an_agent_that_works_with_every_key_says_none(start: Callable[..., HomedAgent]) -> None:
    pi = start([*WORK] * len(PROVIDERS) + [{"text": "a summary"}] * 3)
    for provider in PROVIDERS:
        converse(pi, provider)
    assert pi.request({"type": "compact"})["success"]
    for command in QUESTIONS:
        pi.request({"type": command})
    pi.ask("bash", command="env; set; yes | head -c 200000")
    pi.ask("new_session")
    pi.ask("bash", command="echo $OPENAI_API_KEY")

    carried = [str(dict(request.headers)) for request in pi.llm.requests]
    for sent in " ".join(SENT.values()).split():
        assert any(sent in headers for headers in carried), sent
    end(pi)
    assert "AI_AGENT=pi" in (pi.home.work / "env.txt").read_text()


def refused(status: int, text: str) -> dict[str, object]:
    return {"error": {"status": status, "body": {"error": {"message": text}}}}


def no_json(text: str) -> dict[str, object]:
    return {"error": {"status": 502, "body": text}}


def broken(text: str) -> dict[str, object]:
    return {"chunks": [{"text": "be"}, {"raw": f"data: {{{text}\n\n"}], "done": False}


def failing(text: str) -> dict[str, object]:
    return {"chunks": [{"text": "be"}, {"event": {"error": {"message": text, "code": 401}}}]}


@pytest.mark.parametrize(
    "answer",
    [partial(refused, 401), partial(refused, 500), no_json, broken, failing],
    ids="401 500 html broken failing".split(),
)
def test_a_server_that_repeats_the_key_is_not_passed_on(
    answer: Callable[[str], dict[str, object]], start: Callable[..., HomedAgent]
) -> None:
    script = [{**answer(f"wrong key: {SENT[name]}"), "match": f"for {name}\\.", "repeat": -1} for name in PROVIDERS]
    pi = start(script, compaction={"enabled": False})
    for provider in PROVIDERS:
        pi.ask("new_session")
        pi.ask("set_model", provider=provider, modelId="m1")
        pi.say(f"for {provider}.")
    assert len(pi.llm.requests) >= len(PROVIDERS)
    end(pi)


def test_the_key_of_the_command_line_is_said_nowhere(start: Callable[..., HomedAgent]) -> None:
    pi = start([*WORK, refused(401, f"wrong key: {MARK}-flag")], "--api-key", f"{MARK}-flag")
    pi.say("go", "again")
    for command in QUESTIONS:
        pi.request({"type": command})

    assert all(f"Bearer {MARK}-flag" == request.headers["authorization"] for request in pi.llm.requests)
    end(pi)


def test_a_command_sees_the_keys_only_if_the_user_wants_it(start: Callable[..., HomedAgent]) -> None:
    pi = start([], shellProviderKeys=True)

    assert f"{MARK}\n" == pi.ask("bash", command="echo $HF_TOKEN")["output"]


@pytest.mark.parametrize("tool", ["bash", "client"])
def test_a_command_does_not_see_the_keys(tool: str, start: Callable[..., HomedAgent]) -> None:
    command = "for n in OPENAI_API_KEY HF_TOKEN CUSTOM_NAME HEADER_NAME; do printenv $n && echo seen; done; echo end"
    pi = start([{"tool_calls": [{"name": "bash", "args": {"command": command}}]}, {"text": "done"}])
    if tool == "client":
        assert "end\n" == pi.ask("bash", command=command)["output"]
    else:
        pi.say("go")
        result = pi.wait({"type": "tool_execution_end"}, since=0)["result"]
        assert [{"type": "text", "text": "end\n"}] == result["content"]


def test_the_password_of_a_proxy_is_said_nowhere(start: Callable[..., HomedAgent]) -> None:
    pi = start([], httpProxy=f"http://me:{MARK}-proxy@127.0.0.1:1")
    pi.say("go")
    message = pi.wait({"type": "agent_end"}, since=0)["messages"][-1]

    assert "error" == message["stopReason"]
    end(pi)


def test_the_password_of_an_address_is_said_nowhere(
    agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    fake = llm([{"text": "hi"}, refused(401, f"wrong: {MARK}-password")])
    models = pi_models(fake.base_url)
    address = f"http://me:{MARK}-password@{fake.base_url.removeprefix('http://')}/v1"
    models["providers"]["fake"]["baseUrl"] = address  # type: ignore[index]
    pi = agent(fake, "--verbose", models=models, has_session=True)
    pi.say("go", "again")
    for command in QUESTIONS:
        pi.request({"type": command})
    end(pi)


# A fault of ours in the midst of a request, where every key is at hand.
DEFECT: Final = """
import sys
import pinnace_agent.llm.providers as providers
class Broken:
    async def stream(self, request, builder):
        raise RuntimeError("a defect")
providers.find_provider = lambda api: Broken()
from pinnace_rpc.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_defect_in_the_midst_of_a_request_shows_no_key(
    llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path
) -> None:
    with AgentStarter((sys.executable, "-c", DEFECT), tmp_path, ENVIRONMENT, is_specified=True) as starter:
        models = pi_models(llm([]).base_url)
        models["providers"]["fake"] |= {"apiKey": f"{MARK}-file", "headers": {"X-Secret": MARK}}  # type: ignore[index]
        pi = starter([], "--verbose", models=models, has_session=True)
        pi.say("go")
        end(pi)
        assert "a defect" in pi.stderr_text


@pytest.mark.parametrize(
    "words", ["--list-models", "sessions --all", "auth status", "auth status --json", "trust --list"]
)
def test_what_is_listed_for_people_shows_no_key(words: str, start: Callable[..., HomedAgent]) -> None:
    pi = start([{"text": "hi"}])
    pi.say("go")
    pi.check_end()
    command = [sys.executable, "-P", "-m", "pinnace_rpc", *words.split()]
    done = subprocess.run(command, env=pi.home.env, cwd=pi.home.work, capture_output=True, text=True, check=True)

    assert MARK not in done.stdout + done.stderr
    assert done.stdout or words in {"trust --list", "sessions --all"}
