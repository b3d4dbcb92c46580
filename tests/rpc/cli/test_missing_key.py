"""Without a key, every mode names the variable to set and the command that stores a key."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.rpc.cli.test_cli import PINNACE, environment, run

from pinnace_agent.config.models.builtin import all_key_variables
from pinnace_spec.rules import errors

PROMPT = '{"id":"p","type":"prompt","message":"hi"}\n'
NAMED = ("--provider", "anthropic", "--model", "claude-opus-4-5")


@pytest.mark.parametrize(
    ("mode", "stdin"),
    [
        (("--mode", "rpc", "--no-session", "--on-eof", "drain"), PROMPT),
        (("-p", "--no-session", "hi"), ""),
        (("--mode", "json", "--no-session", "hi"), ""),
        (("batch", "tasks.jsonl", "--out", "out"), ""),
    ],
    ids=["rpc", "print", "json", "batch"],
)
@pytest.mark.parametrize(("model", "login"), [((), "PROVIDER"), (NAMED, "anthropic")], ids=["no model", "no key"])
def test_the_error_names_the_variable_and_the_command(
    mode: tuple[str, ...], stdin: str, model: tuple[str, ...], login: str, tmp_path: Path
) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "hi"}\n')
    ended = run(tmp_path, *mode, *model, stdin=stdin)

    shown = ended.stderr if mode[0] in ("-p", "batch") else ended.stdout
    assert "ANTHROPIC_API_KEY" in shown
    assert f"pinnace auth login {login}" in shown


def test_an_editor_is_told_as_well(tmp_path: Path) -> None:
    """Its request for a session is answered with the text that a prompt would get."""
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
    ]
    process = subprocess.Popen(
        [*PINNACE, "acp"], cwd=tmp_path, env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in messages]
        process.stdin.close()

    assert errors.NO_MODEL == answers[1]["error"]["message"]


def test_the_variables_of_the_text_exist() -> None:
    named = {word.strip(",.") for word in errors.NO_MODEL.split() if word.strip(",.").endswith("_API_KEY")}
    assert len(named) == 3
    assert named <= all_key_variables()
