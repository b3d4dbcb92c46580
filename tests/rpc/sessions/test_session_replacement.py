"""Session commands while something is going on, over real pipes: runs, queues, shells, another process.

Where a record ends up is the question: what belongs to a session is in its file, whichever session is in force when it
comes. Rules R-SES-05, R-SES-06, C-9, C-10, C-11.
"""

import json
import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import wait_gone

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import kinds
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.session_format import validate_session

MakeGate = Callable[[], ShellGate]

ONCE = {"text": "more"}
MORE = {**ONCE, "repeat": -1}
ENDLESS = {"chunks": [{"text": "begun"}, {"hang": True}]}
GATED = {"chunks": [{"text": "begun"}, {"gate": "g"}]}
ABORT = {"id": "A", "type": "abort"}
STEER = {"id": "S", "type": "steer", "message": "steered"}
NEW = {"id": "N", "type": "new_session"}
SETTLED = {"type": "agent_settled"}
DELTA = {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}}
NOTHING_CLEARED: dict[str, list[str]] = {"steering": [], "followUp": []}


def begin(pi: HomedAgent, text: str) -> None:
    """Send a prompt and wait until its answer has begun."""
    mark = pi.mark()
    pi.ask("prompt", message=text)
    pi.wait(DELTA, since=mark)


def end(pi: HomedAgent) -> None:
    pi.close_stdin()
    assert pi.wait_exit() == 0


def file_of(pi: HomedAgent) -> Path:
    return Path(pi.ask("get_state")["sessionFile"])


def lease_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lease")


@contextmanager
def no_bigger_files(pi: HomedAgent, size: int) -> Generator[None]:
    """Let no file of the agent grow beyond a size, as a full disk would."""
    pid = pi.ask("get_state")["pid"]
    former = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, former[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, former)


def said(path: Path) -> list[tuple[str, object]]:
    """Return role and text of the messages in a file that is as files have to be; of an answer how it ended, too."""
    data = path.read_bytes()
    assert validate_session(data) == []
    rows = [json.loads(line) for line in data.splitlines()]
    return [_told(row["message"]) for row in rows if row["type"] == "message"]


def _told(message: Record) -> tuple[str, object]:
    if message["role"] == "bashExecution":
        return "bashExecution", (message["output"], message["cancelled"])
    texts = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    return message["role"], (texts, message["stopReason"]) if message["role"] == "assistant" else texts


def texts(pi: HomedAgent) -> list[str]:
    """Return the texts of the context, in order."""
    blocks = [block for message in pi.ask("get_messages")["messages"] for block in message.get("content", ())]
    return [block["text"] for block in blocks if block["type"] == "text"]


def two_sessions(agent: AgentStarter, *script: Scripted, is_ending: bool = True) -> tuple[HomedAgent, HomedAgent, Path]:
    """Return an agent, and another one that has a session of its own with one prompt, and that session's file.

    The other one has announced that it ends, unless `is_ending` is false: so its file is waited for.
    """
    other = agent([MORE], has_session=True)
    other.say("theirs")
    pi = agent([*script, MORE], has_session=True)
    path = file_of(other)
    if is_ending:
        holder = json.loads(lease_of(path).read_bytes())
        lease_of(path).write_text(json.dumps({**holder, "ending": True}) + "\n")
    return pi, other, path


# While streaming.


