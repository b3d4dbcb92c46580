"""Session commands and reads of an idle agent, over real pipes: what they answer, and what is in the files after.

Each command is tried with files and, where that is another thing, with a session in memory. What a refused command must
leave alone is everything: the records, the session in force, and every byte in the folder of sessions. Rules R-SES-03,
R-SES-05, R-SES-07, C-10.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.rpc.sessions.test_session_replacement import lease_of
from tests.waiting import wait_gone

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.session_format import validate_session

MORE = {"text": "more", "repeat": -1}
TOOL = {"tool_calls": [{"name": "bash", "args": {"command": "echo from the tool"}}]}
SETTLED = {"type": "agent_settled"}
KEEPING = pytest.mark.parametrize("has_session", [True, False], ids=["in files", "in memory"])


def refused(pi: HomedAgent, command: str, /, **fields: object) -> tuple[str, str]:
    """Send a command that is refused; return code and text."""
    response = pi.request({"type": command, **fields})
    assert not response["success"], response
    return response["errorCode"], response["error"]


def end(pi: HomedAgent) -> None:
    pi.close_stdin()
    assert pi.wait_exit() == 0


def messages(pi: HomedAgent) -> list[Record]:
    return list(pi.ask("get_messages")["messages"])


def texts(pi: HomedAgent) -> list[str]:
    """Return the texts of the context, in order."""
    blocks = [block for message in messages(pi) for block in message.get("content", ())]
    return [block["text"] for block in blocks if block["type"] == "text"]


def entries(pi: HomedAgent) -> list[Record]:
    return list(pi.ask("get_entries")["entries"])


def file_of(pi: HomedAgent) -> Path:
    return Path(pi.ask("get_state")["sessionFile"])


def lines(path: Path) -> list[Record]:
    """Return header and entries of a file that is as files have to be."""
    data = path.read_bytes()
    assert validate_session(data) == []
    return [json.loads(line) for line in data.splitlines()]


def contents(pi: HomedAgent) -> dict[str, bytes]:
    """Return all session files, byte for byte."""
    return {path.name: path.read_bytes() for path in pi.home.sessions.glob("*.jsonl") if path.is_file()}


def everything(pi: HomedAgent) -> Sequence[object]:
    """Return all that can be seen of a session, on the wire and in the folder."""
    reads = ("get_state", "get_messages", "get_entries", "get_tree", "get_session_stats", "get_fork_messages")
    return [*(pi.ask(read) for read in reads), contents(pi)]


def stamp(number: int) -> str:
    return f"2026-01-02T03:04:{number:02}.000Z"


def user(number: int, parent: int | None, *blocks: object) -> Record:
    message = {"role": "user", "content": list(blocks), "timestamp": 1767323040000 + number}
    return entry("message", number, parent, message=message)


def entry(kind: str, number: int, parent: int | None, **fields: object) -> Record:
    ids = {"id": f"{number:08x}", "parentId": None if parent is None else f"{parent:08x}"}
    return {"type": kind, **ids, "timestamp": stamp(number), **fields}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def write(path: Path, cwd: Path, *rows: Record, session_id: str = "hand-made") -> Path:
    """Write a session file as another program might have."""
    header = {"type": "session", "version": 3, "id": session_id, "timestamp": stamp(0), "cwd": str(cwd)}
    path.write_text("".join(json.dumps(row) + "\n" for row in (header, *rows)), encoding="utf-8")
    return path


def branched(pi: HomedAgent) -> Path:
    """Write a session with two branches, labels, and a prompt of an image alone."""
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    return write(
        pi.home.sessions / "branched.jsonl",
        pi.home.work,
        user(1, None, text("root")),
        user(2, 1, text("le"), text("ft")),
        user(3, 1, text("right")),
        entry("label", 4, 3, targetId="00000001", label="start"),
        user(5, 4, image),
        user(6, 5, text("tip")),
    )


# new_session


def test_a_new_session_is_empty_and_makes_no_file_before_it_has_something(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one")
    pi.ask("set_session_name", name="former")
    former, before = file_of(pi), contents(pi)

    assert pi.ask("new_session") == {"cancelled": False, "cleared": {"steering": [], "followUp": []}}

    state = pi.ask("get_state")
    assert (state["messageCount"], state.get("sessionName"), state["model"]["id"]) == (0, None, "m1")
    assert entries(pi) == []
    assert (contents(pi), file_of(pi).exists()) == (before, False)
    pi.say("two")
    assert contents(pi)[former.name] == before[former.name]
    assert [line["message"]["role"] for line in lines(file_of(pi)) if line["type"] == "message"] == [
        "user",
        "assistant",
    ]


@KEEPING
def test_a_new_session_keeps_the_path_of_its_parent(agent: AgentStarter, has_session: bool) -> None:
    pi = agent([MORE], has_session=has_session)
    pi.say("one")

    pi.ask("new_session", parentSession="/some/where/else.jsonl")
    pi.say("two")

    assert texts(pi) == ["two", "more"]
    if has_session:
        assert lines(file_of(pi))[0]["parentSession"] == "/some/where/else.jsonl"
    else:
        assert "sessionFile" not in pi.ask("get_state")


# switch_session


def test_two_sessions_can_be_switched_between_and_nothing_is_lost(agent: AgentStarter) -> None:
    pi = agent([TOOL, MORE], has_session=True)
    pi.say("a1")
    first, first_messages = file_of(pi), messages(pi)
    pi.ask("new_session")
    pi.say("b1")
    second = file_of(pi)

    pi.ask("switch_session", sessionPath=str(first))
    assert (file_of(pi), messages(pi)) == (first, first_messages)
    pi.say("a2")
    pi.ask("switch_session", sessionPath=str(second))
    assert texts(pi) == ["b1", "more"]
    pi.say("b2")
    pi.ask("switch_session", sessionPath=str(first))

    assert texts(pi) == ["a1", "from the tool\n", "more", "a2", "more"]
    assert "b1" not in pi.llm.requests[3].text
    assert "a1" in pi.llm.requests[3].text
    assert [line["type"] for line in lines(second)].count("message") == 4
    assert pi.ask("get_state")["sessionStatus"] == {"saved": True}


def test_a_session_that_was_left_can_be_opened_by_another_process(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("a1")
    first = file_of(pi)
    pi.ask("new_session")
    wait_gone(lease_of(first))

    other = agent((), "--session", str(first), again=pi)
    other.say("a2")

    assert texts(other) == ["a1", "more", "a2", "more"]


def test_switching_to_the_current_session_changes_nothing(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one")
    before = everything(pi)

    pi.ask("switch_session", sessionPath=str(file_of(pi)))

    assert everything(pi) == before
    pi.say("two")
    assert texts(pi) == ["one", "more", "two", "more"]


def test_a_session_is_the_same_by_whichever_path_it_is_named(agent: AgentStarter, tmp_path: Path) -> None:
    """Also its own one: a folder that is a link must not make a process wait for itself."""
    former = agent([MORE], has_session=True)
    end(former)
    link = tmp_path / "link"
    link.symlink_to(former.home.sessions)
    former.home = former.home._replace(arguments=["--mode", "rpc", "--session-dir", str(link)])
    pi = agent((), again=former)
    pi.say("one")
    path = file_of(pi)
    relative = os.path.relpath(former.home.sessions / path.name, pi.home.work)

    for name in (str(path), str(former.home.sessions / path.name), relative):
        pi.ask("switch_session", sessionPath=name)
        assert texts(pi) == ["one", "more"]
    pi.say("two")
    assert len(contents(pi)) == 1


def test_a_session_in_memory_is_left_for_a_file_and_that_is_written(agent: AgentStarter) -> None:
    pi = agent([MORE])
    pi.say("in memory")
    path = write(pi.home.sessions / "other.jsonl", pi.home.work, user(1, None, text("on disk")))

    pi.ask("switch_session", sessionPath=str(path))
    pi.say("more of it")

    assert texts(pi) == ["on disk", "more of it", "more"]
    assert [line["type"] for line in lines(path)][-2:] == ["message", "message"]
    pi.ask("new_session")
    assert "sessionFile" not in pi.ask("get_state")
    pi.say("in memory again")
    assert len(contents(pi)) == 1


def test_an_empty_file_becomes_a_session(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    path = pi.home.sessions / "empty.jsonl"
    path.touch()

    pi.ask("switch_session", sessionPath=str(path))
    pi.say("one")

    assert (lines(path)[0]["cwd"], texts(pi)) == (str(pi.home.work), ["one", "more"])


# The model and the level.


def test_a_switch_restores_the_model_and_the_level(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.ask("set_model", provider="fake", modelId="m2")
    pi.ask("set_thinking_level", level="high")
    pi.say("one")
    first = file_of(pi)
    pi.ask("new_session")
    pi.ask("set_model", provider="fake", modelId="m1")
    pi.say("two")
    second = file_of(pi)

    def choices() -> tuple[str, str]:
        state = pi.ask("get_state")
        return state["model"]["id"], state["thinkingLevel"]

    assert choices() == ("m1", "off")
    pi.ask("switch_session", sessionPath=str(first))
    assert choices() == ("m2", "high")
    pi.say("three")
    assert pi.llm.requests[-1].body["model"] == "m2"
    pi.ask("switch_session", sessionPath=str(second))
    assert choices() == ("m1", "off")


def test_a_resumed_session_keeps_its_model_and_level(agent: AgentStarter) -> None:
    former = agent([MORE], has_session=True)
    former.ask("set_model", provider="fake", modelId="m2")
    former.say("one")
    former.ask("set_thinking_level", level="low")
    path = file_of(former)
    end(former)
    former.home = former.home._replace(arguments=["--mode", "rpc"])

    state = agent((), "--session", str(path), again=former).ask("get_state")

    assert (state["model"]["id"], state["thinkingLevel"]) == ("m2", "low")


def test_flags_take_precedence_over_the_choices_of_a_resumed_session(agent: AgentStarter) -> None:
    former = agent([MORE], has_session=True)
    former.ask("set_model", provider="fake", modelId="m2")
    former.ask("set_thinking_level", level="low")
    former.say("one")
    end(former)

    state = agent((), "--continue", "--model", "m2", "--thinking", "high", again=former).ask("get_state")
    assert (state["model"]["id"], state["thinkingLevel"]) == ("m2", "high")


def test_a_model_that_there_is_no_more_leaves_the_present_one(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    gone = entry("model_change", 2, 1, provider="gone", modelId="with the wind")
    path = write(pi.home.sessions / "old.jsonl", pi.home.work, user(1, None, text("old")), gone)

    pi.ask("switch_session", sessionPath=str(path))

    assert pi.ask("get_state")["model"]["id"] == "m1"
    pi.say("new")
    assert texts(pi) == ["old", "new", "more"]


# fork, clone, branch


def test_a_fork_takes_what_was_before_a_prompt_and_leaves_the_rest(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one", "the second", "three")
    old, before = file_of(pi), file_of(pi).read_bytes()
    forks = pi.ask("get_fork_messages")["messages"]

    answer = pi.ask("fork", entryId=forks[1]["entryId"])

    assert answer == {"cancelled": False, "text": "the second", "cleared": {"steering": [], "followUp": []}}
    new = file_of(pi)
    assert texts(pi) == ["one", "more"]
    assert pi.ask("get_fork_messages")["messages"] == forks[:1]
    assert lines(new)[0]["parentSession"] == str(old)
    copied = new.read_bytes().splitlines()[1:]
    assert copied == before.splitlines()[1 : 1 + len(copied)]
    pi.say("other")
    assert texts(pi) == ["one", "more", "other", "more"]
    assert "the second" not in pi.llm.requests[-1].text
    assert (old.read_bytes(), oct(new.stat().st_mode & 0o777)) == (before, "0o600")


def test_a_fork_before_the_first_prompt_is_an_empty_session(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one")
    old = file_of(pi)
    (first,) = pi.ask("get_fork_messages")["messages"]

    assert pi.ask("fork", entryId=first["entryId"])["text"] == "one"

    assert (messages(pi), file_of(pi).exists()) == ([], False)
    pi.say("again")
    assert lines(file_of(pi))[0]["parentSession"] == str(old)


@KEEPING
def test_a_fork_before_the_first_prompt_keeps_the_name_it_had(agent: AgentStarter, has_session: bool) -> None:
    pi = agent([MORE], has_session=has_session)
    pi.ask("set_session_name", name="before all")
    pi.say("one")
    (first,) = pi.ask("get_fork_messages")["messages"]

    pi.ask("fork", entryId=first["entryId"])

    assert (messages(pi), pi.ask("get_state")["sessionName"]) == ([], "before all")


def test_a_clone_is_the_same_conversation_in_a_file_of_its_own(agent: AgentStarter) -> None:
    pi = agent([TOOL, MORE], has_session=True)
    pi.say("one")
    pi.ask("set_session_name", name="twin")
    before, known, leaf = messages(pi), entries(pi), pi.ask("get_entries")["leafId"]
    old = file_of(pi)

    assert pi.ask("clone") == {"cancelled": False, "cleared": {"steering": [], "followUp": []}}

    assert file_of(pi) != old
    assert (messages(pi), entries(pi), pi.ask("get_entries")["leafId"]) == (before, known, leaf)
    assert pi.ask("get_state")["sessionName"] == "twin"
    pi.say("only here")
    assert "only here" not in old.read_text()
    pi.ask("switch_session", sessionPath=str(old))
    assert messages(pi) == before


def test_a_fork_behind_a_label_keeps_what_was_before_it(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.ask("switch_session", sessionPath=str(branched(pi)))

    assert pi.ask("fork", entryId="00000006")["text"] == "tip"

    kept = [each["id"] for each in entries(pi)]
    assert kept[:3] == ["00000001", "00000003", "00000005"]
    assert len(lines(file_of(pi))) == 5
    (root,) = pi.ask("get_tree")["tree"]
    assert (root["label"], root["labelTimestamp"]) == ("start", stamp(4))
    assert len(messages(pi)) == 3


def test_the_oldest_client_branches_by_the_index_of_a_message(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one", "two")
    told = pi.ask("get_branch_messages")["messages"]
    assert [message["text"] for message in told] == ["one", "two"]

    assert pi.ask("branch", entryIndex=told[1]["entryIndex"])["text"] == "two"

    assert texts(pi) == ["one", "more"]


def test_in_memory_a_fork_and_a_clone_take_the_same_and_write_nothing(agent: AgentStarter) -> None:
    pi = agent([MORE])
    pi.say("one", "two")
    forks = pi.ask("get_fork_messages")["messages"]
    first = pi.ask("get_state")["sessionId"]

    pi.ask("clone")
    second = pi.ask("get_state")
    assert (texts(pi), second["sessionId"] == first) == (["one", "more", "two", "more"], False)
    assert pi.ask("fork", entryId=forks[1]["entryId"])["text"] == "two"
    assert texts(pi) == ["one", "more"]
    assert pi.ask("branch", entryIndex=pi.ask("get_branch_messages")["messages"][0]["entryIndex"])["text"] == "one"
    assert (messages(pi), contents(pi)) == ([], {})
    assert "sessionFile" not in pi.ask("get_state")


# Reads.


def test_messages_to_fork_from_are_those_of_all_branches_that_have_a_text(agent: AgentStarter) -> None:
    pi = agent([], has_session=True)
    pi.ask("switch_session", sessionPath=str(branched(pi)))

    told = [(each["entryId"][-1], each["text"]) for each in pi.ask("get_fork_messages")["messages"]]

    assert told == [("1", "root"), ("2", "left"), ("3", "right"), ("6", "tip")]


def test_entries_are_those_of_the_file_or_what_came_after_one(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one")
    known = entries(pi)
    assert known == lines(file_of(pi))[1:]
    assert pi.ask("get_entries", since=known[-1]["id"]) == {"entries": [], "leafId": known[-1]["id"]}

    pi.say("two")

    news = pi.ask("get_entries", since=known[-1]["id"])
    assert [each["message"]["role"] for each in news["entries"]] == ["user", "assistant"]
    assert news["leafId"] == news["entries"][-1]["id"]
    assert entries(pi) == known + news["entries"]
    assert refused(pi, "get_entries", since="nobody") == ("entry_not_found", "Entry not found: nobody")


def test_the_tree_has_every_branch_and_its_labels(agent: AgentStarter) -> None:
    pi = agent([], has_session=True)
    pi.ask("switch_session", sessionPath=str(branched(pi)))

    tree = pi.ask("get_tree")

    (root,) = tree["tree"]
    left, right = root["children"]
    assert (root["entry"]["id"], root["label"], tree["leafId"]) == ("00000001", "start", "00000006")
    assert (left["entry"]["id"], left["children"]) == ("00000002", [])
    tip = right["children"][0]["children"][0]["children"][0]
    assert (right["entry"]["id"], tip["entry"]["id"], tip["children"]) == ("00000003", "00000006", [])


def test_totals_count_every_branch_and_survive_a_restart(agent: AgentStarter) -> None:
    usage = {"input": 100, "output": 7}
    pi = agent([{"text": "more", "usage": usage, "repeat": -1}], has_session=True)
    pi.say("one", "two")
    stats = pi.ask("get_session_stats")
    assert (stats["userMessages"], stats["assistantMessages"], stats["totalMessages"]) == (2, 2, 4)
    assert stats["session"]["tokens"] == stats["tokens"] == {
        "input": 200, "output": 14, "cacheRead": 0, "cacheWrite": 0, "total": 214,
    }  # fmt: skip
    path, first = file_of(pi), next(each for each in entries(pi) if each["type"] == "message")
    end(pi)
    # Another branch, as the original's tree navigation leaves one.
    answer = next(json.loads(line) for line in path.read_text().splitlines() if '"assistant"' in line)
    aside = {**answer, "id": "aaaaaaaa", "parentId": first["id"]}
    path.write_bytes(path.read_bytes() + json.dumps(aside).encode() + b"\n")

    resumed = agent((), "--session", str(path), again=pi)

    stats = resumed.ask("get_session_stats")
    assert (stats["totalMessages"], stats["tokens"]["total"]) == (2, 107)
    assert stats["session"]["tokens"]["total"] == 321
    assert stats["session"]["cost"] == pytest.approx(3 * answer["message"]["usage"]["cost"]["total"])
    assert stats["sessionFile"] == str(path)


def test_a_resumed_session_returns_the_messages_that_it_returned_before(agent: AgentStarter) -> None:
    pi = agent([TOOL, {"reasoning": "hm", "text": "é\u2028\U0001f600"}, MORE], has_session=True)
    pi.say("one", "two")
    pi.ask("bash", command="echo shell")
    known = [pi.ask(read) for read in ("get_messages", "get_entries", "get_tree", "get_fork_messages")]
    stats, path = pi.ask("get_session_stats"), file_of(pi)
    end(pi)

    resumed = agent((), "--session", str(path), again=pi)

    assert [resumed.ask(read) for read in ("get_messages", "get_entries", "get_tree", "get_fork_messages")] == known
    assert resumed.ask("get_session_stats") == stats
    resumed.say("three")
    assert "from the tool" in pi.llm.requests[-1].text
    assert validate_session(path.read_bytes()) == []


# set_session_name


def test_a_name_is_one_line_without_control_characters(agent: AgentStarter) -> None:
    pi = agent([], has_session=True)
    names = {
        "  plain  ": "plain",
        "two\r\nlines\tand\u2028more": "two lines and more",
        "\x1b]0;title\x07bell": "]0;titlebell",
        "\x9b31mred": "31mred",
    }

    for given, kept in names.items():
        pi.ask("set_session_name", name=given)

        assert pi.found({"type": "session_info_changed"})[-1]["name"] == kept
        assert pi.ask("get_state")["sessionName"] == kept
        assert lines(file_of(pi))[-1]["name"] == kept


def test_l7_a_name_alone_is_kept_and_the_last_one_counts(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.ask("set_session_name", name="first")
    pi.ask("set_session_name", name="second")
    end(pi)

    resumed = agent((), "--continue", again=pi)

    assert resumed.ask("get_state")["sessionName"] == "second"
    resumed.say("one")
    assert [line.get("name") for line in lines(file_of(resumed)) if line["type"] == "session_info"] == [
        "first",
        "second",
    ]


@KEEPING
def test_a_name_of_nothing_is_refused(agent: AgentStarter, has_session: bool) -> None:
    pi = agent([], has_session=has_session)
    pi.ask("set_session_name", name="former")
    before = everything(pi)

    for name in ("", "  ", "\n\t", "\x1b\x07\x9b"):
        assert refused(pi, "set_session_name", name=name)[1] == "Session name cannot be empty"

    assert everything(pi) == before


# Refusals.


def no_sessions(folder: Path) -> dict[Path, str]:
    """Put things into a folder that are no session; return how each is refused."""
    notes, data, pipe, other, dangling = (
        folder / f"{name}.jsonl" for name in ("notes", "data", "pipe", "folder", "dangling")
    )
    notes.write_text("These are my notes.\nThey are no session.\n")
    data.write_text('{"type": "row", "id": "1", "value": 1}\n{"type": "row", "value": 2}\n')
    os.mkfifo(pipe)
    other.mkdir()
    dangling.symlink_to(folder / "nothing")
    missing = dict.fromkeys((dangling, folder / "missing.jsonl", notes / "below.jsonl"), "session_not_found")
    return missing | dict.fromkeys((notes, data, pipe, other), "session_unavailable")


@KEEPING
def test_a_switch_to_a_file_that_is_no_session_changes_nothing(agent: AgentStarter, has_session: bool) -> None:
    pi = agent([MORE], has_session=has_session)
    pi.say("one")
    paths = no_sessions(pi.home.sessions)
    listed, before = sorted(os.listdir(pi.home.sessions)), everything(pi)

    for path, code in paths.items():
        told, error = refused(pi, "switch_session", sessionPath=str(path))
        assert (told, str(path) in error) == (code, True)

    assert everything(pi) == before
    assert sorted(os.listdir(pi.home.sessions)) == listed
    pi.say("two")
    assert texts(pi) == ["one", "more", "two", "more"]


def test_a_switch_to_an_impossible_path_is_rejected(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("one")
    before = everything(pi)

    for path in ("", "a\0b", "x" * 5000, "~nobody-of-this-name/x"):
        assert refused(pi, "switch_session", sessionPath=path)[0] in {"session_not_found", "session_unavailable"}

    assert everything(pi) == before


@KEEPING
def test_a_fork_or_branch_of_an_entry_that_is_no_prompt_changes_nothing(agent: AgentStarter, has_session: bool) -> None:
    pi = agent([MORE], has_session=has_session)
    pi.say("one")
    known, before = entries(pi), everything(pi)
    wrong = [each for each in known if each["type"] != "message" or each["message"]["role"] != "user"]
    assert len(wrong) == len(known) - 1

    for entry_id in ("", "nobody", *(each["id"] for each in wrong)):
        assert refused(pi, "fork", entryId=entry_id) == ("entry_not_found", "Invalid entry ID for forking")
    for index in (-1, len(known), *(known.index(each) for each in wrong)):
        assert refused(pi, "branch", entryIndex=index) == ("entry_not_found", "Invalid entry ID for forking")

    assert everything(pi) == before


@KEEPING
def test_nothing_can_not_be_cloned(agent: AgentStarter, has_session: bool) -> None:
    pi = agent([], has_session=has_session)
    before = everything(pi)

    code, error = refused(pi, "clone")

    assert (code, error) == ("entry_not_found", "Cannot clone session: no current entry selected")
    assert everything(pi) == before
