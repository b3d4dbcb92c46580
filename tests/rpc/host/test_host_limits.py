"""The limits of a host that its command line sets: clients at once, the bytes of a journal."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.rpc.host.attached import HostProcess, environment_of, started

from pinnace_rpc.cli.commands.host import COMMAND
from pinnace_rpc.host.protocol import AskStatus
from pinnace_rpc.options.parser import UsageError, parse

LEAST_JOURNAL_BYTES = 4 * 2**20


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-agents", "0"),
        ("--max-agents", "10001"),
        ("--max-clients", "0"),
        ("--max-clients", "-1"),
        ("--max-clients", ""),
        ("--idle-minutes", "0"),
        ("--idle-minutes", "nan"),
        ("--agent-memory", "255"),
        ("--journal-bytes", str(LEAST_JOURNAL_BYTES - 1)),
        ("--journal-bytes", "64MiB"),
        ("--journal-bytes", "9" * 30),
    ],
)
def test_a_limit_outside_its_range_is_a_usage_error_that_names_the_option(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^{option} takes a"):
        parse(COMMAND, [f"{option}={value}"])


def attach_program(host: HostProcess) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-P", "-m", "pinnace_rpc", "attach", "main"]
    return subprocess.run(words, env=dict(host.environment), input="", capture_output=True, text=True, check=False)


def test_a_client_over_the_limit_is_refused_and_the_host_still_reached(folder: Path) -> None:
    """A client that has left, or comes back under its name, leaves its place."""
    with started(folder, environment_of(folder), "--max-clients", "2") as host:
        with host.attach(client="kept") as first, host.attach("other") as other:
            assert other.ask({"id": "1", "type": "get_state"})["success"]
            refused = attach_program(host)
            assert refused.returncode == 1
            assert "the host has 2 clients, as many as it may (--max-clients)" in refused.stderr
            assert host.ask(AskStatus())["clients"] == 2
            with host.attach(client="kept", start=()) as again:
                assert again.ask({"id": "2", "type": "get_state"})["success"]
                assert first.ended().exit_code == 75
                assert "--max-clients" in host.refusal(host.request(agent="main", start=())).error
        while host.ask(AskStatus())["clients"]:  # it reads the ends of two connections, and of a third
            pass
        assert attach_program(host).returncode == 0


def test_a_journal_that_is_full_loses_its_oldest_records(folder: Path) -> None:
    """A cursor behind them gets a record that names the gap, and everything that follows it."""
    words = ("--journal-bytes", str(LEAST_JOURNAL_BYTES))
    with started(folder, environment_of(folder), *words) as host:
        with host.attach(has_cursors=True) as connection:
            attached = connection.record()
            connection.send({"id": "p", "type": "prompt", "message": "x" * 400_000})
            connection.until(type="agent_settled")
            for number in range(12):
                assert connection.ask({"id": str(number), "type": "get_messages"})["success"]
            connection.send({"id": "q", "type": "prompt", "message": "hi"})
            last = connection.until(type="agent_settled")[-1]
        files = [*(folder / "agent/host/agents/main").glob("*.jsonl")]
        assert LEAST_JOURNAL_BYTES // 2 < sum(file.stat().st_size for file in files) <= LEAST_JOURNAL_BYTES
        begin = f"{attached['journal']}.{attached['epoch']}:0"
        with host.attach(since=begin, start=()) as late:
            assert late.record()["replay"] == "truncated"
            gap, first, *rest = late.until(seq=last["seq"])
        assert (gap["type"], gap["from"]) == ("truncated", begin)
        assert gap["to"] == f"{attached['journal']}.1:{first['seq'] - 1}"
        assert [each["seq"] for each in rest] == list(range(first["seq"] + 1, last["seq"] + 1))
