"""Reads are answered and aborts obeyed whatever works, whatever stalls, and whether or not anybody reads stdout."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.agent_process import DEFAULT_TIMEOUT_S
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.server import generated_delta
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import stat_of
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import faults, joined_deltas, kinds
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.profiles.profiles import Profile

MakeGate = Callable[[], ShellGate]
MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]

SETTLED = {"type": "agent_settled"}
# What waits in the program, in pipes and in the client's sockets is a few MiB, and the HTTP client is loaded meanwhile;
# the floods below are many times that.
BOUND_KIB = 32 * 1024
# So many looks, a twentieth of a second apart, find a process that is held up as it was: what it talks to has its turn
# within half a second, also on a busy machine.
STILL_LOOKS = 10
PROMPT = {"id": "p", "type": "prompt", "message": "go"}


def key_behind(gate: ShellGate, model: FakeLlm) -> dict[str, object]:
    """Describe models whose key is what the gate is told."""
    models = pi_models(model.base_url)
    models["providers"]["fake"]["apiKey"] = f"!{gate.reading}; echo $word"  # type: ignore[index]  # made above
    return models


@contextmanager
def bash_works(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> Iterator[HomedAgent]:
    pi, gate = agent(), gates()
    pi.send({"id": "b", "type": "bash", "command": f"{gate.reading}; echo $word"})
    gate.wait_reached()
    yield pi
    assert pi.response("b") is None
    gate.release("done")
    assert "done\n" == pi.wait_response("b")["data"]["output"]


@contextmanager
def model_is_silent(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> Iterator[HomedAgent]:
    pi = agent([{"text": "one", "hold": "head"}])
    pi.send(PROMPT)
    pi.llm.wait_reached("head")
    yield pi
    assert kinds(pi.records, "agent_end") == []
    pi.llm.release("head")
    pi.wait(SETTLED)


@contextmanager
def model_stalls(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> Iterator[HomedAgent]:
    pi = agent([{"chunks": [{"text": "one"}, {"gate": "middle"}, {"text": " two"}]}])
    pi.send(PROMPT)
    pi.llm.wait_reached("middle")
    yield pi
    assert kinds(pi.records, "agent_end") == []
    pi.llm.release("middle")
    pi.wait(SETTLED)


@contextmanager
def tool_works(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> Iterator[HomedAgent]:
    gate = gates()
    pi = agent([{"tool_calls": [{"name": "bash", "args": {"command": gate.reading}}]}, {"text": "done"}])
    pi.send(PROMPT)
    gate.wait_reached()
    yield pi
    assert kinds(pi.records, "tool_execution_end") == []
    gate.release()
    pi.wait(SETTLED)


@contextmanager
def key_is_fetched(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> Iterator[HomedAgent]:
    gate, model = gates(), llm([{"text": "one"}])
    pi = agent(model, models=key_behind(gate, model))
    pi.send(PROMPT)
    gate.wait_reached()
    yield pi
    assert pi.response("p") is None
    gate.release("key")
    pi.wait(SETTLED)


@contextmanager
def everything_works(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> Iterator[HomedAgent]:
    tool, shell = gates(), gates()
    call = {"name": "bash", "args": {"command": tool.reading}}
    pi = agent([{"tool_calls": [call]}, {"text": "done"}])
    pi.send_many([PROMPT, *({"id": f"b{n}", "type": "bash", "command": "sleep 600"} for n in range(20))])
    pi.send({"id": "b", "type": "bash", "command": shell.reading})
    tool.wait_reached()
    shell.wait_reached()
    yield pi
    pi.send({"id": "ab", "type": "abort_bash"})
    assert all(pi.wait_response(f"b{n}")["data"]["cancelled"] for n in range(20))
    tool.release()
    pi.wait(SETTLED)


@pytest.mark.parametrize(
    "situation",
    [bash_works, model_is_silent, model_stalls, tool_works, key_is_fetched, everything_works],
    ids=lambda function: function.__name__,
)
def test_commands_are_answered_in_order_while(
    situation: Callable[..., object], agent: AgentStarter, gates: MakeGate, llm: MakeLlm
) -> None:
    """R-ORD-02: no read waits for a run, a tool, a shell or a key; nor do settings."""
    with situation(agent, gates, llm) as pi:  # type: ignore[attr-defined]  # each is a context manager
        mark = pi.mark()
        commands = ["get_state", "get_messages", "get_session_stats", "set_session_name", "get_state"]
        ids = [f"c{n}" for n in range(len(commands))]
        pi.send_many({"id": id, "type": name, "name": "new"} for id, name in zip(ids, commands, strict=True))
        for id in ids:
            pi.wait_response(id)

        # The answer to the situation's own prompt may come as late as now.
        answers = [
            each for each in pi.found({"type": "response", "success": True}, since=mark) if each.get("id") in ids
        ]
        assert commands == [each["command"] for each in answers]
        first, last = (pi.wait_response(name)["data"] for name in ("c0", "c4"))
        assert first["isStreaming"] or first["isBashRunning"]
        assert "new" == last["sessionName"]
        assert {**first, "sessionName": "new"} == last
    assert [] == faults(pi.records)


def test_a_shell_that_ends_does_not_wait_for_one_that_works(agent: AgentStarter, gates: MakeGate) -> None:
    """R-BSH-01: each answers at its own end."""
    pi, gate = agent(), gates()
    pi.send({"id": "slow", "type": "bash", "command": gate.reading})
    gate.wait_reached()
    assert "quick\n" == pi.request({"type": "bash", "command": "echo quick"})["data"]["output"]
    assert pi.response("slow") is None
    gate.release()

    assert 0 == pi.wait_response("slow")["data"]["exitCode"]


# A client that does not read.


def wait_stalled(pi: HomedAgent, before_kib: int) -> None:
    """Wait until the process is still, since everything that can be full is; until then it stays small."""

    def check_size() -> None:
        assert pi.peak_rss_kib() - before_kib < BOUND_KIB

    wait_still(pi, check_size)


def wait_still(pi: HomedAgent, check: Callable[[], None] = lambda: None) -> None:
    """Wait until the process uses no more time, and check it at each look."""
    deadline_s = time.monotonic() + DEFAULT_TIMEOUT_S
    looks: list[str] = []
    while len(looks) < STILL_LOOKS or len(set(looks[-STILL_LOOKS:])) > 1:
        assert time.monotonic() < deadline_s, "the process goes on working although its output is full"
        check()
        state, *fields = stat_of(pi.process.pid)
        # The time it has used, in the program and in the system. One that would work, if the machine had not others to
        # serve, is not still.
        looks = [*looks, fields[10] + " " + fields[11]] if state == "S" else []
        time.sleep(0.05)


def wait_alone(pi: HomedAgent) -> None:
    """Wait until the agent has no child any more."""
    deadline_s = time.monotonic() + DEFAULT_TIMEOUT_S
    while left := pi.descendants():
        assert time.monotonic() < deadline_s, left
        time.sleep(0.005)  # there is no notification for the end of somebody else's child


def unread(pi: HomedAgent) -> int:
    """Warm up, stop reading, and return the memory that the process has now."""
    pi.request({"type": "get_state"})
    # A command with fields: what validates it is loaded now, and not while memory is measured.
    pi.request({"type": "set_session_name", "name": "warm"})
    wait_still(pi)  # the HTTP client is loaded ahead, in a thread
    pi.pause_reading()
    return pi.rss_kib()


@pytest.mark.parametrize("protocol", ["pi", "seed", "1.5"])
def test_a_model_that_floods_a_client_that_does_not_read_is_held_up_and_aborted(
    agent: AgentStarter, protocol: Profile
) -> None:
    """R-ABT-01: memory is bounded, abort is obeyed, and then the transcript is complete up to it."""
    pi = agent([{"gen": {"n": 200_000, "size": 20}}], protocol=protocol)
    before = unread(pi)
    pi.send(PROMPT)
    pi.llm.wait_requests(1)
    wait_stalled(pi, before)
    assert pi.llm.disconnects == []
    pi.send({"id": "a", "type": "abort"})
    (left,) = pi.llm.wait_disconnects(1)
    assert "write" == left.during
    pi.resume_reading()
    pi.wait_response("a")

    (message,) = [end["message"] for end in pi.found({"type": "message_end", "message": {"role": "assistant"}})]
    (end,) = pi.found({"type": "message_update", "assistantMessageEvent": {"type": "text_end"}})
    text = message["content"][0]["text"]
    assert "aborted" == message["stopReason"]
    assert text == joined_deltas(pi.records) == end["assistantMessageEvent"]["content"]
    assert text.startswith(generated_delta(20) * 100)
    assert [] == faults(pi.records)


def test_a_client_that_reads_again_gets_the_whole_answer(agent: AgentStarter) -> None:
    """Deltas are merged, never dropped."""
    count = 30_000
    pi = agent([{"gen": {"n": count, "size": 20}}], protocol="1.5")
    before = unread(pi)
    pi.send(PROMPT)
    pi.llm.wait_requests(1)
    wait_stalled(pi, before)
    pi.resume_reading()
    pi.wait(SETTLED)

    assert generated_delta(20) * count == joined_deltas(pi.records)
    assert pi.peak_rss_kib() - before < BOUND_KIB
    assert [] == faults(pi.records)


def test_a_shell_that_floods_a_client_that_does_not_read_is_held_up_and_aborted(agent: AgentStarter) -> None:
    """R-BSH-02: `yes` would fill the memory in seconds."""
    pi = agent()
    before = unread(pi)
    pi.send({"id": "b", "type": "bash", "command": "yes"})
    wait_stalled(pi, before)
    assert pi.descendants()
    pi.send({"id": "a", "type": "abort_bash"})
    wait_alone(pi)
    pi.resume_reading()

    assert pi.wait_response("b")["data"]["cancelled"]
    assert ["abort_bash:ok", "bash:ok"] == kinds(pi.records, "abort_bash:ok", "bash:ok")


def test_a_client_that_reads_again_gets_all_that_a_shell_said(agent: AgentStarter) -> None:
    """Three megabytes, of which a pipe and our buffer hold a fraction."""
    pi = agent()
    before = unread(pi)
    pi.send({"id": "b", "type": "bash", "command": "seq 400000"})
    wait_stalled(pi, before)
    pi.resume_reading()
    result = pi.wait_response("b")["data"]

    said = "".join(record["delta"] for record in pi.found({"type": "bash_execution_update", "id": "b"}))
    assert "".join(f"{n}\n" for n in range(1, 400_001)) == said
    assert (0, True) == (result["exitCode"], result["truncated"])
    assert said.endswith(result["output"] + "\n")


def test_a_tool_that_floods_a_client_that_does_not_read_is_aborted(agent: AgentStarter, gates: MakeGate) -> None:
    """R-ABT-01: progress is replaced, not collected."""
    gate = gates()
    command = f"yes flood | head -c 30000000; {gate.reading}"
    pi = agent([{"tool_calls": [{"name": "bash", "args": {"command": command}}]}])
    before = unread(pi)
    pi.send(PROMPT)
    gate.wait_reached()
    wait_stalled(pi, before)
    pi.send({"id": "a", "type": "abort"})
    wait_alone(pi)
    pi.resume_reading()
    pi.wait_response("a")

    (end,) = pi.found({"type": "tool_execution_end"})
    assert end["isError"]
    assert end["result"]["content"][0]["text"].endswith("Command aborted")
    assert [] == faults(pi.records)


def test_reads_of_a_client_that_does_not_read_are_answered_when_it_does(agent: AgentStarter) -> None:
    """R-RSP-01: more answers than a pipe holds, none lost, in order."""
    pi = agent()
    before = unread(pi)
    pi.send_many({"id": n, "type": "get_state"} for n in range(3_000))
    wait_stalled(pi, before)
    pi.resume_reading()
    pi.wait_response(2_999)

    assert list(range(3_000)) == [record["id"] for record in pi.found({"type": "response"})[2:]]
