"""The driver against a stand-in agent: real pipes, real processes, clients that misbehave."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.forked_agents import open_descriptors

from pinnace_fuzz import process_tree
from pinnace_fuzz.harness import agent_process
from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.records import encode_record

STAND_IN = [sys.executable, str(Path(__file__).with_name("stand_in_agent.py"))]
READ_SIZES = {"type": "read_sizes", "id": "sizes"}


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(STAND_IN) as agent:
        agent.wait({"type": "hello"})
        yield agent


def is_running(process_id: int) -> bool:
    try:
        # A zombie that its parent has not reaped yet does not run.
        return "\nState:\tZ" not in Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return False


def test_a_request_gets_its_response(agent: Agent) -> None:
    response = agent.request({"type": "anything"})

    assert (response["type"], response["command"], response["success"]) == ("response", "anything", True)
    assert agent.request({"type": "other", "id": 7})["id"] == 7


def test_wait_goes_on_after_the_record_it_found(agent: Agent) -> None:
    agent.send_many([{"type": "a", "id": "1"}, {"type": "b", "id": "2"}, {"type": "a", "id": "3"}])

    assert agent.wait({"command": "a"})["id"] == "1"
    assert agent.wait({"command": "a"})["id"] == "3"
    with pytest.raises(DriverTimeout):
        agent.wait({"command": "b"}, 0.01)


def test_wait_since_a_mark_leaves_the_cursor(agent: Agent) -> None:
    mark = agent.mark()
    agent.request({"type": "a", "id": "1"})

    assert agent.wait(lambda record: record["type"] == "response", since=mark)["id"] == "1"
    assert agent.wait({"command": "a"})["id"] == "1"
    assert agent.wait({"type": "hello"}, since=0) == {"type": "hello"}


def test_wait_all_takes_any_order(agent: Agent) -> None:
    agent.send_many([{"type": "a", "id": "1"}, {"type": "b", "id": "2"}, {"type": "c", "id": "3"}])

    assert [each["id"] for each in agent.wait_all([{"command": "b"}, {"command": "a"}])] == ["2", "1"]
    assert agent.wait({"type": "response"})["id"] == "3"


def test_a_response_is_found_wherever_the_cursor_is(agent: Agent) -> None:
    assert agent.response("1") is None
    agent.send_many([{"type": "a", "id": "1"}, {"type": "b", "id": "2"}])
    agent.wait_response("2")

    assert agent.response("1") == agent.wait_response("1") == agent.records[1].record
    assert agent.found({"type": "response"}) == [each.record for each in agent.records[1:]]


def test_many_records_are_one_write(agent: Agent) -> None:
    records = [{"type": "x", "id": str(number)} for number in range(100)]
    agent.send_many(records)
    agent.wait_response("99")

    size = sum(len(encode_record(record)) for record in records)
    assert agent.request(READ_SIZES)["data"]["sizes"][0] == size


def test_a_split_write_is_read_in_its_parts(agent: Agent) -> None:
    line = encode_record({"type": "x", "id": "✓"})
    agent.split_write(line, [1, 5, 20])
    agent.wait_response("✓")

    assert agent.request(READ_SIZES)["data"]["sizes"][:-1] == [1, 4, 15, len(line) - 20]


def test_a_line_larger_than_any_pipe_goes_through_both_ways(agent: Agent) -> None:
    agent.send({"type": "say_many", "n": 1, "size": 5_000_000, "pad": "y" * 5_000_000, "id": "1"})
    agent.wait_response("1")

    (filler,) = agent.found({"type": "filler"})
    assert len(filler["text"]) == 5_000_000


def test_records_have_the_times_of_their_arrival(agent: Agent) -> None:
    sent_s = agent.send({"type": "a", "id": "1"})
    agent.wait_response("1")
    hello, response = agent.records

    assert agent.process.started_s < hello.time_s < sent_s < response.time_s < time.monotonic()
    assert (hello.number, response.number) == (0, 1)
    assert hello.size_bytes == len(b'{"type": "hello"}\n')


def test_lines_are_cut_at_lf_only(agent: Agent) -> None:
    agent.request({"type": "say_bytes", "text": '{"type":"odd","text":"\u2028\u0085\x7f"}\r\n'})

    assert agent.found({"type": "odd"}) == [{"type": "odd", "text": "\u2028\u0085\x7f"}]
    assert agent.journal.flaws == []


@pytest.mark.parametrize(
    "line", ["", "[]", "null", "{", "{} {}", "noise", '{"x":NaN}', '{"x":"\\ud800"}', '{"x":"\udcff"}']
)
def test_a_line_that_is_no_record_is_a_flaw(agent: Agent, line: str) -> None:
    # With ASCII only, since the text may have a surrogate that stands for a byte.
    agent.send_bytes(json.dumps({"type": "say_bytes", "text": f"{line}\n", "id": "1"}).encode() + b"\n")
    agent.wait_response("1")

    assert len(agent.journal.flaws) == 1


def test_bytes_after_the_last_lf_are_kept(agent: Agent) -> None:
    agent.send({"type": "say_bytes", "text": "torn", "id": "1"})
    agent.close_stdin()
    agent.wait_exit()
    assert agent.journal.unterminated == b""
    assert len(agent.journal.flaws) == 1, "the response was glued to the torn line"


def test_output_without_a_final_lf_is_noticed() -> None:
    with Agent(["printf", r"{}\n{"]) as agent:
        assert agent.wait_exit() == 0
        assert agent.journal.unterminated == b"{"


def test_missing_and_double_responses_are_counted(agent: Agent) -> None:
    double = '{"type":"response","id":"2"}\n'
    agent.send_many([{"type": "unanswered", "id": "1"}, {"type": "say_bytes", "text": double, "id": "2"}])
    agent.split_write(encode_record({"type": "x", "id": 3}), [4])
    agent.send({"type": "extension_ui_response", "id": "not a command"})
    agent.request({"type": "last"})

    assert agent.journal.unanswered() == {'"1"': (1, 0), '"2"': (1, 2)}


def test_a_paused_reader_leaves_everything_in_the_pipe(agent: Agent) -> None:
    agent.pause_reading()
    mark = agent.mark()
    agent.send({"type": "say_many", "n": 100, "size": 10_000, "id": "1"})
    used_s = time.process_time()
    with pytest.raises(DriverTimeout, match="reading paused"):
        agent.wait_response("1", 0.2)
    assert time.process_time() - used_s < 0.1, "it spins"
    assert agent.mark() == mark

    agent.resume_reading()
    agent.wait_response("1")
    assert len(agent.found({"type": "filler"})) == 100


def test_a_paused_reader_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_process, "DRAIN_TIMEOUT_S", 600)
    with Agent(STAND_IN) as agent:
        agent.wait({"type": "hello"})
        agent.pause_reading()
        agent.send({"type": "say_many", "n": 100, "size": 10_000})
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < 300


def test_an_agent_finds_its_closed_stdout_closed(agent: Agent) -> None:
    agent.close_stdout()
    agent.send({"type": "anything"})

    assert agent.wait_exit() == 1
    assert "BrokenPipeError" in agent.stderr_text


def test_closing_stdin_ends_the_agent(agent: Agent) -> None:
    agent.close_stdin()

    assert agent.wait_exit() == 0
    assert not agent.alive
    assert agent.process.exited_s is not None
    with pytest.raises(AgentGone):
        agent.send({"type": "late"})


def test_sending_to_a_dead_agent_says_so(agent: Agent) -> None:
    agent.send({"type": "exit", "code": 3})
    assert agent.wait_exit() == 3

    with pytest.raises(AgentGone):
        agent.send({"type": "late"})


def test_sending_to_an_agent_that_does_not_read_fails_in_time(agent: Agent) -> None:
    agent.send({"type": "be_deaf"})
    agent.wait({"type": "deaf"})
    line = encode_record({"pad": "x" * 1_000_000})
    with pytest.raises(DriverTimeout, match="be_deaf"):
        agent.send_bytes(line, timeout_s=0.1)


def test_stdin_can_be_a_file(tmp_path: Path) -> None:
    script = tmp_path / "input"
    script.write_bytes(encode_record({"type": "a", "id": "1"}))
    with Agent(STAND_IN, stdin=script) as agent:
        assert agent.wait_exit() == 0
        assert agent.response("1") is not None
        with pytest.raises(AgentGone):
            agent.send({"type": "late"})


def test_folder_and_environment_are_what_was_given(tmp_path: Path) -> None:
    with Agent([*STAND_IN, "--flag"], cwd=tmp_path, env={"ONLY": "this"}) as agent:
        found = agent.request({"type": "environment"})["data"]

    assert found["cwd"] == str(tmp_path.resolve())
    assert found["argv"] == ["--flag"]
    assert found["environment"]["ONLY"] == "this"
    assert "HOME" not in found["environment"]


def test_signals_reach_the_agent(agent: Agent) -> None:
    agent.signal(signal.SIGTERM)

    assert agent.wait_exit() == -signal.SIGTERM


def test_stderr_is_kept_apart(agent: Agent) -> None:
    agent.send_many([{"type": "say_stderr", "text": "ouch\n"}, {"type": "exit", "code": 0}])
    agent.wait_exit()

    assert agent.stderr_text == "ouch\n"
    assert agent.found({"text": "ouch"}) == []


def test_what_was_said_on_stderr_before_an_answer_is_known_with_it(agent: Agent) -> None:
    """Each pipe is read in a thread of its own, and any of them may get its turn later."""
    for number in range(200):
        agent.request({"type": "say_stderr", "text": f"{number}\n"})
        assert agent.stderr_text.endswith(f"{number}\n")


def test_a_flood_on_stderr_blocks_no_one_and_keeps_its_end(agent: Agent) -> None:
    agent.request({"type": "say_stderr", "text": "x" * 4_000_000 + "the end"})
    agent.close_stdin()
    agent.wait_exit()

    assert agent.stderr_text.endswith("the end")
    assert len(agent.stderr_text) < 3_000_000


def test_memory_is_readable(agent: Agent) -> None:
    before_kib = agent.rss_kib()
    agent.request({"type": "x", "pad": "y" * 6_000_000})

    assert 1_000 < before_kib < agent.peak_rss_kib() - 6_000
    agent.close_stdin()
    agent.wait_exit()
    with pytest.raises(ProcessLookupError):
        agent.rss_kib()


def test_descendants_in_sessions_of_their_own_are_found_and_killed() -> None:
    with Agent([*STAND_IN, "--stay"]) as agent:
        # One of them even without the environment that marks the run.
        environments: list[dict[str, object]] = [{}, {"env": {}}]
        spawned = [agent.request({"type": "spawn", **each})["data"]["pid"] for each in environments]
        assert sorted(agent.descendants()) == sorted(spawned)
        assert len({os.getpgid(process_id) for process_id in [*spawned, agent.process.pid]}) == 3

    assert not any(is_running(process_id) for process_id in [*spawned, agent.process.pid])


@pytest.mark.parametrize("ends", ["driver", "kill_all"])
def test_a_process_that_dies_late_is_waited_for(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but its parent shows whose it is, and a killed process lives on until it has its turn."""
    late = threading.Event()

    def kill_late(process_id: int, number: signal.Signals, kill: Callable[[int, int], None] = os.kill) -> None:
        if process_id == spawned and not late.is_set():
            late.set()
            assert agent.process.await_exit(10)
        else:
            kill(process_id, number)

    with Agent([*STAND_IN, "--stay"]) as agent:
        run_id = agent.request({"type": "environment"})["data"]["environment"][process_tree.RUN_VARIABLE]
        spawned = agent.request({"type": "spawn", "env": {}})["data"]["pid"]
        monkeypatch.setattr("pinnace_fuzz.process_tree.os.kill", kill_late)
        if ends == "kill_all":
            assert process_tree.kill_all(run_id) == []
        else:
            agent.kill()
        assert late.is_set()
        assert not is_running(spawned)


