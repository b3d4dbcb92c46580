"""Every event of the lifecycle as an extension of the real program receives it, and the changes of handlers."""

import json
import time
from pathlib import Path

import pytest
from tests.rpc.conftest import CONVERSATION_TIMEOUT_S
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, call

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted

DONE: dict[str, object] = {"text": "done"}
MORE: dict[str, object] = {**DONE, "repeat": -1}

# Notes every event in a file, as it is on the wire.
RECORDER = """
import json
import os

from pinnace.extensions import events


def extension(pi):
    def recorder(name):
        def record(ctx, event):
            if os.environ.get("CANCELS") == name:
                return {"cancel": True}
            with open(os.environ["NOTES"], "a") as notes:
                notes.write(json.dumps({**event.to_wire(), "type": name}, default=str) + "\\n")
        return record

    for name, row in events.EVENTS.items():
        if name != "project_trust":
            pi.on(name, recorder(name))

    @pi.command("go")
    async def go(ctx, args):
        await ctx.navigate_tree(args)
"""
# What comes any number of times, or belongs to no place in a run.
MANY = {"message_update", "provider_stream_event", "message_start", "message_end", "tool_execution_update"}


class Recorded:
    """An agent whose events are noted."""

    def __init__(self, one: Extended, notes: Path) -> None:
        self.one = one
        self.pi = one.pi
        self._notes = notes

    @property
    def events(self) -> list[Record]:
        text = self._notes.read_text() if self._notes.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # of what is written just now a part may be there
        return [json.loads(line) for line in whole.splitlines()]

    def say(self, text: str) -> None:
        """Send a prompt, and wait until the agent has settled and handlers have heard of that, behind its record."""
        count = len(self.of("agent_settled"))
        self.one.say(text)
        self.wait_for("agent_settled", count + 1)

    def names(self, *left_out: str) -> list[str]:
        return [each["type"] for each in self.events if each["type"] not in {*MANY, *left_out}]

    def of(self, name: str) -> list[Record]:
        """The events of a name, without it."""
        return [
            {key: value for key, value in each.items() if key != "type"} for each in self.events if each["type"] == name
        ]

    def forget(self) -> None:
        """Begin anew: what has come so far is of no interest."""
        self._notes.unlink(missing_ok=True)

    def wait_for(self, name: str, count: int = 1) -> None:
        """Wait for a number of events whose handlers are not awaited."""
        deadline_s = time.monotonic() + CONVERSATION_TIMEOUT_S
        while len(self.of(name)) < count:
            assert time.monotonic() < deadline_s, f"no {name}"
            self.pi.ask("get_state")


@pytest.fixture
def recorded(extended: Start, written: MakeExtension) -> "MakeRecorded":
    return MakeRecorded(extended, written)


class MakeRecorded:
    def __init__(self, extended: Start, written: MakeExtension) -> None:
        self._extended = extended
        self._path = written(RECORDER)

    def __call__(self, script: list[Scripted], *flags: str, cancels: str = "", **options: object) -> Recorded:
        notes = self._path.with_name("notes")
        env = {"NOTES": str(notes), "CANCELS": cancels}
        return Recorded(self._extended(self._path, script, *flags, env=env, **options), notes)


# A prompt.


def test_one_prompt_from_its_text_to_its_end(recorded: MakeRecorded) -> None:
    rec = recorded([call("bash", command="echo hello"), DONE])
    rec.one.say("go")
    rec.pi.check_end()

    request = ["context", "context_with_system", "before_provider_headers", "before_provider_request"]
    turn = ["turn_start", *request, "after_provider_response"]
    assert [
        "session_start",
        "resources_discover",
        "input",
        "before_agent_start",
        "agent_start",
        *turn,
        "tool_execution_start",
        "tool_call",
        "tool_result",
        "tool_execution_end",
        "turn_end",
        *turn,
        "turn_end",
        "agent_end",
        "agent_before_settle",
        "agent_settled",
        "session_shutdown",
    ] == rec.names()


