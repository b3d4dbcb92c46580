"""`navigate_tree` over real pipes: the session continues from another entry. R-SES-13, R-SES-14."""

from pathlib import Path

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MORE = {"text": "more", "repeat": -1}
HELD = {"text": "what was left", "hold": "summary", "match": "the ROSES"}

WATCHED = """
def extension(pi):
    @pi.on("session_before_tree")
    async def before(ctx, event):
        ctx.ui.notify("before " + str(event.preparation["targetId"]))
        if event.preparation.get("customInstructions") == "no":
            return {"cancel": True}

    @pi.on("session_tree")
    async def after(ctx, event):
        ctx.ui.notify("after " + str(event.new_leaf_id == ctx.session_manager.get_leaf_id()))
        if event.summary_entry is None:
            pi.send_user_message("from the handler")

    @pi.command("go")
    async def go(ctx, args):
        result = await ctx.navigate_tree(args or None)
        ctx.ui.notify(f"gone {result.cancelled}")
"""


def texts(pi: HomedAgent) -> list[str]:
    """Return the texts of the user in the context."""
    found = [each["content"] for each in pi.ask("get_messages")["messages"] if each["role"] == "user"]
    return [content if isinstance(content, str) else content[0]["text"] for content in found]


def leaf(pi: HomedAgent) -> str:
    return str(pi.ask("get_entries")["leafId"])


def notices(pi: HomedAgent) -> list[str]:
    return [str(each["message"]) for each in pi.found({"type": "extension_ui_request", "method": "notify"})]


def test_the_next_message_continues_from_the_entry(agent: AgentStarter) -> None:
    """R-SES-13: after a restart, too; the branch that was left stays in the tree."""
    pi = agent([MORE], has_session=True)
    pi.say("one")
    target = leaf(pi)
    pi.say("two")
    left = leaf(pi)
    moved = pi.ask("navigate_tree", entryId=target)
    assert {"cancelled": False, "leafId": leaf(pi)} == moved
    assert ["one"] == texts(pi)
    path = pi.ask("get_state")["sessionFile"]
    pi.close_stdin()
    assert pi.wait_exit() == 0

    again = agent([MORE], "--session", path, again=pi)
    again.say("three")
    assert ["one", "three"] == texts(again)
    assert left in {each["id"] for each in again.ask("get_entries")["entries"]}


def test_a_move_to_a_message_of_the_user_ends_before_it(agent: AgentStarter) -> None:
    """R-SES-13."""
    pi = agent([MORE], has_session=True)
    pi.say("one")
    pi.say("two")
    second = pi.ask("get_fork_messages")["messages"][1]["entryId"]

    assert "two" == pi.ask("navigate_tree", entryId=second)["editorText"]
    assert ["one"] == texts(pi)


@pytest.mark.parametrize("has_session", [True, False], ids=["in a file", "in memory"])
def test_null_is_before_the_first_entry(agent: AgentStarter, has_session: bool) -> None:
    """R-SES-13."""
    pi = agent([MORE], has_session=has_session)
    assert {"cancelled": False} == pi.ask("navigate_tree", entryId=None)
    pi.say("one")
    assert not pi.ask("navigate_tree", entryId=None)["cancelled"]
    pi.say("two")

    assert ["two"] == texts(pi)


