"""However the process ends, in whatever it was doing: all is answered and closed, and nothing is left behind.

Ends at once is what clients need who kill after a second; here only a generous bound is held, the figures are those of
tests/benchmarks/endings.py.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.agent_process import AgentGone
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import state_of
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import faults, kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MakeGate = Callable[[], ShellGate]
MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]

# Clients kill after a second; what is asked of the program is 0.8 s, on a machine that has nothing else to do. What a
# busy one does must not decide here: all that would hold up an end lasts for ten minutes.
EXIT_S = 30.0
# Killed processes end when the kernel gets to them.
LEFT_BEHIND_S = 60.0

PROMPT = {"id": "p", "type": "prompt", "message": "go"}
ENDLESS = {"chunks": [{"text": "one"}, {"hang": True}]}
DRAIN = ("--on-eof", "drain")
# Background, a session of its own group leader's children, and a shell that ignores what can be ignored.
STUBBORN = "trap '' TERM HUP INT; sleep 600 & (sleep 600; sleep 600) & "


class Tools(NamedTuple):
    """What a state is made with."""

    agent: AgentStarter
    gates: MakeGate
    llm: MakeLlm


@pytest.fixture
def tools(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> Tools:
    return Tools(agent, gates, llm)


def idle(tools: Tools, *flags: str) -> HomedAgent:
    pi = tools.agent([], *flags)
    pi.request({"type": "get_state"})
    return pi


def preflight(tools: Tools, *flags: str) -> HomedAgent:
    """The prompt waits for its key."""
    gate, model = tools.gates(), tools.llm([{"text": "one"}])
    models: Any = pi_models(model.base_url)
    models["providers"]["fake"]["apiKey"] = f"!{STUBBORN}{gate.reading}; echo $word"
    pi = tools.agent(model, *flags, models=models)
    pi.send(PROMPT)
    gate.wait_reached()
    return pi


def before_first_byte(tools: Tools, *flags: str) -> HomedAgent:
    pi = tools.agent([{"text": "one", "hold": "head"}], *flags)
    pi.send(PROMPT)
    pi.llm.wait_reached("head")
    return pi


def mid_stream(tools: Tools, *flags: str) -> HomedAgent:
    pi = tools.agent([ENDLESS], *flags)
    pi.send(PROMPT)
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    return pi


def in_tools(tools: Tools, *flags: str) -> HomedAgent:
    """Two tools work, each with children."""
    first, second = tools.gates(), tools.gates()
    calls = [{"name": "bash", "args": {"command": STUBBORN + gate.reading}} for gate in (first, second)]
    pi = tools.agent([{"tool_calls": calls}], *flags)
    pi.send(PROMPT)
    first.wait_reached()
    second.wait_reached()
    return pi


def aborting(tools: Tools, *flags: str) -> HomedAgent:
    """The abort is read just before the end is noticed; its tools take a moment to die."""
    pi = in_tools(tools, *flags)
    pi.send({"id": "a", "type": "abort"})
    return pi


def in_bash(tools: Tools, *flags: str) -> HomedAgent:
    pi, gate = tools.agent([], *flags), tools.gates()
    pi.send({"id": "b1", "type": "bash", "command": "sleep 600"})
    pi.send({"id": "b2", "type": "bash", "command": f"echo said; {STUBBORN}{gate.reading}"})
    gate.wait_reached()
    pi.wait({"type": "bash_execution_update"})
    return pi


def with_queue(tools: Tools, *flags: str) -> HomedAgent:
    pi = mid_stream(tools, *flags)
    pi.send_many(
        [
            {"id": "s", "type": "steer", "message": "S"},
            {"id": "f1", "type": "follow_up", "message": "F1"},
            {"id": "f2", "type": "prompt", "message": "F2", "streamingBehavior": "followUp"},
        ]
    )
    pi.wait_response("f2")
    return pi


def with_line(tools: Tools, *flags: str) -> HomedAgent:
    """Commands of every kind wait behind a session command, which waits for a tool to die."""
    pi = in_tools(tools, *flags)
    pi.send_many(
        [
            {"id": "n", "type": "new_session"},
            {"id": "w1", "type": "prompt", "message": "W"},
            {"id": "w2", "type": "bash", "command": "sleep 600"},
            {"id": "w3", "type": "steer", "message": "W"},
            {"id": "w4", "type": "clear_queue"},
            {"id": "w5", "type": "set_session_name", "name": "W"},
            {"id": "w6", "type": "set_steering_mode", "mode": "all"},
            {"id": "w7", "type": "reset"},
        ]
    )
    return pi


def everything(tools: Tools, *flags: str) -> HomedAgent:
    pi = in_tools(tools, *flags)
    pi.send_many(
        [
            {"id": "b", "type": "bash", "command": "sleep 600"},
            {"id": "s", "type": "steer", "message": "S"},
            {"id": "f", "type": "follow_up", "message": "F"},
        ]
    )
    pi.wait_response("f")
    pi.send_many([{"id": "a", "type": "abort"}, {"id": "w", "type": "prompt", "message": "W"}])
    return pi


STATES = [
    idle,
    preflight,
    before_first_byte,
    mid_stream,
    in_tools,
    aborting,
    in_bash,
    with_queue,
    with_line,
    everything,
]


def end_of_stdin(pi: HomedAgent) -> int:
    pi.close_stdin()
    return 0


def sigterm(pi: HomedAgent) -> int:
    pi.signal(signal.SIGTERM)
    return 128 + signal.SIGTERM


def sighup(pi: HomedAgent) -> int:
    pi.signal(signal.SIGHUP)
    return 128 + signal.SIGHUP


def sigint(pi: HomedAgent) -> int:
    pi.signal(signal.SIGINT)
    return -signal.SIGINT


def reader_gone(pi: HomedAgent) -> int:
    """Only a write can tell that nobody reads; one that was under way may have told it already."""
    pi.close_stdout()
    with contextlib.suppress(AgentGone):
        pi.send({"type": "get_state"})
    return 1


ENDINGS = [end_of_stdin, sigterm, sighup, sigint, reader_gone]


def check_ended(pi: HomedAgent, code: int) -> None:
    """Hold an agent that was told to end to all that must be true then."""
    assert code == pi.wait_exit(EXIT_S)
    assert "Traceback" not in pi.stderr_text
    assert [] == pi.process.left_behind(LEFT_BEHIND_S)
    if not pi.has_closed_stdout:
        assert b"" == pi.journal.unterminated
        assert {} == pi.journal.unanswered()
        assert [] == faults(pi.records)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("state", STATES, ids=lambda function: function.__name__)
def test_everything_is_answered_and_closed_and_nothing_left_behind(
    tools: Tools, state: Callable[[Tools], HomedAgent], ending: Callable[[HomedAgent], int]
) -> None:
    """R-EOF-01, R-EOF-02, R-SIG-01, C-16."""
    pi = state(tools)

    check_ended(pi, ending(pi))


# What exactly is answered.


def answers(pi: HomedAgent) -> dict[str, object]:
    """Return what each id was answered: the error, or the data."""
    found = pi.found({"type": "response", "id": lambda identity: isinstance(identity, str)})
    return {answer["id"]: answer.get("data") if answer["success"] else answer["error"] for answer in found}


def test_a_prompt_whose_key_is_being_fetched_is_refused(tools: Tools) -> None:
    """C-16: it was not accepted, so it must not seem to be."""
    pi = preflight(tools)
    check_ended(pi, end_of_stdin(pi))

    assert {"p": "Shutting down"} == answers(pi)
    assert ["prompt:error", "agent_settled"] == kinds(pi.records)
    assert "shutting_down" == pi.wait_response("p")["errorCode"]


def test_an_answer_that_has_not_begun_is_closed_as_aborted(tools: Tools) -> None:
    """C-15."""
    pi = before_first_byte(tools)
    check_ended(pi, end_of_stdin(pi))
    (message,) = [end["message"] for end in pi.found({"type": "message_end", "message": {"role": "assistant"}})]

    assert ("aborted", []) == (message["stopReason"], message["content"])
    assert ["message_start", "message_end", "turn_end", "agent_end", "agent_settled"] == kinds(pi.records)[-5:]


def test_what_was_said_of_an_answer_is_kept(tools: Tools) -> None:
    """C-15: the block, the message, the turn, the run, in this order."""
    pi = mid_stream(tools)
    check_ended(pi, end_of_stdin(pi))
    (message,) = [end["message"] for end in pi.found({"type": "message_end", "message": {"role": "assistant"}})]

    assert ("aborted", "one") == (message["stopReason"], message["content"][0]["text"])
    assert ["message_update", "message_end", "turn_end", "agent_end", "agent_settled"] == kinds(pi.records)[-5:]
    assert {"type": "agent_settled", "aborted": True} == pi.records[-1].record


def test_tools_end_with_results_that_report_the_abort(tools: Tools) -> None:
    """C-15."""
    pi = in_tools(tools)
    check_ended(pi, end_of_stdin(pi))
    ends = pi.found({"type": "tool_execution_end", "isError": True})

    assert ["Command aborted"] * 2 == [end["result"]["content"][0]["text"] for end in ends]
    assert ["message_end", "turn_end", "agent_end", "agent_settled"] == kinds(pi.records)[-4:]


def test_shells_are_answered_as_cancelled_with_what_they_said(tools: Tools) -> None:
    """C-16."""
    pi = in_bash(tools)
    check_ended(pi, end_of_stdin(pi))

    assert {
        "b1": {"output": "", "cancelled": True, "truncated": False},
        "b2": {"output": "said\n", "cancelled": True, "truncated": False},
    } == answers(pi)


@pytest.mark.parametrize("ending", [end_of_stdin, sigterm, sigint], ids=lambda function: function.__name__)
def test_a_queue_is_reported_a_last_time_and_kept(tools: Tools, ending: Callable[[HomedAgent], int]) -> None:
    """C-16: before the closing records."""
    pi = with_queue(tools)
    mark = pi.mark()
    check_ended(pi, ending(pi))
    updates = pi.found({"type": "queue_update"}, since=mark)

    assert [(["S"], ["F1", "F2"])] == [(update["steering"], update["followUp"]) for update in updates]
    assert ["queue_update", "agent_end", "agent_settled"] == kinds(
        pi.records[mark:], "queue_update", "agent_end", "agent_settled"
    )
    assert ["go"] == user_texts(pi.records)


def test_a_queue_that_an_abort_holds_is_reported_a_last_time(tools: Tools) -> None:
    """C-16."""
    pi = with_queue(tools)
    pi.request({"type": "abort"})
    mark = pi.mark()
    check_ended(pi, end_of_stdin(pi))

    assert ["queue_update"] == kinds(pi.records[mark:])
    assert [["S"]] == [update["steering"] for update in pi.found({"type": "queue_update"}, since=mark)]


def test_what_waits_in_the_line_is_answered_in_order(tools: Tools) -> None:
    """C-16: session commands as cancelled, a shell as cancelled, the rest as refused; none of them has an effect."""
    pi = with_line(tools)
    mark = pi.mark()
    check_ended(pi, end_of_stdin(pi))
    found = answers(pi)

    assert found["n"] in ({"cancelled": True}, {"cancelled": False, "cleared": {"steering": [], "followUp": []}})
    if found["n"] == {"cancelled": True}:  # the end was noticed before the tools had died
        assert ["Shutting down"] * 5 == [found[key] for key in ("w1", "w3", "w4", "w5", "w6")]
        assert {"output": "", "cancelled": True, "truncated": False} == found["w2"]
    assert ["go"] == user_texts(pi.records[:mark])


# Draining.


def test_a_drain_finishes_the_run_its_queue_and_the_shells(tools: Tools) -> None:
    """C-17."""
    gate = tools.gates()
    pi = tools.agent([{"chunks": [{"text": "one"}, {"gate": "g"}]}, {"text": "more", "repeat": -1}], *DRAIN)
    pi.send(PROMPT)
    pi.send({"id": "b", "type": "bash", "command": f"{gate.reading}; echo $word"})
    pi.llm.wait_reached("g")
    pi.send_many([{"id": "f", "type": "follow_up", "message": "F"}, {"id": "s", "type": "steer", "message": "S"}])
    pi.close_stdin()
    pi.llm.release("g")
    pi.wait({"type": "agent_settled", "aborted": False})
    assert pi.alive
    gate.release("drained")

    check_ended(pi, 0)
    assert ["go", "S", "F"] == user_texts(pi.records)
    assert "drained\n" == pi.wait_response("b")["data"]["output"]


def test_a_drain_of_a_prompt_in_preflight_runs_it(tools: Tools) -> None:
    gate, model = tools.gates(), tools.llm([{"text": "one"}])
    models: Any = pi_models(model.base_url)
    models["providers"]["fake"]["apiKey"] = f"!{gate.reading}; echo $word"
    pi = tools.agent(model, *DRAIN, models=models)
    pi.send(PROMPT)
    pi.close_stdin()
    gate.release("key")

    check_ended(pi, 0)
    assert pi.wait_response("p")["success"]


def test_a_drain_reports_what_an_abort_holds(tools: Tools) -> None:
    """C-17: held texts are not delivered."""
    pi = with_queue(tools, *DRAIN)
    pi.request({"type": "abort"})
    mark = pi.mark()
    check_ended(pi, end_of_stdin(pi))

    assert [["F1", "F2"]] == [update["followUp"] for update in pi.found({"type": "queue_update"}, since=mark)]
    assert ["go"] == user_texts(pi.records)


def test_one_prompt_on_a_pipe_is_answered(converse: Callable[..., list[bytes]]) -> None:
    """`echo '{"type":"prompt",…}' | pinnace --mode rpc --on-eof drain`."""
    lines = converse(b'{"type":"prompt","message":"hello"}', *DRAIN, script=[{"text": "good day"}])
    records = [json.loads(line) for line in lines]

    assert "good day" == records[-2]["messages"][-1]["content"][0]["text"]
    assert {"type": "agent_settled", "aborted": False} == records[-1]


@pytest.mark.parametrize("state", [mid_stream, in_tools, in_bash, with_queue], ids=lambda function: function.__name__)
def test_a_signal_ends_a_drain_with_all_its_closing_records(tools: Tools, state: Callable[..., HomedAgent]) -> None:
    """R-SIG-01: one shutdown, not two."""
    pi = state(tools, *DRAIN)
    pi.close_stdin()

    check_ended(pi, sigterm(pi))


def test_stdin_may_end_after_a_signal(tools: Tools) -> None:
    pi = in_tools(tools)
    pi.signal(signal.SIGHUP)
    pi.close_stdin()

    check_ended(pi, 128 + signal.SIGHUP)


# A second signal, a stopped reader, other ends of pipes.


def signal_together(pi: HomedAgent, *numbers: signal.Signals) -> None:
    """Let the agent find several signals at once, the lowest number first."""
    pi.signal(signal.SIGSTOP)
    while state_of(pi.process.pid) != "T":
        time.sleep(0.001)  # a stopped process can't say that it is
    for number in numbers:
        # To its main thread: of several threads each could take one, and then their order would be open.
        assert 0 == ctypes.CDLL(None).tgkill(pi.process.pid, pi.process.pid, number)
    pi.signal(signal.SIGCONT)


@pytest.mark.parametrize(
    "state", [preflight, mid_stream, in_tools, in_bash, with_queue], ids=lambda function: function.__name__
)
def test_a_second_signal_ends_the_process_at_once_and_leaves_nothing(
    agent: AgentStarter, gates: MakeGate, llm: MakeLlm, state: Callable[[Tools], HomedAgent]
) -> None:
    """R-SIG-01."""
    pi = state(Tools(lambda *args, **options: agent(*args, is_checked=False, **options), gates, llm))  # type: ignore[arg-type]
    signal_together(pi, signal.SIGHUP, signal.SIGTERM)

    assert 128 + signal.SIGTERM == pi.wait_exit(EXIT_S)
    assert [] == pi.process.left_behind(LEFT_BEHIND_S)
    assert [] == kinds(pi.records, "agent_end")


def test_a_second_signal_keeps_an_answer_as_far_as_it_has_come_and_the_queue(agent: AgentStarter) -> None:
    pi = agent([ENDLESS], is_checked=False, has_session=True)
    pi.send(PROMPT)
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    pi.request({"id": "s", "type": "steer", "message": "queued"})
    signal_together(pi, signal.SIGHUP, signal.SIGTERM)

    assert 128 + signal.SIGTERM == pi.wait_exit(EXIT_S)
    [path] = pi.home.sessions.rglob("*.jsonl")
    *_, queued, answer = [json.loads(line) for line in path.read_text().splitlines()]
    assert ("aborted", "one") == (answer["message"]["stopReason"], answer["message"]["content"][0]["text"])
    assert ("add", "queued") == (queued["data"]["op"], queued["data"]["text"])
    assert "Traceback" not in pi.stderr_text


@pytest.mark.parametrize("ending", [end_of_stdin, sigterm, sigint], ids=lambda function: function.__name__)
def test_a_client_that_does_not_read_holds_nothing_up(agent: AgentStarter, ending: Callable[[HomedAgent], int]) -> None:
    """It can't be told any more than it takes."""
    pi = agent([{"gen": {"n": 100_000, "size": 20}}], is_checked=False)
    pi.pause_reading()
    pi.send(PROMPT)
    pi.llm.wait_requests(1)

    assert ending(pi) == pi.wait_exit(EXIT_S)