def test_message_events_fire_at_start_update_and_end(recorded: MakeRecorded) -> None:
    rec = recorded([{"text": ["one ", "two"]}])
    rec.one.say("go")

    wanted = {"message_start", "message_update", "message_end", "turn_start", "turn_end"}
    found = [(each["type"], each.get("message", {}).get("role")) for each in rec.events if each["type"] in wanted]
    assert [("message_start", "user"), ("message_end", "user"), ("message_start", "assistant")] == [
        each for each in found if each[0] != "turn_start"
    ][:3]
    assert ("turn_end", "assistant") == found[-1]
    deltas = [each["assistantMessageEvent"] for each in rec.of("message_update")]
    assert "one two" == "".join(each["delta"] for each in deltas if each["type"] == "text_delta")
    assert rec.of("provider_stream_event")


def test_the_events_of_one_call(recorded: MakeRecorded) -> None:
    rec = recorded([call("bash", command="echo hello; exit 3"), DONE])
    rec.one.say("go")
    [start], [asked], [result], [end] = (
        rec.of(name) for name in ("tool_execution_start", "tool_call", "tool_result", "tool_execution_end")
    )

    call_id = start["toolCallId"]
    assert {"toolCallId": call_id, "toolName": "bash", "args": {"command": "echo hello; exit 3"}} == start
    assert {"toolCallId": call_id, "toolName": "bash", "input": {"command": "echo hello; exit 3"}} == asked
    assert (True, call_id) == (result["isError"], end["toolCallId"])
    assert "hello" in end["result"]["content"][0]["text"]
    assert end["isError"]
    assert isinstance(end["durationMs"], int)


def test_a_call_that_is_not_carried_out_has_a_start_and_an_end(recorded: MakeRecorded) -> None:
    rec = recorded([call("nothing_like_this"), DONE])
    rec.one.say("go")

    assert ["tool_execution_start", "tool_execution_end"] == [name for name in rec.names() if name.startswith("tool_")]
    assert not rec.of("tool_execution_end")[0].get("durationMs")


def test_the_end_of_a_turn_and_of_a_run(recorded: MakeRecorded) -> None:
    rec = recorded([call("bash", command="true"), DONE])
    rec.say("go")

    assert [0, 1] == [each["turnIndex"] for each in rec.of("turn_end")]
    assert ["bash"] == [each["toolName"] for each in rec.of("turn_end")[0]["toolResults"]]
    assert ["user", "assistant", "toolResult", "assistant"] == [
        each["role"] for each in rec.of("agent_end")[0]["messages"]
    ]
    assert "completed" == rec.of("agent_before_settle")[0]["outcome"]
    assert [{"aborted": False}] == rec.of("agent_settled")


def test_an_abort_fires_its_events_and_prevents_continuing(recorded: MakeRecorded) -> None:
    rec = recorded([{"chunks": [{"text": "begun"}, {"gate": "g"}]}])
    rec.one.begin("go")
    rec.pi.llm.wait_reached("g")
    rec.pi.ask("abort")
    rec.pi.wait({"type": "agent_settled"})
    rec.wait_for("agent_settled")

    assert [{"aborted": True}] == rec.of("agent_settled")
    assert "agent_before_settle" not in rec.names()


def test_the_source_of_a_message_is_in_the_event(recorded: MakeRecorded) -> None:
    rec = recorded([{"chunks": [{"text": "begun"}, {"gate": "g"}]}, MORE])
    rec.one.begin("go")
    rec.pi.llm.wait_reached("g")
    rec.pi.ask("steer", message="and this")
    rec.pi.ask("follow_up", message="and that")
    rec.pi.llm.release("g")
    rec.pi.wait({"type": "agent_settled"})

    assert [
        {"text": "go", "source": "rpc"},
        {"text": "and this", "source": "rpc", "streamingBehavior": "steer"},
        {"text": "and that", "source": "rpc", "streamingBehavior": "followUp"},
    ] == [{key: value for key, value in each.items() if value is not None} for each in rec.of("input")]


def test_the_response_of_a_provider_fires_events(recorded: MakeRecorded) -> None:
    rec = recorded([{**DONE, "headers": {"x-told": "yes"}}])
    rec.one.say("go")
    [response] = rec.of("after_provider_response")
    [asked] = rec.of("before_provider_request")

    assert 200 == response["status"]
    assert "yes" == {name.lower(): value for name, value in response["headers"].items()}["x-told"]
    assert "m1" == asked["payload"]["model"]
    assert {"fake"} == {each["provider"] for each in rec.of("provider_stream_event")}