def test_descendants_of_a_dead_agent_are_killed() -> None:
    with Agent(STAND_IN) as agent:
        spawned = agent.request({"type": "spawn"})["data"]["pid"]
        agent.close_stdin()
        agent.wait_exit()
        assert agent.descendants() == [spawned]

    assert not is_running(spawned)


def test_another_agents_processes_are_left_alone(agent: Agent) -> None:
    with Agent(STAND_IN) as other:
        spawned = other.request({"type": "spawn"})["data"]["pid"]
        agent.kill()
        assert not agent.alive
        assert other.descendants() == [spawned]
        assert other.request({"type": "still there"})["success"]


def test_killing_twice_is_the_same_as_once(agent: Agent) -> None:
    agent.kill()
    agent.kill()

    assert agent.wait_exit() == -signal.SIGKILL


def test_a_failing_test_leaves_no_process_thread_or_descriptor() -> None:
    # What an earlier test has begun may end meanwhile.
    descriptors, threads = open_descriptors(), set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), Agent([*STAND_IN, "--stay"]) as agent:
        agent.request({"type": "spawn"})
        raise ZeroDivisionError

    assert agent.descendants() == []
    assert not agent.alive
    assert (open_descriptors() - descriptors, set(threading.enumerate()) - threads) == (set(), set())


