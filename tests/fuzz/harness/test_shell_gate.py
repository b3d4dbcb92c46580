"""Gates for shell commands, with real shells; and what is read out of a transcript."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace_fuzz.harness.agent_process import DriverTimeout
from pinnace_fuzz.harness.journal import ReceivedRecord
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.reading import faults, joined_deltas, kinds, user_texts


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[ShellGate]:
    with ShellGate(tmp_path / "a gate") as gate:
        yield gate


def start(command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE, text=True)


def test_a_command_waits_until_it_is_released(gate: ShellGate) -> None:
    with start(f"{gate.reading}; echo $word") as command:
        gate.wait_reached()
        assert command.poll() is None
        gate.release("on")
        assert "on\n" == command.communicate()[0]


def test_each_wait_needs_a_release_of_its_own(gate: ShellGate) -> None:
    with start(f"for n in 1 2 3; do {gate.reading}; echo $n $word; done") as command:
        for word in ("a", "b", "c"):
            gate.release(word)
        assert "1 a\n2 b\n3 c\n" == command.communicate()[0]


def test_a_gate_that_no_one_waits_at_says_so(gate: ShellGate) -> None:
    with pytest.raises(DriverTimeout, match="no command reads a gate"):
        gate.release(timeout_s=0.01)


def transcript(*records: Record) -> list[ReceivedRecord]:
    return [ReceivedRecord(number, 0.0, record, 0) for number, record in enumerate(records)]


def test_a_transcript_is_read_by_kind_and_text() -> None:
    user = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    records = transcript(
        {"type": "response", "command": "prompt", "success": True},
        {"type": "response", "command": "bash", "success": False},
        {"type": "message_start", "message": user},
        {"type": "message_end", "message": user},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "a"}},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "b"}},
    )

    assert ["prompt:ok", "bash:error", "message_end"] == kinds(records, "prompt:ok", "bash:error", "message_end")
    assert ["hello"] == user_texts(records)
    assert "ab" == joined_deltas(records)


def test_what_is_left_open_is_a_fault() -> None:
    assert [] == faults(transcript({"type": "agent_settled", "aborted": False}))
    [fault] = faults(transcript({"type": "agent_start"}))

    assert "I-EOF-1: the trace ends while a run of record 1 is open" == fault