# Sessions.


REPLACEMENT = ["session_before_switch", "session_shutdown", "session_start", "session_switch", "resources_discover"]


def test_the_events_of_a_new_session(recorded: MakeRecorded) -> None:
    rec = recorded([MORE], has_session=True)
    rec.say("go")
    old = rec.pi.ask("get_state")["sessionFile"]
    rec.forget()
    rec.pi.ask("new_session")

    assert REPLACEMENT == rec.names()
    assert [{"reason": "new"}] == rec.of("session_before_switch")
    assert "new" == rec.of("session_shutdown")[0]["reason"]
    assert [{"reason": "new", "previousSessionFile": old}] == rec.of("session_start")


def test_the_events_of_a_resumed_session(recorded: MakeRecorded) -> None:
    rec = recorded([MORE], has_session=True)
    rec.say("go")
    old = rec.pi.ask("get_state")["sessionFile"]
    rec.pi.ask("new_session")
    rec.say("go")
    newer = rec.pi.ask("get_state")["sessionFile"]
    rec.forget()
    rec.pi.ask("switch_session", sessionPath=old)

    assert REPLACEMENT == rec.names()
    assert [{"reason": "resume", "targetSessionFile": old}] == rec.of("session_before_switch")
    assert [{"reason": "resume", "targetSessionFile": old}] == rec.of("session_shutdown")
    assert [{"reason": "resume", "previousSessionFile": newer}] == rec.of("session_start")


@pytest.mark.parametrize("command", ["fork", "clone"])
def test_the_events_of_a_fork(recorded: MakeRecorded, command: str) -> None:
    rec = recorded([MORE], has_session=True)
    rec.say("go")
    old = rec.pi.ask("get_state")["sessionFile"]
    entry = rec.pi.ask("get_fork_messages")["messages"][0]["entryId"]
    leaf = rec.pi.ask("get_entries")["leafId"]
    rec.forget()
    rec.pi.ask(command, **({"entryId": entry} if command == "fork" else {}))

    assert [
        "session_before_fork",
        "session_shutdown",
        "session_start",
        "session_fork",
        "resources_discover",
    ] == rec.names()
    about = {"entryId": entry, "position": "before"} if command == "fork" else {"entryId": leaf, "position": "at"}
    assert [about] == rec.of("session_before_fork")
    assert [{"reason": "fork", "previousSessionFile": old}] == rec.of("session_start")


@pytest.mark.parametrize(
    ("command", "event"),
    [
        ("new_session", "session_before_switch"),
        ("switch_session", "session_before_switch"),
        ("fork", "session_before_fork"),
        ("clone", "session_before_fork"),
    ],
)
def test_a_replacement_that_is_cancelled_changes_nothing(recorded: MakeRecorded, command: str, event: str) -> None:
    rec = recorded([MORE], has_session=True, cancels=event)
    rec.say("go")
    state = rec.pi.ask("get_state")
    fields: dict[str, object] = {
        "fork": {"entryId": rec.pi.ask("get_fork_messages")["messages"][0]["entryId"]},
        "switch_session": {"sessionPath": state["sessionFile"]},
    }.get(command, {})
    rec.forget()

    assert rec.pi.ask(command, **fields)["cancelled"]
    assert [] == rec.names()
    assert state["sessionId"] == rec.pi.ask("get_state")["sessionId"]
    rec.say("go on")


def test_a_compaction_fires_events_before_and_after(recorded: MakeRecorded) -> None:
    rec = recorded([MORE], settings={"compaction": {"keepRecentTokens": 1}})
    rec.say("one")
    rec.say("two")
    rec.forget()
    rec.pi.ask("compact", customInstructions="be brief")
    rec.wait_for("session_compact")
    [before], [after] = rec.of("session_before_compact"), rec.of("session_compact")

    assert ("manual", "be brief", False) == (before["reason"], before["customInstructions"], before["willRetry"])
    assert {"firstKeptEntryId", "messagesToSummarize", "tokensBefore"} <= before["preparation"].keys()
    assert before["branchEntries"]
    assert ("manual", False) == (after["reason"], after["fromExtension"])
    assert "compaction" == after["compactionEntry"]["type"]


