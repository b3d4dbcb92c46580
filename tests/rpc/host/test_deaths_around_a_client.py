"""Clients over real attaches and a host: records and messages come once, whichever process dies or stands still."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
from tests.rpc.host.attached import (
    OFFLINE,
    TIMEOUT_S,
    HostProcess,
    Record,
    command,
    environment_of,
    started,
)

from pinnace_fuzz.process_tree import is_alive
from pinnace_rpc.client import BlockingClient
from pinnace_rpc.host.locations import running_host

ATTACH = (sys.executable, "-P", "-m", "pinnace_rpc", "attach")


@pytest.fixture
def unhosted(folder: Path) -> Iterator[Path]:
    """A folder without a host; one that an attach starts is ended, by force if it must be."""
    yield folder
    done = subprocess.run(command("stop"), env=environment_of(folder), check=False, capture_output=True)
    if (holder := running_host(str(folder / "agent"))) is not None:
        print(f"host stop exited with {done.returncode}: {done.stderr!r}")
        os.kill(holder.pid, signal.SIGKILL)


def test_two_attaches_at_once_start_one_host(unhosted: Path) -> None:
    words = [*ATTACH, "--cursors", *OFFLINE]
    environment = environment_of(unhosted)
    attaches = [attached([*words, name], environment) for name in ("one", "two")]
    for attach, name in zip(attaches, ("one", "two"), strict=True):
        assert record_of(attach)["agent"] == name
    assert [attach.communicate(timeout=TIMEOUT_S)[1] for attach in attaches] == [None, None]
    assert [attach.returncode for attach in attaches] == [0, 0]
    listed = subprocess.run([*ATTACH[:-1], "agents", "--json"], env=environment, check=True, capture_output=True)
    assert [each["name"] for each in json.loads(listed.stdout)["agents"]] == ["one", "two"]


# Holds a host up at its start, and names its process.
HELD_UP = """
import os, sys, time
from pathlib import Path
if sys.orig_argv[-2:] == ["pinnace_rpc", "host"]:
    Path(__file__).with_name("pid.part").write_text(str(os.getpid()))
    Path(__file__).with_name("pid.part").rename(Path(__file__).with_name("pid"))
    while True:
        time.sleep(0.01)
"""


def test_a_host_that_was_slower_than_another_one_is_ended_by_who_has_started_it(unhosted: Path) -> None:
    """It would be the next host if that one is stopped, and nothing would end it."""
    held = unhosted / "held"
    held.mkdir()
    (held / "sitecustomize.py").write_text(HELD_UP)
    environment = environment_of(unhosted)
    slow = {**environment, "PYTHONPATH": f"{held}{os.pathsep}{environment['PYTHONPATH']}"}
    with attached([*ATTACH, "one", "--cursors", *OFFLINE], slow) as attach:
        while not (held / "pid").exists():
            assert attach.poll() is None
        with started(unhosted, environment):
            assert record_of(attach)["agent"] == "one"
            pid = int((held / "pid").read_text())
            deadline_s = time.monotonic() + TIMEOUT_S
            while is_alive(pid) and time.monotonic() < deadline_s:
                time.sleep(0.01)
            was_ended = not is_alive(pid)
            if not was_ended:
                os.kill(pid, signal.SIGKILL)
            attach.communicate(timeout=TIMEOUT_S)
        assert was_ended


@pytest.mark.parametrize("killed", ["agent", "host and agent"])
def test_an_unanswered_message_is_sent_again_and_delivered_once(unhosted: Path, killed: str) -> None:
    """The client learns of the crash by one record, and of every other event once."""
    environment = environment_of(unhosted)
    client = BlockingClient.attach("main", cwd=unhosted, env=environment, flags=OFFLINE)
    with client as agent, ThreadPoolExecutor(1) as threads:
        events = agent.events()
        agent.prompt("first")
        seen: list[Record] = [cast("Record", next(events))]  # cast: events of a host have more than their types
        while seen[-1]["type"] != "agent_settled":
            seen.append(cast("Record", next(events)))
        [pid] = agents_of(unhosted)
        os.kill(pid, signal.SIGSTOP)
        asked = threads.submit(agent.prompt, "second")
        while b'"digest"' not in table(unhosted).splitlines()[-1]:
            pass
        if killed != "agent":
            holder = running_host(str(unhosted / "agent"))
            assert holder is not None
            os.kill(holder.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        asked.result(TIMEOUT_S)
        seen.append(cast("Record", next(events)))
        while seen[-1]["type"] != "agent_settled":
            seen.append(cast("Record", next(events)))
        messages = cast("list[Record]", agent.get_messages()["messages"])

    assert [each["content"][0]["text"] for each in messages if each["role"] == "user"] == ["first", "second"]
    restarts = [each for each in seen if each["type"] == "agent_restarted"]
    assert [(each["epoch"], each["complete"]) for each in restarts] == [(2, False)]
    cursors = [each["cursor"] for each in seen if "cursor" in each]
    assert len(cursors) == len({*cursors}) == len(seen) - 1


def test_a_client_that_stands_still_delays_no_other(host: HostProcess) -> None:
    """It gets the same records when it goes on."""
    words = [*ATTACH, "main", "--cursors", *OFFLINE]
    environment = {**host.environment, "PINNACE_OFFLINE_DELAY_MS": "0"}
    with attached(words, environment) as still, attached(words, environment) as other:
        for each in (still, other):
            assert record_of(each)["type"] == "attached"
        still.send_signal(signal.SIGSTOP)
        assert other.stdin is not None
        other.stdin.write(b'{"id":"1","type":"prompt","message":"count to 2000"}\n')
        other.stdin.flush()
        mine = [record_of(other)]
        while mine[-1]["type"] != "agent_settled":
            mine.append(record_of(other))
        still.send_signal(signal.SIGCONT)
        events = [each for each in mine if each["type"] != "response"]
        assert [record_of(still) for _ in events] == events


def attached(words: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def record_of(attach: "subprocess.Popen[bytes]") -> Record:
    assert attach.stdout is not None
    record: Record = json.loads(attach.stdout.readline())
    return record


def agents_of(folder: Path) -> list[int]:
    """Return the processes of the agents."""
    words = [*ATTACH[:-1], "agents", "--json"]
    listed = subprocess.run(words, env=environment_of(folder), check=True, capture_output=True)
    return [each["pid"] for each in json.loads(listed.stdout)["agents"]]


def table(folder: Path) -> bytes:
    """Return what the host has kept of the client's commands."""
    [path] = (folder / "agent" / "host" / "agents" / "main" / "clients").iterdir()
    return path.read_bytes()