@pytest.mark.parametrize("command", ["new_session", "switch_session", "fork", "clone", "branch"])
def test_a_run_that_is_replaced_ends_in_its_own_file(agent: AgentStarter, command: str) -> None:
    pi = agent([ONCE, ENDLESS, MORE], has_session=True)
    pi.say("one")
    old = file_of(pi)
    begin(pi, "two")
    first = next(each for each in pi.ask("get_entries")["entries"] if each["type"] == "message")
    other = pi.home.sessions / "other.jsonl"
    other.write_bytes(old.read_bytes().splitlines(keepends=True)[0])
    fields: dict[str, dict[str, object]] = {
        "switch_session": {"sessionPath": str(other)},
        "fork": {"entryId": first["id"]},
        "branch": {"entryIndex": pi.ask("get_branch_messages")["messages"][0]["entryIndex"]},
    }
    mark = pi.mark()

    data = pi.ask(command, **fields.get(command, {}))

    assert (data.get("cancelled", False), data["cleared"]) == (False, NOTHING_CLEARED)
    assert [
        "message_end",
        "turn_end",
        "agent_end",
        "agent_settled",
        "session_changed",
        f"{command}:ok",
    ] == [kind for kind in kinds(pi.records[mark:]) if kind not in ("message_update", "warning")]
    closed = [("user", "one"), ("assistant", ("more", "stop")), ("user", "two"), ("assistant", ("begun", "aborted"))]
    assert said(old) == closed
    # A clone begins with what was there when the run had ended; nothing else knows of the run.
    assert texts(pi) == (["one", "more", "two", "begun"] if command == "clone" else [])
    pi.say("three")
    assert said(old) == closed
    assert said(file_of(pi))[-2:] == [("user", "three"), ("assistant", ("more", "stop"))]


def test_a_tool_that_is_ended_by_a_replacement_has_its_result_in_the_old_file(
    agent: AgentStarter, gates: MakeGate
) -> None:
    gate = gates()
    call = {"name": "bash", "args": {"command": f"echo partly; {gate.reading}"}}
    pi = agent([{"tool_calls": [call]}, MORE], has_session=True)
    pi.ask("prompt", message="one")
    gate.wait_reached()
    old = file_of(pi)

    pi.ask("new_session")

    user, answer, (role, result) = said(old)
    assert (user, answer, role) == (("user", "one"), ("assistant", ("", "toolUse")), "toolResult")
    assert "Command aborted" in str(result)
    assert pi.found({"type": "tool_execution_end", "isError": True})
    assert texts(pi) == []
    assert pi.descendants() == []


def test_a_queue_is_withdrawn_where_everybody_sees_it(agent: AgentStarter) -> None:
    pi = agent([ENDLESS, MORE], has_session=True)
    begin(pi, "one")
    pi.ask("steer", message="s")
    pi.ask("follow_up", message="f")
    mark = pi.mark()

    data = pi.ask("new_session")

    assert data["cleared"] == {"steering": ["s"], "followUp": ["f"]}
    assert pi.found({"type": "queue_update"}, since=mark) == [{"type": "queue_update", **NOTHING_CLEARED}]
    watched = ("agent_end", "session_changed", "queue_update", "agent_settled", "new_session:ok")
    assert kinds(pi.records[mark:], *watched) == [
        "agent_end",
        "session_changed",
        "queue_update",
        "agent_settled",
        "new_session:ok",
    ]
    assert pi.ask("get_state")["pendingMessageCount"] == 0
    pi.say("two")
    assert texts(pi) == ["two", "more"]


def test_a_refused_command_leaves_run_and_queue_alone(agent: AgentStarter) -> None:
    pi = agent([GATED, MORE], has_session=True)
    begin(pi, "one")
    pi.ask("follow_up", message="f")
    mark = pi.mark()
    wrong: list[Record] = [
        {"type": "switch_session", "sessionPath": "missing.jsonl"},
        {"type": "switch_session", "sessionPath": str(pi.home.sessions)},
        {"type": "fork", "entryId": "nobody"},
        {"type": "branch", "entryIndex": 1000},
    ]
    for command in wrong:
        assert not pi.request(command)["success"]
    assert pi.ask("get_state")["isStreaming"]
    assert set(kinds(pi.records[mark:])) == {*(f"{each['type']}:error" for each in wrong), "get_state:ok"}

    pi.llm.release("g")
    pi.wait(SETTLED)

    assert said(file_of(pi)) == [
        ("user", "one"),
        ("assistant", ("begun", "stop")),
        ("user", "f"),
        ("assistant", ("more", "stop")),
    ]


