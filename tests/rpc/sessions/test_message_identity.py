"""Every message has a name from its first record on: the entry that it becomes, and the user's messages an id beside.

Over real pipes. That the records of one message agree is also held of every other test's agent, by I-EVT-13; here they
are compared with the session, its file and its copies. Rules R-MSG-07, R-MSG-08.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

SETTLED = {"type": "agent_settled"}
MORE = {"text": "more", "repeat": -1}
CALLS = {"tool_calls": [{"name": "bash", "args": {"command": f"echo {word}"}} for word in ("one", "two")]}
TOOLS = ("tool_execution_start", "tool_execution_update", "tool_execution_end")


def entries(pi: HomedAgent) -> list[Record]:
    """Return the entries of the session that are messages."""
    found = pi.ask("get_entries")["entries"]
    return [entry for entry in found if entry["type"] in {"message", "custom_message"}]


def role(record: Record) -> str:
    """Return the role of a record's or an entry's message."""
    return str(record["message"]["role"]) if "message" in record else "custom"


def named(pi: HomedAgent, kind: str) -> list[tuple[str, str, str | None]]:
    """Return role, entry and id of the messages in records of a type."""
    return [(role(each), each["entryId"], each.get("messageId")) for each in pi.found({"type": kind})]


def kept(found: Sequence[Record]) -> list[tuple[str, str, str | None]]:
    """Return the same of entries."""
    return [(role(each), each["id"], each.get("messageId")) for each in found]


def users(found: Sequence[tuple[str, str, str | None]]) -> list[str | None]:
    return [message_id for who, _, message_id in found if who == "user"]


def finish_one_prompt(pi: HomedAgent) -> None:
    pi.ask("prompt", message="go")
    pi.wait(SETTLED)


def abort_one_prompt(pi: HomedAgent) -> None:
    pi.ask("prompt", message="go")
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    pi.ask("abort")
    pi.wait(SETTLED)


REFUSED = {"error": {"status": 400, "message": "no"}}
BUSY = {"error": {"status": 503, "message": "later"}}
CUT = {**CALLS, "finish": "length"}
RUNS: Mapping[str, tuple[Sequence[Scripted], Callable[[HomedAgent], None]]] = {
    "calls": ([CALLS, MORE], finish_one_prompt),
    "a retry": ([BUSY, MORE], finish_one_prompt),
    "a failure": ([REFUSED], finish_one_prompt),
    "a provider that never answers": ([BUSY, BUSY, BUSY, BUSY], finish_one_prompt),
    "an abort": ([{"chunks": [{"text": "half"}, {"hang": True}]}], abort_one_prompt),
    "calls that were cut": ([CUT, MORE], finish_one_prompt),
}


@pytest.mark.parametrize(("run", "has_session"), [*((run, True) for run in RUNS), ("calls", False)])
def test_each_record_of_a_message_names_the_entry_that_it_becomes(
    agent: AgentStarter, run: str, has_session: bool
) -> None:
    """R-MSG-07: also of answers that failed, and of results that no tool has made."""
    script, play = RUNS[run]
    pi = agent(script, has_session=has_session, settings={"retry": {"baseDelayMs": 1}})
    play(pi)

    found = kept(entries(pi))
    assert found == named(pi, "message_start") == named(pi, "message_end")
    begun: str | None = None
    for record in (each.record for each in pi.records):
        if record["type"] == "message_start":
            begun = record["entryId"]
        elif record["type"] == "message_update":
            assert begun == record["entryId"]
    ended = pi.found({"type": "message_end", "message": {"role": "toolResult"}})
    for result in ended:
        call_id = result["message"]["toolCallId"]
        records = [each for kind in TOOLS for each in pi.found({"type": kind, "toolCallId": call_id})]
        assert {result["entryId"]} == {each["entryId"] for each in records}
    if has_session:
        lines = Path(pi.ask("get_state")["sessionFile"]).read_text().splitlines()
        assert found == kept([row for row in map(json.loads, lines) if row["type"] == "message"])


def test_the_id_of_a_message_is_the_clients_in_records_and_session(agent: AgentStarter) -> None:
    """R-MSG-08: of a prompt, and of messages that were queued; one without an id gets one."""
    pi = agent([{"chunks": [{"text": "half"}, {"gate": "g"}]}, MORE], has_session=True)
    pi.ask("prompt", message="a", messageId="m-a")
    pi.wait({"type": "message_update"})
    pi.ask("steer", message="b", messageId="m-b")
    pi.ask("follow_up", message="c", messageId="m-c")
    pi.ask("prompt", message="d", messageId="m-d", streamingBehavior="followUp")
    pi.ask("follow_up", message="e")
    pi.llm.release("g")
    pi.wait(SETTLED)

    found = kept(entries(pi))
    assert found == named(pi, "message_start") == named(pi, "message_end")
    *given, made = users(found)
    assert ["m-a", "m-b", "m-c", "m-d"] == given
    assert made is not None
    assert 0 < len(made) <= 128
    assert all("messageId" not in message for message in pi.ask("get_messages")["messages"])


def test_names_are_the_same_after_a_reload_and_in_copies(agent: AgentStarter) -> None:
    """R-MSG-07, R-MSG-08."""
    pi = agent([CALLS, MORE], has_session=True)
    pi.say("one", "two")
    found, path = kept(entries(pi)), pi.ask("get_state")["sessionFile"]
    last = pi.ask("get_fork_messages")["messages"][-1]["entryId"]

    pi.ask("clone")
    assert found == kept(entries(pi))
    pi.ask("fork", entryId=last)
    assert found[:-2] == kept(entries(pi))
    pi.close_stdin()
    assert pi.wait_exit() == 0
    for flag in ("--session", "--fork"):
        again = agent((), flag, path, again=pi)
        assert found == kept(entries(again))


def test_a_session_without_ids_is_read_as_before(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one")
    path = Path(pi.ask("get_state")["sessionFile"])
    pi.close_stdin()
    assert pi.wait_exit() == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row.pop("messageId", None)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    again = agent((), "--session", str(path), again=pi)
    again.say("two")

    assert [None] == users(kept(entries(again)))[:1]
    assert users(named(again, "message_end")) == users(kept(entries(again)))[1:]


EXTENSION = """
def extension(pi):
    @pi.command("aside")
    async def aside(ctx, args):
        pi.send_message("note", "beside a run")

    @pi.on("before_agent_start")
    async def more(ctx, event):
        pi.send_message("note", "within a run", deliver_as="steer")

    @pi.on("message_end")
    async def look(ctx, event):
        pass