def test_a_failed_compaction_fires_an_event(recorded: MakeRecorded) -> None:
    refused: Scripted = {"error": {"status": 400, "body": {"error": {"message": "no"}}}}
    rec = recorded([DONE, DONE, refused], settings={"compaction": {"keepRecentTokens": 1}})
    rec.say("one")
    rec.say("two")
    assert not rec.pi.request({"type": "compact"})["success"]
    rec.wait_for("session_compact_failed")
    [failed] = rec.of("session_compact_failed")

    assert ("manual", False) == (failed["reason"], failed["aborted"])
    assert "no" in failed["errorMessage"]


def test_a_compaction_can_be_cancelled(recorded: MakeRecorded) -> None:
    settings = {"compaction": {"keepRecentTokens": 1}}
    rec = recorded([MORE], cancels="session_before_compact", settings=settings)
    rec.say("one")
    rec.say("two")
    assert not rec.pi.request({"type": "compact"})["success"]

    assert 2 == len(rec.pi.llm.requests)
    assert [] == [each for each in rec.pi.ask("get_entries")["entries"] if each["type"] == "compaction"]


def test_moving_in_the_tree_fires_events_before_and_after(recorded: MakeRecorded) -> None:
    rec = recorded([MORE])
    rec.say("one")
    target = rec.pi.ask("get_entries")["leafId"]
    rec.say("two")
    leaf = rec.pi.ask("get_entries")["leafId"]
    rec.one.command(f"/go {target}")
    [before], [after] = rec.of("session_before_tree"), rec.of("session_tree")

    assert (target, leaf, False) == tuple(
        before["preparation"][name] for name in ("targetId", "oldLeafId", "userWantsSummary")
    )
    assert (rec.pi.ask("get_entries")["leafId"], leaf) == (after["newLeafId"], after["oldLeafId"])


def test_going_elsewhere_can_be_cancelled(recorded: MakeRecorded) -> None:
    rec = recorded([MORE], cancels="session_before_tree")
    rec.say("one")
    target = rec.pi.ask("get_entries")["leafId"]
    rec.say("two")
    leaf = rec.pi.ask("get_entries")["leafId"]
    rec.one.command(f"/go {target}")

    assert leaf == rec.pi.ask("get_entries")["leafId"]


# Model, level, name, dialogs.


def test_a_change_of_model_or_level_fires_an_event(recorded: MakeRecorded) -> None:
    rec = recorded([])
    rec.pi.ask("set_model", provider="fake", modelId="m2")
    rec.pi.ask("set_thinking_level", level="high")
    rec.pi.ask("cycle_model")
    rec.wait_for("thinking_level_select")
    rec.wait_for("model_select", 2)

    assert [("m2", "m1", "set"), ("m1", "m2", "cycle")] == [
        (each["model"]["id"], each["previousModel"]["id"], each["source"]) for each in rec.of("model_select")
    ]
    assert {"level": "high", "previousLevel": "medium"} in rec.of("thinking_level_select")


def test_a_rename_fires_an_event(recorded: MakeRecorded) -> None:
    rec = recorded([])
    rec.pi.ask("set_session_name", name="the voyage")
    rec.wait_for("session_info_changed")

    assert [{"name": "the voyage"}] == rec.of("session_info_changed")


def test_a_shell_command_of_the_user_fires_an_event(recorded: MakeRecorded) -> None:
    rec = recorded([])
    rec.pi.ask("bash", command="true", excludeFromContext=True)

    assert [{"command": "true", "excludeFromContext": True, "cwd": str(rec.one.work)}] == rec.of("user_bash")


def test_in_print_mode_the_source_is_interactive(print_agent: OneShotStarter, written: MakeExtension) -> None:
    path = written(RECORDER)
    notes = path.with_name("notes")
    printed = print_agent(["-p", "go", "-e", str(path)], [DONE], env={"NOTES": str(notes)}).end()
    events = [json.loads(line) for line in notes.read_text().splitlines()]

    assert (0, "done\n") == printed[:2]
    assert ["interactive"] == [each["source"] for each in events if each["type"] == "input"]
    assert ("session_start", "session_shutdown") == (events[0]["type"], events[-1]["type"])
    assert "quit" == events[-1]["reason"]


