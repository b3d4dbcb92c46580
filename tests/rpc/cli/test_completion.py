"""What a shell completes: asked as its script asks, and by a real shell."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.tools import builtin_tools
from pinnace_rpc.cli.commands.completion import SHELLS, TOOL_NAMES
from pinnace_rpc.options.help import manual
from pinnace_rpc.options.table import SUBCOMMANDS
from pinnace_spec.profiles.profiles import CLIENT_PROFILES

PINNACE = [sys.executable, "-P", "-m", "pinnace_rpc"]
MODELS = {
    "providers": {
        "local": {
            "baseUrl": "http://127.0.0.1:9/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{"id": "qwen3"}, {"id": "quick"}],
        }
    }
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "models.json").write_text(json.dumps(MODELS))
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder").mkdir()
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent")}
    return {**env, "PYTHONPATH": PYTHONPATH, **more}


def completions(home: Path, *words: str) -> list[str]:
    """Ask as the script for bash does; the last word is the one to be completed."""
    line = " ".join(["pinnace", *words])
    asked = {"_PINNACE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    env = environment(home, **asked)
    ended = subprocess.run(PINNACE, cwd=home, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (0, "") == (ended.returncode, ended.stderr)
    return [line for line in ended.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--mod"], ["--mode", "--model", "--models"]),
        (["--mode", ""], ["text", "json", "rpc", "acp"]),
        (["--mode", "j"], ["json"]),
        (["--protocol", ""], list(CLIENT_PROFILES)),
        (["--thinking", "m"], ["minimal", "medium", "max"]),
        (["--on-eof", ""], ["abort", "drain"]),
        (["--provider", "loc"], ["local"]),
        (["--provider", "local", "--model", ""], ["qwen3", "quick"]),
        (["--model", "local/q"], ["local/qwen3", "local/quick"]),
        (["--models", "local/qwen3,local/qu"], ["local/qwen3,local/quick"]),
        (["--tools", "read,b"], ["read,bash"]),
        (["au"], ["auth"]),
        (["auth", "log"], ["login", "logout"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["-p", "@"], ["@agent/", "@folder/", "@notes.txt"]),
        (["-p", "@no"], ["@notes.txt"]),
        (["-p", "@nowhere/"], []),
        (["-p", "what", "au"], []),
        (["--api-key", ""], []),
    ],
)
def test_this_is_offered(words: Sequence[str], expected: list[str], home: Path) -> None:
    assert [f"plain,{word}" for word in expected] == completions(home, *words)


def test_providers_that_are_built_in_are_offered(home: Path) -> None:
    assert ["plain,anthropic"] == completions(home, "--provider", "anthro")
    assert "plain,claude-opus-4-5" in completions(home, "--provider", "anthropic", "--model", "claude-opus")


def test_files_are_the_shells_business(home: Path) -> None:
    assert ["file,no"] == completions(home, "--session", "no")
    assert ["dir,fo"] == completions(home, "--session-dir", "fo")


def test_a_damaged_configuration_breaks_no_command_line(home: Path) -> None:
    (home / "agent" / "models.json").write_text("{")
    (home / "agent" / "auth.json").write_text("[]")

    assert ["plain,anthropic"] == completions(home, "--provider", "anthro")


def test_options_of_an_attach_are_completed(home: Path) -> None:
    assert ["plain,--cursors"] == completions(home, "attach", "--cu")
    assert ["plain,detach", "plain,end"] == completions(home, "attach", "bot", "--on-eof", "")
    assert [] == completions(home, "--cu")


def test_answers_load_no_agent(home: Path) -> None:
    asked = {"_PINNACE_COMPLETE": "bash_complete", "COMP_WORDS": "pinnace --model ", "COMP_CWORD": "2"}
    command = [sys.executable, "-X", "importtime", "-P", "-m", "pinnace_rpc"]
    ended = subprocess.run(
        command, cwd=home, env=environment(home, **asked), capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(re.findall(r"\| +([\w.]+)$", ended.stderr, re.MULTILINE))

    assert "pinnace_rpc.cli.commands.completion" in loaded
    assert set() == loaded & {
        "trio",
        "pydantic",
        "transitions",
        "httpx",
        "pinnace_agent.engine.interpreter",
        "pinnace_agent.tools",
    }


def test_the_names_of_tools_are_those_of_the_tools() -> None:
    assert TOOL_NAMES == tuple(builtin_tools())


def test_every_subcommand_is_one(home: Path) -> None:
    """None is taken for a message, and the manual names each. An attach passes on what extensions may know."""
    page = manual(["-ne"])

    assert [name for name in SUBCOMMANDS if name not in page] == []
    for name in set(SUBCOMMANDS) - {"attach"}:
        ended = subprocess.run(
            [*PINNACE, name, "--bogus"], env=environment(home), capture_output=True, text=True, timeout=60, check=False
        )
        assert 2 == ended.returncode, name
        assert ended.stderr.startswith("pinnace: No such option '--bogus'"), name


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_one_that_its_shell_can_read(shell: str, home: Path) -> None:
    program = shutil.which(shell)
    ended = subprocess.run(
        [*PINNACE, "completion", shell], env=environment(home), capture_output=True, text=True, timeout=60, check=False
    )
    assert (0, "") == (ended.returncode, ended.stderr)
    assert "_PINNACE_COMPLETE" in ended.stdout
    if program is not None:
        read = subprocess.run([program, "-n"], input=ended.stdout, text=True, capture_output=True, check=False)
        assert (0, "") == (read.returncode, read.stderr)


def test_bash_completes_a_command_line(home: Path) -> None:
    """What the documented line does, in a shell that has `pinnace` on its path."""
    program = home / "bin" / "pinnace"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m pinnace_rpc "$@"\n')
    program.chmod(0o755)
    script = (
        "source <(pinnace completion bash); COMP_WORDS=(pinnace --mode j); COMP_CWORD=2;"
        '_pinnace_completion pinnace; echo "${COMPREPLY[@]}"'
    )
    env = environment(home, PATH=f"{program.parent}:{os.environ['PATH']}")
    ended = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False)

    assert "json\n" == ended.stdout, ended.stderr