WAITS: list[Callable[[Agent], object]] = [
    lambda agent: agent.wait({"type": "never"}, 0.01),
    lambda agent: agent.wait_all([{"type": "never"}], 0.01),
    lambda agent: agent.wait_response("never", 0.01),
    lambda agent: agent.wait_exit(0.01),
]


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_that_fails_shows_the_transcript(agent: Agent, wait: Callable[[Agent], object]) -> None:
    agent.request({"type": "telltale"})
    with pytest.raises(DriverTimeout) as raised:
        wait(agent)

    text = str(raised.value)
    assert "stand_in_agent.py" in text
    assert "alive" in text
    assert 'sent   {"id":"driver-1","type":"telltale"}' in text
    assert 'got    {"type": "response", "command": "telltale"' in text


@pytest.mark.parametrize("wait", WAITS[:3])
def test_waiting_for_a_record_ends_with_stdout(agent: Agent, wait: Callable[[Agent], object]) -> None:
    agent.close_stdin()
    agent.wait_exit()
    begun_s = time.monotonic()
    with pytest.raises(DriverTimeout):
        agent.wait({"type": "never"}, 60)

    assert time.monotonic() - begun_s < 30
    with pytest.raises(DriverTimeout, match="stdout ended"):
        wait(agent)


def test_a_binary_that_is_not_there_is_an_error_of_the_test() -> None:
    with pytest.raises(FileNotFoundError):
        Agent(["/nonexistent/agent"])