def test_a_command_that_comes_first_of_all_is_answered_when_it_has_ended(
    extended: Start, written: MakeExtension
) -> None:
    """R-EXT-03: a message may call a command of an extension, so it waits until extensions are loaded."""
    asks = written(
        """
        def extension(pi):
            @pi.command("ask")
            async def ask(ctx, args):
                ctx.ui.notify(str(await ctx.ui.confirm("Sure?")))
        """
    )
    one = extended(asks, [{"text": "fine"}])
    asked = one.begin("/ask")
    one.pi.send({"id": "s", "type": "steer", "message": "/ask"})
    one.pi.send({"id": "p", "type": "prompt", "message": "/else"})
    request = one.asked("confirm")
    assert [] == one.pi.found({"id": asked})
    one.reply(request, confirmed=True)
    one.accepted(asked)

    assert "True" == one.notice()
    assert "not_queueable" == one.pi.wait_response("s")["errorCode"]
    assert one.pi.wait_response("p")["success"]
    one.pi.wait({"type": "agent_settled"}, since=0)
    assert ["/else"] == one.user_messages


def test_a_message_after_a_new_session_is_expanded_by_its_extensions(extended: Start, written: MakeExtension) -> None:
    """R-EXT-03, R-EXT-06"""
    path = written(
        """
        import pathlib

        marker = pathlib.Path(__file__).with_name("second")

        def extension(pi):
            name = "later" if marker.exists() else "sooner"
            marker.touch()

            @pi.command(name)
            async def run(ctx, args):
                ctx.ui.notify(name)
        """
    )
    one = extended(path, [{"text": "fine"}])
    one.command("/sooner")
    assert "sooner" == one.notice()
    one.pi.send_many(
        [
            {"id": "n", "type": "new_session"},
            {"id": "a", "type": "prompt", "message": "/later"},
            {"id": "b", "type": "prompt", "message": "/sooner"},
        ]
    )
    assert "later" == one.notice()
    assert "handled" == one.pi.wait_response("a")["data"]["disposition"]
    assert "started" == one.pi.wait_response("b")["data"]["disposition"]
    one.pi.wait({"type": "agent_settled"}, since=0)


WORKER = """
import trio


def extension(pi):
    finish = trio.Event()

    async def work(ctx):
        await finish.wait()
        ctx.ui.notify("done")

    @pi.command("begin")
    async def begin(ctx, args):
        pi.background.start_soon(work, ctx)

    @pi.command("finish")
    async def end(ctx, args):
        finish.set()
"""


def test_the_state_lists_extensions_with_a_background_task(extended: Start, written: MakeExtension) -> None:
    """R-EXT-13: what a host must not cut."""

    def at_work() -> object:
        return one.pi.ask("get_state").get("extensionsAtWork")

    path = written(WORKER, "worker.py")
    one = extended(path)
    assert at_work() is None
    one.command("/begin")
    assert at_work() == [str(path)]
    one.command("/finish")
    one.asked("notify")
    assert at_work() is None


@pytest.mark.parametrize("option", ["", ", trigger_turn=False"])
def test_a_message_for_a_session_that_begins_starts_no_run(
    extended: Start, written: MakeExtension, option: str
) -> None:
    """It is stored at once, at the start and in a new session, and the next prompt carries it."""
    extension = written(
        f"""
        def extension(pi):
            @pi.on("session_start")
            def started(ctx, event):
                pi.send_message("note", "kept in mind"{option})
        """
    )
    one = extended(extension, [DONE, DONE])
    stored = {"type": "message_end", "message": {"role": "custom"}}
    one.pi.wait(stored)
    one.say("first")
    mark = one.pi.mark()
    one.pi.ask("new_session")
    one.pi.wait(stored, since=mark)
    one.say("second")
    assert [["kept in mind", "first"], ["kept in mind", "second"]] == [
        [block["text"] for message in request.body["messages"][1:] for block in message["content"]]
        for request in one.pi.llm.requests
    ]