def test_a_copy_that_can_not_be_written_leaves_session_and_queue_and_no_trace(agent: AgentStarter) -> None:
    """All or nothing. What is held stays held."""
    pi = agent([ONCE, ENDLESS, MORE], has_session=True)
    pi.say("one")
    begin(pi, "two")
    pi.ask("steer", message="held")
    pi.ask("abort")
    old, before = file_of(pi), sorted(pi.home.sessions.iterdir())
    content, state, known = old.read_bytes(), pi.ask("get_state"), pi.ask("get_messages")
    last = pi.ask("get_fork_messages")["messages"][-1]
    mark = pi.mark()

    with no_bigger_files(pi, 100):
        for command in ({"type": "clone"}, {"type": "fork", "entryId": last["entryId"]}):
            response = pi.request(command)
            assert (response["success"], response["errorCode"]) == (False, "io_error")
            assert "Failed to create forked session" in response["error"]

    assert (pi.ask("get_state"), pi.ask("get_messages")) == (state, known)
    assert pi.found({"type": "queue_update"}, since=mark) == []
    assert (sorted(pi.home.sessions.iterdir()), old.read_bytes()) == (before, content)
    pi.say("three")
    assert said(old)[-3:] == [("user", "three"), ("user", "held"), ("assistant", ("more", "stop"))]


def test_a_run_that_was_ended_for_a_copy_that_failed_is_over_and_its_queue_is_delivered(agent: AgentStarter) -> None:
    """The header of a copy names its parent, so in a deep folder a copy needs more room than the closing records."""
    former = agent([GATED, MORE], has_session=True)
    end(former)
    deep = Path(former.home.sessions, *["d" * 200] * 15)
    former.home = former.home._replace(arguments=["--mode", "rpc", "--session-dir", str(deep)])
    pi = agent((), again=former)
    begin(pi, "one")
    pi.ask("steer", message="queued")
    old = file_of(pi)
    mark = pi.mark()

    with no_bigger_files(pi, old.stat().st_size + 2000):
        response = pi.request({"type": "clone"})
        pi.wait({"type": "agent_settled", "aborted": False}, since=mark)

    assert (response["success"], response["errorCode"]) == (False, "io_error")
    assert file_of(pi) == old
    assert said(old) == [
        ("user", "one"),
        ("assistant", ("begun", "aborted")),
        ("user", "queued"),
        ("assistant", ("more", "stop")),
    ]
    assert sorted(path.name for path in deep.iterdir()) == [old.name, lease_of(old).name]


# While another process has the file.


def test_a_run_continues_while_a_switch_waits_for_another_process(agent: AgentStarter) -> None:
    pi, other, path = two_sessions(agent, GATED)
    begin(pi, "ours")
    old = file_of(pi)
    pi.send({"id": "W", "type": "switch_session", "sessionPath": str(path)})
    assert pi.ask("get_state")["isStreaming"]
    pi.llm.release("g")
    pi.wait(SETTLED)
    assert pi.response("W") is None
    assert (texts(pi), file_of(pi)) == (["ours", "begun"], old)

    end(other)

    assert pi.wait_response("W")["data"] == {"cancelled": False, "cleared": NOTHING_CLEARED}
    assert (texts(pi), file_of(pi)) == (["theirs", "more"], path)
    pi.say("on with it")
    assert said(old) == [("user", "ours"), ("assistant", ("begun", "stop"))]
    assert said(path)[-2:] == [("user", "on with it"), ("assistant", ("more", "stop"))]
    wait_gone(lease_of(old))


def test_a_run_that_is_still_working_ends_when_the_file_is_free(agent: AgentStarter) -> None:
    pi, other, path = two_sessions(agent, ENDLESS)
    begin(pi, "ours")
    old = file_of(pi)
    pi.send({"id": "W", "type": "switch_session", "sessionPath": str(path)})
    pi.ask("get_state")

    end(other)
    assert pi.wait_response("W")["success"]

    assert said(old) == [("user", "ours"), ("assistant", ("begun", "aborted"))]
    assert texts(pi) == ["theirs", "more"]