def test_a_move_to_where_the_session_is_changes_nothing(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one")
    before = pi.ask("get_entries")

    assert {"cancelled": False, "leafId": before["leafId"]} == pi.ask("navigate_tree", entryId=before["leafId"])
    assert before == pi.ask("get_entries")


def test_an_entry_that_is_not_there_is_refused(agent: AgentStarter) -> None:
    pi = agent([], has_session=True)
    response = pi.request({"type": "navigate_tree", "entryId": "nobody"})

    assert ("entry_not_found", "Entry not found: nobody") == (response["errorCode"], response["error"])


def test_a_field_that_is_no_entry_is_named_with_what_was_expected(agent: AgentStarter) -> None:
    """R-ERR-03: null must be said."""
    pi = agent([])
    for fields in ({}, {"entryId": 7}):
        error = pi.request({"type": "navigate_tree", **fields})["error"]
        assert "Invalid navigate_tree command: entryId must be a string or null" == error


def test_the_summary_of_what_is_left_is_part_of_the_context(agent: AgentStarter) -> None:
    """R-SES-13: with the instructions of the client."""
    pi = agent([{"text": "what was left", "match": "the ROSES"}, MORE], has_session=True)
    pi.say("one")
    target = leaf(pi)
    pi.say("two")
    left = leaf(pi)
    moved = pi.ask("navigate_tree", entryId=target, summarize=True, instructions="the ROSES")
    entry = moved["summaryEntry"]

    assert ("branch_summary", "what was left", left) == (entry["type"], entry["summary"], entry["fromId"])
    assert moved["leafId"] == entry["id"] == leaf(pi)
    assert "branchSummary" == pi.ask("get_messages")["messages"][-1]["role"]


def test_without_a_model_there_is_no_summary(agent: AgentStarter) -> None:
    former = agent([])
    former.close_stdin()
    assert former.wait_exit() == 0
    (former.home.agent_dir / "models.json").unlink()
    former.home = former.home._replace(arguments=["--mode", "rpc", "--no-session"])
    pi = agent((), again=former)
    response = pi.request({"type": "navigate_tree", "entryId": None, "summarize": True})

    assert (False, "no_model") == (response["success"], response["errorCode"])


def begun_summary(agent: AgentStarter) -> tuple[HomedAgent, str]:
    """Start a move whose summary waits; return the agent and the leaf."""
    pi = agent([HELD, MORE], has_session=True)
    pi.say("one")
    target = leaf(pi)
    pi.say("two")
    left = leaf(pi)
    asked = {"entryId": target, "summarize": True, "instructions": "the ROSES"}
    pi.send({"id": "move", "type": "navigate_tree", **asked})
    pi.llm.wait_reached("summary")
    return pi, left


def test_an_abort_ends_the_summary_and_the_session_stays(agent: AgentStarter) -> None:
    """R-SES-13: the request ends, and the next message continues where the session was."""
    pi, left = begun_summary(agent)
    assert (False, True) == tuple(pi.ask("get_state")[name] for name in ("isStreaming", "isCompacting"))
    pi.ask("abort")
    answered = [each.record["command"] for each in pi.records if each.record.get("type") == "response"]

    assert {"cancelled": True, "aborted": True} == pi.wait_response("move")["data"]
    assert ["navigate_tree", "abort"] == answered[-2:]
    assert left == leaf(pi)
    pi.say("three")
    assert ["one", "two", "three"] == texts(pi)


@pytest.mark.parametrize("command", ["compact", "new_session"])
def test_a_command_that_aborts_runs_aborts_a_move(agent: AgentStarter, command: str) -> None:
    """R-SES-13."""
    pi, _ = begun_summary(agent)
    pi.request({"type": command})

    assert {"cancelled": True, "aborted": True} == pi.wait_response("move")["data"]


def test_the_end_of_the_process_answers_a_move(agent: AgentStarter) -> None:
    """C-16."""
    pi, _ = begun_summary(agent)
    pi.close_stdin()

    assert {"cancelled": True, "aborted": True} == pi.wait_response("move")["data"]
    assert 0 == pi.wait_exit()


def test_what_comes_during_a_move_is_refused_or_queued(agent: AgentStarter) -> None:
    """R-SES-14: a second move and a plain prompt are refused, a steer runs behind the move, on the new branch."""
    pi, _ = begun_summary(agent)
    again = pi.request({"type": "navigate_tree", "entryId": None})
    prompt = pi.request({"type": "prompt", "message": "now"})
    pi.ask("steer", message="later")
    mark = pi.mark()
    pi.llm.release("summary")
    pi.wait({"type": "agent_settled"}, since=mark)

    assert ("compacting", "busy") == (again["errorCode"], prompt["errorCode"])
    assert "what was left" == pi.wait_response("move")["data"]["summaryEntry"]["summary"]
    assert ["one", "later"] == texts(pi)


def test_queued_messages_stay_queued_over_a_move(agent: AgentStarter) -> None:
    """R-SES-14: also on the disk, so that the next process restores them."""
    pi = agent([{"text": "half", "hold": "g"}, MORE], has_session=True)
    pi.ask("prompt", message="one")
    pi.llm.wait_reached("g")
    pi.ask("follow_up", message="later")
    refused = pi.request({"type": "navigate_tree", "entryId": None})
    pi.ask("abort")
    pi.ask("navigate_tree", entryId=None)
    kept = pi.ask("get_state")["pendingMessageCount"]
    path = pi.ask("get_state")["sessionFile"]
    pi.close_stdin()
    assert pi.wait_exit() == 0
    again = agent([MORE], "--session", path, again=pi)

    assert ("busy", 1, 1) == (refused["errorCode"], kept, again.ask("get_state")["pendingMessageCount"])
    again.ask("abort", queue="continue")
    again.wait({"type": "agent_settled"})
    assert ["later"] == texts(again)


def test_extensions_are_asked_before_and_notified_before_the_response(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SES-13: messages that their handlers send begin a run on the new branch, behind the response."""
    (tmp_path / "watched.py").write_text(WATCHED)
    pi = agent([MORE], "-e", str(tmp_path / "watched.py"), has_session=True)
    pi.say("one")
    target = leaf(pi)
    pi.say("two")
    mark = pi.mark()
    assert {"cancelled": True} == pi.ask("navigate_tree", entryId=target, instructions="no")
    assert [f"before {target}"] == notices(pi)
    assert not pi.ask("navigate_tree", entryId=target)["cancelled"]
    pi.wait({"type": "agent_settled"}, since=mark)
    kinds = [kind(each.record) for each in pi.records[mark:]]

    assert [f"before {target}"] * 2 + ["after True"] == notices(pi)
    order = [kinds.index(each) for each in ("after True", "agent_start")]
    response = len(kinds) - 1 - kinds[::-1].index("navigate_tree")
    assert order[0] < response < order[1]
    assert ["one", "from the handler"] == texts(pi)


def kind(record: Record) -> str:
    """Return what a record is about."""
    return str(record.get("message") if record.get("method") == "notify" else record.get("command") or record["type"])


def test_the_call_of_an_extension_is_the_same_move(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SES-13: with the same hooks, and to before the first entry."""
    (tmp_path / "watched.py").write_text(WATCHED)
    pi = agent([MORE], "-e", str(tmp_path / "watched.py"), has_session=True)
    pi.say("one")
    mark = pi.mark()
    pi.ask("prompt", message="/go")
    pi.wait({"type": "agent_settled"}, since=mark)

    assert {"before None", "after True", "gone False"} == set(notices(pi))
    assert ["from the handler"] == texts(pi)
