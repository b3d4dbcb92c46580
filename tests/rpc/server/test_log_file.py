"""--log-file, PINNACE_LOG and --verbose: what is logged, what never is, and what happens when it can't be."""

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.redaction.secrets import Secrets
from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_rpc.server import log_file as journal

ROOT = Path(__file__).resolve().parents[3]
KEY = "a-key-that-nobody-may-see"
SETTLED = {"type": "agent_settled"}
QUICK = {"retry": {"baseDelayMs": 1}}


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_log_has_requests_retries_tools_and_failures_and_no_content(agent: AgentStarter, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    call = {"name": "bash", "id": "c1", "args": {"command": "echo out-of-the-tool; false"}}
    script: list[Scripted] = [
        {"error": {"status": 503, "body": {"error": {"message": f"busy {KEY}"}}}},
        {"reasoning": "a-thought", "tool_calls": [call]},
        {"text": "the-answer"},
    ]
    env = {"OTHER_TOKEN": "token-of-another-program"}
    pi = agent(script, "--log-file", str(path), "--verbose", "--api-key", KEY, settings=QUICK, env=env)
    pi.request({"type": "prompt", "message": "the-prompt"})
    pi.wait(SETTLED)
    pi.request({"type": "bash", "command": "echo from-the-client"})
    pi.close_stdin()
    pi.wait_exit()
    lines = lines_of(path)
    events = [line["event"] for line in lines]

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ["start", "session"] == events[:2]
    assert ("end", 0) == (events[-1], lines[-1]["exitCode"])
    requests = [line for line in lines if line["event"] == "model_request"]
    assert [503, 200, 200] == [line["status"] for line in requests]
    assert all(line["durationMs"] >= 0 and line["provider"] == "fake" for line in requests)
    failed, *_ = (line for line in lines if line["event"] == "message_end" and line.get("stopReason") == "error")
    assert ("warning", "server_error", 1) == (failed["level"], failed["errorCode"], failed["attempts"])
    assert {"auto_retry_start", "auto_retry_end", "tool_execution_start", "tool_execution_end"} <= set(events)
    assert ["prompt", "bash"] == [line["command"] for line in lines if line["event"] == "response"]
    text = path.read_text()
    secret = [KEY, "out-of-the-tool", "a-thought", "the-answer", "the-prompt", "from-the-client", "token-of-another"]
    assert [] == [each for each in secret if each in text]
    assert [] == [each for each in secret if each in pi.stderr_text]
    assert "model_request" in pi.stderr_text


def test_the_environment_names_a_file_unless_the_command_line_does(agent: AgentStarter, tmp_path: Path) -> None:
    by_variable, by_option = tmp_path / "variable", tmp_path / "option"
    for flags in ([], ["--log-file", str(by_option)]):
        pi = agent([], *flags, env={"PINNACE_LOG": str(by_variable)})
        pi.request({"type": "get_state"})
        pi.close_stdin()
        pi.wait_exit()

    assert 1 == sum(line["event"] == "start" for line in lines_of(by_variable))
    assert 1 == sum(line["event"] == "start" for line in lines_of(by_option))


@pytest.mark.parametrize("kind", ["folder", "pipe", "nowhere"])
@pytest.mark.parametrize("mode", [["--mode", "rpc"], ["-p", "hello"]])
def test_a_log_that_can_not_be_written_refuses_the_start(
    print_agent: OneShotStarter, tmp_path: Path, kind: str, mode: list[str]
) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path /= "log"
    ended = print_agent([*mode, "--log-file", str(path)]).end(b'{"type":"get_state"}\n' if "rpc" in mode else b"")

    assert (2, "") == (ended.code, ended.out)
    assert ended.err.startswith(f"pinnace: --log-file or PINNACE_LOG: {path} can't be written: ")
    assert 1 == ended.err.count("\n")


def test_print_mode_logs_as_well(print_agent: OneShotStarter, tmp_path: Path) -> None:
    ended = print_agent(["-p", "hello", "--log-file", str(tmp_path / "log")], [{"text": "good day"}]).end()

    assert (0, "good day\n", "") == ended
    assert {"start", "model_request", "agent_settled", "end"} <= {line["event"] for line in lines_of(tmp_path / "log")}


def test_a_refusal_to_start_is_logged(print_agent: OneShotStarter, tmp_path: Path) -> None:
    path = tmp_path / "log"
    ended = print_agent(["-p", "hello", "--provider", "nosuch", "--log-file", str(path)]).end()

    assert 1 == ended.code
    assert ("refused to start", "error") == (lines_of(path)[-1]["event"], lines_of(path)[-1]["level"])


def test_a_defect_is_logged_with_its_traceback_and_without_secrets() -> None:
    try:
        raise RuntimeError(f"broke with {KEY}")
    except RuntimeError:
        record = logging.LogRecord("pinnace.x", logging.ERROR, "", 1, "%s failed", ("job",), sys.exc_info())
    line = json.loads(journal.JsonLines(Secrets(KEY)).format(record))

    assert ("job failed", "error", "pinnace.x") == (line["event"], line["level"], line["logger"])
    assert "RuntimeError: broke with [redacted]" in line["traceback"]


def test_a_full_file_is_kept_under_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_FILE_BYTES", 200)
    handler = journal.LogFile(str(tmp_path / "log"))
    for number in range(20):
        handler.emit(logging.LogRecord("x", logging.INFO, "", 1, f"line {number} {'.' * 50}", (), None))
    handler.close()

    assert ["log", "log.1", "log.2", "log.3"] == sorted(each.name for each in tmp_path.iterdir())
    assert {0o600} == {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert "line 19 " in (tmp_path / "log").read_text()


def test_without_a_log_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pinnace_rpc.cli.main import main\n"
        "code = main(['--mode', 'rpc', '--no-session'])\n"
        "sys.exit(code or sum(name in sys.modules for name in ('pinnace_rpc.server.log_file', 'logging.handlers')))\n"
    )
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "HOME": str(tmp_path)}
    command = [sys.executable, "-c", script]
    asked = b'{"type":"get_state"}\n'
    done = subprocess.run(command, input=asked, capture_output=True, env=environment, timeout=60, check=False)

    assert (0, b"") == (done.returncode, done.stderr)