def test_an_abort_ends_the_wait_and_the_run(agent: AgentStarter) -> None:
    pi, other, path = two_sessions(agent, ENDLESS)
    begin(pi, "ours")
    old, content = file_of(pi), path.read_bytes()
    mark = pi.mark()
    pi.send({"id": "W", "type": "switch_session", "sessionPath": str(path)})
    pi.ask("get_state")

    pi.send(ABORT)
    pi.wait_response("A")

    # When the wait is over it is refused: a response of its own kind says that it was ended before.
    assert pi.wait_response("W")["data"] == {"cancelled": True}
    closing = ("switch_session:ok", "agent_end", "agent_settled", "abort:ok")
    assert kinds(pi.records[mark:], *closing) == list(closing)
    assert file_of(pi) == old
    assert said(old) == [("user", "ours"), ("assistant", ("begun", "aborted"))]
    # Nothing of the wait is left: the file is free once the other has let go of it, and untouched.
    pi.say("and on")
    end(other)
    third = agent((), "--session", str(path), again=other)
    assert texts(third) == ["theirs", "more"]
    assert path.read_bytes() == content


def test_an_abort_while_idle_ends_the_wait(agent: AgentStarter) -> None:
    pi, other, path = two_sessions(agent)
    pi.say("ours")
    pi.send({"id": "W", "type": "switch_session", "sessionPath": str(path)})
    pi.send(ABORT)
    pi.wait_response("A")

    assert pi.wait_response("W")["data"] == {"cancelled": True}
    assert texts(pi) == ["ours", "more"]
    other.say("still theirs")


def test_commands_behind_a_waiting_switch_are_for_the_session_that_it_opens(agent: AgentStarter) -> None:
    pi, other, path = two_sessions(agent)
    pi.say("ours")
    old = file_of(pi)
    mark = pi.mark()
    pi.send_many(
        [
            {"id": "W", "type": "switch_session", "sessionPath": str(path)},
            {"id": "P", "type": "prompt", "message": "for theirs"},
            {"id": "R", "type": "get_messages"},
        ]
    )
    before = pi.wait_response("R")["data"]["messages"]
    assert [before[0]["content"][0]["text"], len(before)] == ["ours", 2]
    assert (pi.response("W"), pi.response("P")) == (None, None)

    end(other)
    pi.wait(SETTLED, since=mark)

    answers = ("get_messages:ok", "switch_session:ok", "prompt:ok", "agent_start")
    assert kinds(pi.records[mark:], *answers) == list(answers)
    assert said(path)[-2:] == [("user", "for theirs"), ("assistant", ("more", "stop"))]
    assert said(old) == [("user", "ours"), ("assistant", ("more", "stop"))]


def test_a_second_session_command_waits_behind_the_first(agent: AgentStarter) -> None:
    pi, other, path = two_sessions(agent)
    pi.say("ours")
    mark = pi.mark()
    pi.send_many([{"id": "W", "type": "switch_session", "sessionPath": str(path)}, {"id": "C", "type": "clone"}])
    assert pi.ask("get_state")["sessionFile"] != str(path)
    assert pi.response("C") is None

    end(other)
    assert pi.wait_response("C")["success"]

    assert kinds(pi.records[mark:], "switch_session:ok", "clone:ok") == ["switch_session:ok", "clone:ok"]
    assert texts(pi) == ["theirs", "more"]
    new = file_of(pi)
    assert json.loads(new.read_bytes().splitlines()[0])["parentSession"] == str(path)
    wait_gone(lease_of(path))


def test_an_abort_cancels_a_second_session_command_too(agent: AgentStarter) -> None:
    pi, _, path = two_sessions(agent)
    pi.say("ours")
    old = file_of(pi)
    pi.send_many([{"id": "W", "type": "switch_session", "sessionPath": str(path)}, NEW, ABORT])
    pi.wait_response("A")

    assert [pi.wait_response(each)["data"]["cancelled"] for each in "WN"] == [True, True]
    assert file_of(pi) == old


def test_a_switch_to_a_file_that_is_in_use_opens_it_beside_its_owner(agent: AgentStarter) -> None:
    """R-SES-06: at once. What would append is refused, and the owner is not disturbed."""
    pi, other, path = two_sessions(agent, is_ending=False)
    pi.say("ours")
    content = path.read_bytes()

    assert pi.request({"type": "switch_session", "sessionPath": str(path)})["success"]

    assert texts(pi) == ["theirs", "more"]
    response = pi.request({"type": "prompt", "message": "refused"})
    assert (response["success"], response["errorCode"]) == (False, "session_not_saved")
    assert f"process {other.ask('get_state')['pid']}" in response["error"]
    assert texts(pi) == ["theirs", "more"]
    assert path.read_bytes() == content
    other.say("still theirs")
    assert other.ask("get_state")["sessionStatus"] == {"saved": True}