def test_a_client_that_reads_on_gets_all_closing_records(agent: AgentStarter) -> None:
    """R-EOF-01: megabytes are waiting for it."""
    pi = agent()
    pi.pause_reading()
    pi.send_many({"id": n, "type": "hello"} for n in range(2_000))
    pi.close_stdin()
    pi.resume_reading()

    check_ended(pi, 0)


def test_a_reader_that_is_gone_is_no_error_when_nothing_is_to_be_said(agent: AgentStarter) -> None:
    pi = agent()
    pi.request({"type": "get_state"})
    pi.close_stdout()

    check_ended(pi, end_of_stdin(pi))


def test_a_signal_counts_more_than_a_reader_that_is_gone(tools: Tools) -> None:
    """R-SIG-01: the closing records find nobody."""
    pi = mid_stream(tools)
    pi.close_stdout()

    check_ended(pi, sigterm(pi))


def test_both_ends_of_a_client_that_died_are_noticed(tools: Tools) -> None:
    """As when the client was killed: stdin ends, and the closing records find nobody."""
    pi = in_tools(tools)
    pi.close_stdout()
    pi.close_stdin()

    check_ended(pi, 1)


def test_stdin_may_be_a_file(agent: AgentStarter, tmp_path: Path) -> None:
    file = tmp_path / "commands.jsonl"
    file.write_text('{"type":"prompt","id":"p","message":"go"}\n{"type":"get_state","id":"s"}')
    pi = agent([{"text": "one"}], *DRAIN, stdin=file)

    check_ended(pi, 0)
    assert pi.wait_response("s")["data"]["isStreaming"]
    assert ["go"] == user_texts(pi.records)


def test_stdin_may_be_empty(agent: AgentStarter) -> None:
    pi = agent(stdin=Path(os.devnull))

    check_ended(pi, 0)
    assert [] == pi.records


LOADING = """
import sys, time
from pathlib import Path
from pinnace_rpc.server import serve
def load():
    Path("begun").touch()
    time.sleep(1)
    Path("done").touch()
serve.compactor.load = load
sys.argv[1:] = "--mode rpc --no-session --provider offline".split()
from pinnace_rpc.cli.main import main
sys.exit(main())
"""


def test_an_end_waits_for_modules_that_are_being_loaded(tmp_path: Path) -> None:
    """An interpreter that ends while a thread imports a module may crash, and the exit code is that of the crash."""
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", LOADING], cwd=tmp_path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"type":"get_state"}\n')
        process.stdin.flush()
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate()

    assert 128 + signal.SIGTERM == process.returncode
    assert (tmp_path / "done").exists()
