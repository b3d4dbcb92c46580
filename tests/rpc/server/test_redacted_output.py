"""A model server that knows the key, and a tool that prints it, don't get it into what the agent writes. S-14.

Every byte on stdout and stderr, in the log, the session file and both kinds of export is searched for every form of it.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.source_tree import REPOSITORY

from pinnace_agent.redaction.policy import REDACTED
from pinnace_agent.redaction.redactor import Redactor
from pinnace_agent.redaction.replacing import spans_of
from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

PYTHONPATH: Final = ("spec", "statechart", "agent", "rpc", "fuzz")
ENVIRONMENT: Final = {"PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in PYTHONPATH)}
COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
KEY: Final = "sk-ant-api03-Zq8/vT4x+9LmN2bW7rYcK5pD"
FORMS: Final = (
    KEY,
    KEY[13:30],
    KEY[-9:],
    base64.b64encode(f"u:{KEY}".encode()).decode(),
    KEY.encode().hex(),
    "".join(f"%{byte:02X}" for byte in KEY.encode()),
    f"https://host/v1?key={KEY}&x=1",
)


@pytest.fixture
def start(llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Iterator[Callable[..., HomedAgent]]:
    """Starts agents that are not judged: what a client sends with a key comes back without it (D-64)."""

    def start(script: Iterable[Scripted], *flags: str, key: str = KEY) -> HomedAgent:
        fake = llm(script)
        models: Any = pi_models(fake.base_url)
        models["providers"]["fake"]["apiKey"] = key
        return agent(fake, "--verbose", *flags, models=models, has_session=True)

    with AgentStarter(COMMAND, tmp_path, ENVIRONMENT) as agent:
        yield start


def written(pi: HomedAgent) -> dict[str, str]:
    """Return everything that the agent has written."""
    said = {"stdout": "".join(json.dumps(each.record) + "\n" for each in pi.records), "stderr": pi.stderr_text}
    for path in pi.home.root.rglob("*"):
        if path.is_file() and path.name not in {"models.json", "settings.json"}:
            said[str(path.relative_to(pi.home.root))] = path.read_bytes().decode(errors="replace")
    return said


def holds_key(text: str) -> bool:
    redactor = Redactor()
    redactor.learn(KEY)
    return KEY in text or bool(spans_of(text, redactor.known().forms))


@pytest.mark.parametrize("profile", ["1.5", "pi"])
def test_a_key_that_a_model_server_repeats_is_written_nowhere(profile: str, start: Callable[..., HomedAgent]) -> None:
    said = " and ".join(FORMS)
    pieces = [{"text": said[at : at + 3]} for at in range(0, len(said), 3)]
    call = {"name": f"no-{KEY}", "args": {"command": f"echo {KEY}", f"x-{KEY}": [KEY]}}
    script: list[Scripted] = [
        {"chunks": [{"reasoning": KEY}, *pieces]},
        {"tool_calls": [call, {"name": "bash", "args": {"command": f"echo '{said}'; printf '{KEY[:20]}'"}}]},
        {"chunks": [{"text": "be"}, {"finish": f"because-of-{KEY}"}]},
        {"error": {"status": 400, "body": {"error": {"message": f"bad: {said}", "type": KEY, "code": KEY[:20]}}}},
    ]
    pi = start(script, "--protocol", profile, "--log-file", "agent.log")
    pi.say("go", "and on", "again")
    pi.ask("bash", command=f"echo '{said}'; for c in $(echo {KEY} | fold -w1); do printf %s $c; done")
    for command in "get_state get_messages get_session_stats get_entries get_tree get_last_assistant_text".split():
        pi.request({"type": command})
    page = pi.home.work / "page.html"
    assert pi.request({"type": "export_html", "outputPath": str(page)})["success"]
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    session = next(pi.home.root.rglob("*.jsonl"))
    export = [*COMMAND, "--export", str(session), str(pi.home.work / "copy.jsonl")]
    subprocess.run(export, env=pi.home.env, cwd=pi.home.work, check=True)

    assert all(f"Bearer {KEY}" == request.headers["authorization"] for request in pi.llm.requests)
    found = written(pi)
    assert {"stdout", "stderr", "work/agent.log", "work/page.html", "work/copy.jsonl"} <= found.keys()
    assert [] == [name for name, text in found.items() if holds_key(text)]
    assert REDACTED in session.read_text()
    for line in session.read_text().splitlines():
        json.loads(line)
    # What a tool has shown to the model is not changed for the model.
    assert KEY in json.dumps(pi.llm.requests[2].body)


def test_a_key_that_a_command_prints_in_pieces_is_not_written_in_pieces(
    start: Callable[..., HomedAgent], gates: Callable[[], ShellGate]
) -> None:
    gate, pi = gates(), start([])
    pieces = KEY[:15], KEY[15:28], KEY[28:]
    pi.send({"type": "bash", "command": f"; {gate.reading}; ".join(f"printf %s '{piece}'" for piece in pieces)})
    for _ in pieces[1:]:
        pi.wait({"type": "bash_execution_update"})
        gate.release()
    pi.wait({"type": "response", "command": "bash"})

    said = "".join(str(each.record["delta"]) for each in pi.records if each.record["type"] == "bash_execution_update")
    assert said == f"{KEY[:15]}{REDACTED}"


def test_a_session_of_an_agent_without_that_key_is_exported_without_it(start: Callable[..., HomedAgent]) -> None:
    pi = start([{"text": f"the key is {KEY}, base64 {FORMS[3]}"}], key="none")
    pi.say(f"it is {KEY}")
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    session = next(pi.home.root.rglob("*.jsonl"))
    assert KEY in session.read_text()

    for name in ("page.html", "copy.jsonl"):
        target = pi.home.work / name
        command = [*COMMAND, "--export", str(session), str(target)]
        subprocess.run(command, env={**pi.home.env, "OPENAI_API_KEY": KEY}, cwd=pi.home.work, check=True)
        assert not holds_key(target.read_text())