"""


def test_messages_of_extensions_and_those_that_wait_for_them_have_names(agent: AgentStarter, tmp_path: Path) -> None:
    """R-MSG-07: a message that handlers are asked about is begun before it is appended."""
    path = tmp_path / "speaks.py"
    path.write_text(EXTENSION)
    pi = agent([CALLS, MORE], "-e", str(path), has_session=True)
    pi.ask("prompt", message="/aside")
    pi.ask("prompt", message="go", messageId="m-go")
    pi.wait(SETTLED)

    found = kept(entries(pi))
    assert found == named(pi, "message_start") == named(pi, "message_end")
    assert ["m-go"] == users(found)
    assert 2 == [who for who, _, _ in found].count("custom")


@pytest.mark.parametrize("message_id", ["", "m" * 129, 7])
def test_an_id_that_is_none_is_refused(agent: AgentStarter, message_id: object) -> None:
    """R-ERR-03."""
    pi = agent([MORE])
    response = pi.request({"type": "prompt", "message": "go", "messageId": message_id})

    assert ("invalid_field", False) == (response["errorCode"], response["success"])
    assert "messageId must be a string of 1 to 128 characters" in response["error"]


def test_a_client_of_seed_knows_no_names(agent: AgentStarter) -> None:
    """R-PRO-02: the field of the command is ignored, whatever it holds, and no record has one."""
    pi = agent([CALLS, MORE], protocol="seed")
    response = pi.request({"type": "prompt", "message": "go", "messageId": 7})
    pi.wait({"type": "agent_end"})

    assert response["success"]
    names = [name for each in pi.records for name in ("entryId", "messageId") if name in each.record]
    assert [] == names
