"""The recipes of docs/durable-agents.md at work: the service, the editor that restarts, the supervisor."""

import configparser
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest
from tests.docs.test_pages import BLOCKS, TIMEOUT_S
from tests.rpc.host.attached import wait_for_socket
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_rpc.host.locations import running_host

PAGE = "docs/durable-agents.md"


def block(first_line: str) -> str:
    (found,) = [each.text for each in BLOCKS if each.page == PAGE and each.text.startswith(f"{first_line}\n")]
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A home whose path is short enough for a socket in it."""
    path = make_short_folder("pinnace-")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def service(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a user whose service manager has started the unit of the page, and stops it."""
    (folder / "bin").mkdir()
    (folder / "bin" / "pinnace").write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -P -m pinnace_rpc "$@"\n')
    (folder / "bin" / "pinnace").chmod(0o755)
    environment = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": PYTHONPATH,
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "PINNACE_OFFLINE_DELAY_MS": "5",
    }
    unit = configparser.ConfigParser()
    unit.read(REPOSITORY / "examples" / "recipes" / "pinnace-host.service")
    host = subprocess.Popen(shlex.split(unit["Service"]["ExecStart"]), env=environment, text=True)
    # Otherwise the first client may start one of its own, and that of the service finds it there.
    wait_for_socket(host, str(folder / "pinnace" / "host.sock"))
    yield environment
    agents = running_host(str(folder / ".pi" / "agent"))
    host.send_signal(signal.SIGTERM)
    assert (agents is not None, host.wait(TIMEOUT_S)) == (True, 0)


def run(program: str, environment: dict[str, str]) -> list[str]:
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command,
        cwd=environment["HOME"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


def test_the_recipes_work(service: dict[str, str]) -> None:
    assert run(block("# editor"), service) == ["agent_start"]
    shown = run(block("# editor"), service)
    assert (shown[0], shown[-1]) == ("turn_start", "agent_settled")
    assert "message_update" in shown

    assert sorted(run(block("# supervisor"), service)) == ["worker-1 1", "worker-2 1 2", "worker-3 1 2 3"]