@pytest.mark.parametrize("ending", ["stdin", "kill"])
def test_the_end_of_the_process_in_a_wait_leaves_no_lease(agent: AgentStarter, ending: str) -> None:
    pi, other, path = two_sessions(agent)
    pi.say("ours")
    old = file_of(pi)
    pi.send({"id": "W", "type": "switch_session", "sessionPath": str(path)})
    pi.ask("get_state")
    if ending == "kill":
        pi.kill()
    else:
        end(pi)
        assert pi.wait_response("W")["data"] == {"cancelled": True}
    other.say("still theirs")

    again = agent((), "--session", str(old), again=pi)

    assert texts(again) == ["ours", "more"]


# Shells.


def with_a_running_shell(agent: AgentStarter, gates: MakeGate) -> tuple[HomedAgent, Path, ShellGate]:
    """Start an agent in whose session `B`, a shell, waits for a word at the gate; return its session file, too."""
    gate = gates()
    pi = agent([MORE], has_session=True)
    pi.say("one")
    old = file_of(pi)
    pi.send({"id": "B", "type": "bash", "command": f"{gate.reading}; echo $word"})
    gate.wait_reached()
    return pi, old, gate


def test_a_shell_is_recorded_in_the_session_that_accepted_it_whose_file_is_then_released(
    agent: AgentStarter, gates: MakeGate
) -> None:
    pi, old, gate = with_a_running_shell(agent, gates)

    pi.ask("new_session")
    pi.say("two")
    assert lease_of(old).exists()
    gate.release("late")

    assert pi.wait_response("B")["data"]["output"] == "late\n"
    wait_gone(lease_of(old))
    assert said(old)[-1] == ("bashExecution", ("late\n", False))
    assert said(file_of(pi)) == [("user", "two"), ("assistant", ("more", "stop"))]
    assert texts(agent((), "--session", str(old), again=pi)) == ["one", "more"]


def test_a_session_whose_shell_still_runs_can_be_returned_to(agent: AgentStarter, gates: MakeGate) -> None:
    pi, old, gate = with_a_running_shell(agent, gates)
    pi.ask("new_session")

    pi.ask("switch_session", sessionPath=str(old))
    gate.release("late")
    pi.wait_response("B")
    pi.say("two")

    assert said(old) == [
        ("user", "one"),
        ("assistant", ("more", "stop")),
        ("bashExecution", ("late\n", False)),
        ("user", "two"),
        ("assistant", ("more", "stop")),
    ]
    assert "late" in pi.llm.requests[-1].text
    assert lease_of(old).exists()


def test_a_shell_that_ends_in_a_run_is_recorded_behind_it_in_its_own_session(
    agent: AgentStarter, gates: MakeGate
) -> None:
    gate = gates()
    pi = agent([ENDLESS, MORE], has_session=True)
    begin(pi, "one")
    old = file_of(pi)
    pi.send({"id": "B", "type": "bash", "command": f"{gate.reading}; echo $word"})
    gate.release("in the run")
    pi.wait_response("B")

    pi.ask("new_session")

    assert said(old) == [
        ("user", "one"),
        ("assistant", ("begun", "aborted")),
        ("bashExecution", ("in the run\n", False)),
    ]
    assert texts(pi) == []
    wait_gone(lease_of(old))


def test_in_memory_a_run_makes_way_for_a_new_session_just_so(agent: AgentStarter) -> None:
    pi = agent([ENDLESS, MORE])
    begin(pi, "one")
    pi.send_many([STEER, NEW])

    assert pi.wait_response("N")["data"]["cleared"] == {"steering": ["steered"], "followUp": []}
    assert pi.ask("get_messages")["messages"] == []
    pi.say("two")
    assert texts(pi) == ["two", "more"]
    assert list(pi.home.sessions.iterdir()) == []
