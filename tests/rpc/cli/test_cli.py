"""The program as it is started: exit codes, streams, signals, what it loads."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_rpc.options.shown.version import shown_version

PINNACE = [sys.executable, "-P", "-m", "pinnace_rpc"]
RPC = ["--mode", "rpc", "--no-session"]
TIMEOUT_S = 60


def environment(folder: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PI_CODING_AGENT_DIR": str(folder / "agent"),
        "PYTHONPATH": PYTHONPATH,
        **(env or {}),
    }


def run(folder: Path, *words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PINNACE, *words],
        cwd=folder,
        env=environment(folder, env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_the_version_is_all_that_is_said(flag: str, tmp_path: Path) -> None:
    ended = run(tmp_path, flag)
    assert (0, f"{shown_version()}\n", "") == (ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_option_that_does_something(flag: str, tmp_path: Path) -> None:
    ended = run(tmp_path, flag)
    assert (0, "") == (ended.returncode, ended.stderr)
    for name in "--mode --provider --model --api-key --thinking --tools -nt -nbt -xt --protocol --on-eof shim".split():
        assert name in ended.stdout


@pytest.mark.parametrize("words", [["--version"], ["--help"], [*RPC, "--bogus"], ["shim", "--help"], ["config"]])
def test_what_needs_no_agent_loads_none(words: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-P", "-m", "pinnace_rpc", *words]
    env = environment(tmp_path)
    ended = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    loaded = set(re.findall(r"\| +([\w.]+)$", ended.stderr, re.MULTILINE))
    assert "pinnace_rpc.options.parser" in loaded
    assert set() == loaded & {"trio", "pydantic", "orjson", "transitions", "httpx", "pinnace_agent", "asyncio"}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([*RPC, "--bogus"], 2, "pinnace: No such option '--bogus'"),
        (["--mode", "tui"], 2, "pinnace: --mode takes one of text, json, rpc"),
        (["config"], 2, "pinnace: not supported: a menu of settings"),
        (["install"], 2, "pinnace: Missing argument"),
        (["install", "npm:../x"], 2, "pinnace: npm:../x: '../x' is no name of an npm package"),
        (["auth", "print-api-key", "x"], 2, "pinnace: not supported: printing keys"),
        (["--resume"], 2, "pinnace: not supported: a menu of sessions"),
        ([*RPC, "--modle", "m"], 2, "pinnace: No such option '--modle'. (Did you mean one of: '--mode'"),
        (["completion", "tcsh"], 2, "pinnace: Invalid value"),
        (["--mode", "rpc", "--session", "0f"], 1, "pinnace: No session matches '0f'"),
        ([*RPC, "--model", "nope"], 1, 'pinnace: Model "nope" not found'),
        ([*RPC, "--provider", "nobody", "--model", "m"], 1, 'pinnace: Unknown provider "nobody"'),
        ([*RPC, "--provider", "fake"], 1, "pinnace: --provider needs --model"),
        ([*RPC, "--api-key", "k"], 1, "pinnace: --api-key needs a model"),
        ([*RPC, "--tools", "read,+bash"], 1, "pinnace: --tools"),
        (["shim"], 2, "pinnace: Missing argument 'DIR'"),
        (["shim", "--bogus"], 2, "pinnace: No such option '--bogus'"),
    ],
)
def test_a_start_that_fails_says_why_on_stderr_and_nothing_on_stdout(
    words: list[str], code: int, text: str, tmp_path: Path
) -> None:
    ended = run(tmp_path, *words, stdin='{"id":"s","type":"get_state"}\n')
    assert (code, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith(text)
    assert 1 == ended.stderr.count("\n")


def test_without_a_model_the_process_lives_and_says_so_to_a_prompt(tmp_path: Path) -> None:
    ended = run(tmp_path, *RPC, "--on-eof", "drain", stdin='{"id":"p","type":"prompt","message":"hi"}\n')
    assert 0 == ended.returncode
    assert '"error":"No model selected.' in ended.stdout


def test_a_damaged_configuration_is_reported_and_the_process_lives(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    for name in ("settings.json", "models.json", "auth.json"):
        (tmp_path / "agent" / name).write_text("{")
    ended = run(tmp_path, *RPC, stdin='{"id":"s","type":"get_state"}\n')
    assert 0 == ended.returncode
    assert '"success":true' in ended.stdout
    assert 3 == ended.stderr.count("is not valid JSON")


def test_an_interrupt_at_any_moment_of_the_start_shows_no_traceback(tmp_path: Path) -> None:
    """The first output of `-v` is an import, so the interrupt comes while the program loads."""
    with subprocess.Popen(
        [sys.executable, "-v", "-P", "-m", "pinnace_rpc", *RPC],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"import 'pinnace_rpc.options.parser'" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
    assert -signal.SIGINT == process.returncode
    assert b"Traceback" not in rest


def test_an_ignored_interrupt_stays_ignored_until_the_server_takes_over(tmp_path: Path) -> None:
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "from pinnace_rpc.cli.main import main; main(['--version']);"
        "sys.exit(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN)"
    )
    env = environment(tmp_path)
    ended = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert 0 == ended.returncode


def test_output_that_no_one_reads_is_no_traceback(tmp_path: Path) -> None:
    command = [*PINNACE, "--help"]
    reader, writer = os.pipe()
    os.close(reader)
    env = environment(tmp_path)
    ended = subprocess.run(command, env=env, stdout=writer, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    os.close(writer)
    assert b"Traceback" not in ended.stderr
