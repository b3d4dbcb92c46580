"""Running out of descriptors, processes or threads is an error of a command, and never the end of the agent."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.source_tree import PYTHONPATH

ROOT = Path(__file__).parents[3]
LIMITED = ["sh", "-c", 'ulimit "$1" "$2" && shift 2 && exec "$@"', "sh"]
COMMAND = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--provider", "offline"]
TIMEOUT_S: Final = 120.0
# Whatever opens files, starts threads or programs, loads modules or replaces the session.
LINES: Final[tuple[dict[str, Any], ...]] = (
    {"type": "bash", "command": "echo done"},
    {"type": "bash", "command": "seq 100000"},
    {"type": "bash", "command": "sleep 0.05 & sleep 0.05 & wait"},
    {"type": "prompt", "message": "Say something"},
    {"type": "prompt", "message": 5},
    {"type": "no_such_command"},
    {"type": "get_commands"},
    {"type": "export_html"},
    {"type": "compact"},
    {"type": "new_session"},
    {"type": "clone"},
    {"type": "switch_session", "sessionPath": "/nowhere.jsonl"},
    {"type": "abort"},
    {"type": "hello"},
)


def answers(limit: Sequence[str], lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Start an agent with a limit of the system, send it these commands, end its input; return what it answered."""
    numbered = [json.dumps({**line, "id": str(number)}) for number, line in enumerate(lines)]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [*LIMITED, *limit, *COMMAND, "--on-eof", "drain"],
            input="\n".join([*numbered, ""]).encode(),
            capture_output=True,
            cwd=home,
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "HOME": home, "PI_CODING_AGENT_DIR": f"{home}/agent"},
            timeout=TIMEOUT_S,
            check=False,
        )
    assert 0 == done.returncode, done.stderr.decode()[-2000:]
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return [record for record in records if record["type"] == "response"]


def test_a_thousand_commands_at_a_limit_of_1024_descriptors_are_all_carried_out() -> None:
    answered = answers(("-n", "1024"), [{"type": "bash", "command": ":"}] * 1000)

    assert [True] * 1000 == [answer["success"] for answer in answered]


@settings(max_examples=5, deadline=None)
@given(limit=st.integers(16, 48), lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=12))
def test_every_command_is_answered_at_any_limit_of_descriptors(limit: int, lines: list[dict[str, Any]]) -> None:
    answered = answers(("-n", str(limit)), lines)

    assert sorted(map(str, range(len(lines)))) == sorted(answer["id"] for answer in answered)


def test_commands_beyond_the_published_number_wait_for_their_turn() -> None:
    """Each looks how many are at work: never more than `hello` says."""
    look = "mkdir -p at-work; touch at-work/$$; ls at-work | wc -l; sleep 0.05; rm at-work/$$"
    hello, *ended = sorted(
        answers(("-n", "64"), [{"type": "hello"}, *[{"type": "bash", "command": look}] * 12]),
        key=lambda answer: int(answer["id"]),
    )
    most = hello["data"]["limits"]["shells"]

    assert 1 <= most < 12
    assert [0] * 12 == [answer["data"]["exitCode"] for answer in ended]
    assert max(int(answer["data"]["output"]) for answer in ended) <= most


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user who may have few processes")
def test_a_user_who_may_start_no_process_gets_an_error_for_each_command(tmp_path: Path) -> None:
    """The limit counts threads as well."""
    script = (
        "import os, resource, sys, trio\n"
        "from pinnace_agent.shell.output import OutputTail\n"
        "from pinnace_agent.shell.process import ShellUnavailable, run_shell\n"
        "import pinnace_agent.shell.watchdog, subprocess\n"
        "output = OutputTail()\n"
        "os.setgroups([]); os.setgid(64123); os.setuid(64123)\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
        "async def main():\n"
        "    try:\n"
        "        await run_shell('true', cwd='/', output=output)\n"
        "    except ShellUnavailable as error:\n"
        "        print(error)\n"
        "trio.run(main)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        cwd=tmp_path,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.stdout.startswith(b"Cannot start"), done.stderr.decode()
