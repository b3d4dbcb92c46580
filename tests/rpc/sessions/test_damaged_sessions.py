"""A session that the program has written, damaged in every way: nothing that can still be read is lost or hidden.

All positions through the library, a sample and the rows of known losses through the whole program. R-SES-07.
"""

import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import Library, OpenedSession
from pinnace_agent.session.store.lease import Lease
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.session_verdict import branch_messages, entries_of, find_damage, find_request_faults
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.records.messages import UserMessage
from pinnace_spec.wire.json_text import encode_record

CALLS = [{"name": "bash", "args": {"command": "echo out"}}, {"name": "read", "args": {"path": "missing"}}]
SCRIPT: list[Scripted] = [
    {"text": "first answer"},
    {"text": "with tools", "tool_calls": CALLS},
    {"text": "after the tools"},
    {"text": "third answer \u00e4\u20ac\U0001f600"},
    {"tool_calls": [{"name": "write", "args": {"path": "new", "content": "x"}}]},
    {"text": "the end"},
]
NEW = "after the damage"
FOREIGN_ID = "f0f0f0f0"
# Opened, written to and read again takes milliseconds; cycles used to take forever.
PROMPT_S = 60.0


class Made(NamedTuple):
    """A session as the program has left it."""

    path: Path
    data: bytes

    @property
    def lines(self) -> list[bytes]:
        """All lines with their line feeds, the header first."""
        return self.data.splitlines(keepends=True)

    @property
    def entries(self) -> list[Record]:
        return entries_of(self.data)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, module_agent: AgentStarter) -> Made:
    """A session with tools, a name, a shell's result, and a fork point: another program has written to it."""
    pi = module_agent(SCRIPT, has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    prompt(pi, "two, with tools")
    fork_point = entries_of(path.read_bytes())[-1]["parentId"]
    message = {"role": "user", "content": [{"type": "text", "text": "from elsewhere"}], "timestamp": 5}
    foreign = {"type": "message", "id": FOREIGN_ID, "parentId": fork_point, "timestamp": "2026-01-02T03:04:05.678Z"}
    with path.open("ab") as file:
        file.write(encode_record({**foreign, "message": message}))
    prompt(pi, "three")
    pi.request({"type": "set_session_name", "name": "the name"})
    pi.request({"type": "bash", "command": "echo direct"})
    prompt(pi, "four")
    pi.check_end()
    data = path.read_bytes()
    assert [] == find_damage(data, may_be_torn=False)
    assert len(data.splitlines()) == 19
    return Made(path, data)


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes session files, each in a folder of its own, so that what the program puts beside one is seen."""
    return writer(tmp_path)


@pytest.fixture
def in_memory() -> Iterator[Callable[[bytes], Path]]:
    """The same where fsync costs nothing, if there is such a place: for thousands of files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield writer(Path(folder))


def writer(root: Path) -> Callable[[bytes], Path]:
    folders = (root / f"damaged-{number}" for number in itertools.count())

    def write(data: bytes) -> Path:
        folder = next(folders)
        folder.mkdir()
        path = folder / "session.jsonl"
        path.write_bytes(data)
        return path

    return write


def session_file(pi: HomedAgent) -> Path:
    return Path(pi.request({"type": "get_state"})["data"]["sessionFile"])


def prompt(pi: HomedAgent, text: str) -> None:
    assert pi.request({"type": "prompt", "message": text})["success"]
    pi.wait({"type": "agent_settled"}, timeout_s=PROMPT_S)


def status(pi: HomedAgent) -> dict[str, Any]:
    found: dict[str, Any] = pi.request({"type": "get_state"})["data"]["sessionStatus"]
    return found


def ids(entries: Sequence[Any]) -> list[object]:
    return [entry["id"] for entry in entries]


def side_copy(path: Path) -> list[bytes]:
    side = path.with_name(f"{path.name}.damaged")
    return side.read_bytes().split(b"\n")[:-1] if side.exists() else []


# All positions, through the library.


def open_session(path: Path) -> OpenedSession:
    return Library(None).open(path, str(path.parent), Lease.take(path))


def close(session: Session) -> None:
    assert session.file is not None
    session.file.abandon()


def say(session: Session) -> None:
    message: UserMessage = {"role": "user", "content": [{"type": "text", "text": NEW}], "timestamp": 7}
    session.accept(message, "m")


def is_within(part: Sequence[object], whole: Sequence[object]) -> bool:
    """Tell whether everything is there, in this order."""
    rest = iter(whole)
    return all(each in rest for each in part)


def check(path: Path, data: bytes, wanted: Sequence[object], damage: Sequence[bytes]) -> list[Any]:
    """Open, append, and open again; return the context that was found at first.

    Args:
        path: The file.
        data: What is in it.
        wanted: The ids of the entries that can be read.
        damage: The lines that can't.
    """
    session = open_session(path).session
    found = list(session.messages)
    assert wanted == ids(session.tree.entries)
    assert path.read_bytes() == data
    assert list(damage) == side_copy(path)

    say(session)
    close(session)
    after = path.read_bytes()
    lead = b"" if data.endswith(b"\n") else b"\n"
    assert after.startswith(data + lead + b'{"type":')
    again = open_session(path).session
    assert wanted == ids(again.tree.entries)[: len(wanted)]
    assert [*found, session.messages[-1]] == again.messages
    close(again)
    assert list(damage) == side_copy(path)
    return found


def test_l2_a_session_cut_at_any_byte_of_its_last_entries_keeps_all_that_is_whole(
    made: Made, in_memory: Callable[[bytes], Path]
) -> None:
    begin = len(made.data) - sum(map(len, made.lines[-3:]))
    for size in range(begin, len(made.data) + 1):
        data = made.data[:size]
        lines = data.split(b"\n")
        # A line is whole without its line feed.
        is_whole = lines[-1] == b"" or lines[-1] + b"\n" in made.lines
        wanted = ids(made.entries[: len(lines) - (1 if is_whole and lines[-1] else 2)])
        found = check(in_memory(data), data, wanted, [] if is_whole else [lines[-1]])

        expected = branch_messages(data)
        assert expected == found, size


def garbage(line: bytes) -> list[bytes]:
    return [b"\xff\x00 no json {" + line[40:60].replace(b'"', b"'")]


def zeros(line: bytes) -> list[bytes]:
    return [b"\0" * (len(line) - 1)]


def first_half(line: bytes) -> list[bytes]:
    return [line[: len(line) // 2]]


def second_half(line: bytes) -> list[bytes]:
    return [line[len(line) // 2 : -1]]


DAMAGES = [garbage, zeros, first_half, second_half]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda function: function.__name__)
def test_l3_any_line_that_is_damaged_hides_no_other(
    made: Made, in_memory: Callable[[bytes], Path], damage: Callable[[bytes], list[bytes]]
) -> None:
    context = branch_messages(made.data)
    for number in range(1, len(made.lines)):
        broken = damage(made.lines[number])
        data = b"".join([*made.lines[:number], *(line + b"\n" for line in broken), *made.lines[number + 1 :]])
        lost = made.entries[number - 1]
        others = ids([*made.entries[: number - 1], *made.entries[number:]])
        found = check(in_memory(data), data, others, broken)

        wanted = [message for message in context if message != lost.get("message")]
        if made.entries[number - 2]["id"] == FOREIGN_ID:
            # What follows could hang from either branch, and hangs from the one that was written last; all entries are
            # there, as checked, but the context lacks what is between the fork point and the damage.
            wanted.remove(made.entries[number - 3]["message"])
        assert is_within(wanted, found), number


def test_l3_a_line_that_is_there_twice_changes_nothing(made: Made, in_memory: Callable[[bytes], Path]) -> None:
    for number in range(1, len(made.lines)):
        data = b"".join([*made.lines[: number + 1], *made.lines[number:]])
        wanted = ids([*made.entries[:number], *made.entries[number - 1 :]])
        if number == len(made.lines) - 1:
            wanted = ids(made.entries) + ids(made.entries[-1:])

        assert branch_messages(made.data) == check(in_memory(data), data, wanted, [])


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda function: function.__name__)
def test_l1_all_entries_are_there_without_their_header(
    made: Made, in_memory: Callable[[bytes], Path], damage: Callable[[bytes], list[bytes]]
) -> None:
    data = b"".join([*(line + b"\n" for line in damage(made.lines[0])), *made.lines[1:]])
    path = in_memory(data)
    session = open_session(path).session

    assert ids(made.entries) == ids(session.tree.entries)
    assert branch_messages(made.data) == session.messages
    assert session.problem is not None
    close(session)
    assert path.read_bytes() == data
    assert [path.name] == [each.name for each in path.parent.iterdir()]


# The whole program.


class Opening(NamedTuple):
    """A damaged file and what is to be told of it."""

    data: bytes
    status: Mapping[str, object]
    damage: list[bytes]


def samples(made: Made) -> Iterator[tuple[str, Opening]]:
    lines, data = made.lines, made.data
    last = lines[-1]
    for part in (1, len(last) // 2, len(last) - 2):
        cut = last[:part]
        told = {"damagedLines": 1, "tornTail": True}
        yield f"cut after {part}", Opening(data[: len(data) - len(last) + part], told, [cut])
    yield "without its line feed", Opening(data[:-1], {"tornTail": True}, [])
    for number, damage in [(1, garbage), (5, zeros), (7, first_half), (12, second_half)]:
        broken = damage(lines[number])
        rest = [*lines[:number], *(line + b"\n" for line in broken), *lines[number + 1 :]]
        told = {"damagedLines": 1, "orphans": 1}
        yield f"{damage.__name__} in line {number + 1}", Opening(b"".join(rest), told, broken)
    everything = b"".join(garbage(line)[0] + b"\n" if number % 2 else line for number, line in enumerate(lines))
    damage_count = len(lines) // 2
    yield (
        "every other line",
        Opening(everything, {"damagedLines": damage_count}, [garbage(line)[0] for line in lines[1::2]]),
    )


def test_a_damaged_session_is_continued(made: Made, damaged: Callable[[bytes], Path], agent: AgentStarter) -> None:
    for name, sample in samples(made):
        path = damaged(sample.data)
        pi = agent([{"text": "fine"}], "--session", str(path), has_session=True)
        told = status(pi)
        assert told.items() >= {"saved": True, **sample.status}.items(), name
        assert path.read_bytes() == sample.data, name
        assert [] == [line for line in sample.damage if line not in side_copy(path)], name
        if sample.damage:
            assert told["damagedCopy"] == f"{path}.damaged"
            assert "damaged" in pi.stderr_text, name

        before = pi.request({"type": "get_messages"})["data"]["messages"]
        prompt(pi, NEW)
        assert [] == find_request_faults(pi.llm.requests[0].body), name
        pi.check_end()
        after = path.read_bytes()
        lead = b"" if sample.data.endswith(b"\n") else b"\n"
        assert after.startswith(sample.data + lead + b'{"type":'), name

        again = agent((), "--session", str(path), has_session=True)
        assert before == again.request({"type": "get_messages"})["data"]["messages"][: len(before)], name


def test_l1_a_session_without_its_header_is_only_read_and_can_be_copied(
    made: Made, damaged: Callable[[bytes], Path], agent: AgentStarter
) -> None:
    data = b"{no header\n" + b"".join(made.lines[1:])
    path = damaged(data)
    pi = agent((), "--session", str(path), has_session=True)
    refused = pi.request({"type": "prompt", "message": NEW})
    assert ("session_not_saved", 0) == (refused["errorCode"], len(pi.llm.requests))
    assert "damaged" in refused["error"]
    assert "--fork" in refused["error"]
    assert branch_messages(made.data) == pi.request({"type": "get_messages"})["data"]["messages"]
    pi.check_end()
    assert path.read_bytes() == data

    copy = agent([{"text": "fine"}], "--fork", str(path), has_session=True)
    prompt(copy, NEW)
    written = session_file(copy).read_bytes()
    assert [] == find_damage(written, may_be_torn=False)
    assert made.lines[1:] == written.splitlines(keepends=True)[1 : len(made.lines)]
    assert path.read_bytes() == data


def test_l1_a_file_that_is_no_session_is_refused_and_stays(
    damaged: Callable[[bytes], Path], agent: AgentStarter
) -> None:
    data = b"dear diary\n" * 100
    path = damaged(data)
    pi = agent((), "--session", str(path), has_session=True, is_checked=False)

    assert pi.wait_exit() == 1
    assert "Not a session file" in pi.stderr_text
    assert path.read_bytes() == data


# Older and newer formats.


def version_1(made: Made) -> bytes:
    header = json.loads(made.lines[0])
    del header["version"]
    chain = [entry for entry in made.entries if entry["id"] != FOREIGN_ID]
    old = [{name: value for name, value in entry.items() if name not in {"id", "parentId"}} for entry in chain]
    return b"".join(map(encode_record, [header, *old]))


def version_2(made: Made) -> bytes:
    return b"".join([encode_record({**json.loads(made.lines[0]), "version": 2}), *made.lines[1:]])


@pytest.mark.parametrize("older", [version_1, version_2], ids=lambda function: function.__name__)
def test_an_older_format_is_migrated_beside_a_copy(
    made: Made, damaged: Callable[[bytes], Path], agent: AgentStarter, older: Callable[[Made], bytes]
) -> None:
    """Damaged lines of it are in two places afterwards: the copy of the whole, and the side file."""
    lines = older(made).splitlines(keepends=True)
    data = b"".join([*lines[:3], b"{damaged\n", *lines[3:]])
    path = damaged(data)
    pi = agent([{"text": "fine"}], "--session", str(path), has_session=True)

    assert branch_messages(made.data) == pi.request({"type": "get_messages"})["data"]["messages"]
    assert path.with_name(f"{path.name}.bak").read_bytes() == data
    assert [b"{damaged"] == side_copy(path)
    assert [] == find_damage(path.read_bytes(), may_be_torn=False)
    prompt(pi, NEW)
    pi.check_end()

    assert [] == find_damage(path.read_bytes(), may_be_torn=False)
    again = agent((), "--session", str(path), has_session=True)
    assert status(again) == {"saved": True}
    assert not path.with_name(f"{path.name}.bak.2").exists()


def test_a_message_of_an_extension_keeps_its_meaning(damaged: Callable[[bytes], Path], agent: AgentStarter) -> None:
    time_text = "2026-01-02T03:04:05.678Z"
    message = {"role": "hookMessage", "customType": "x", "content": "from a hook", "display": True, "timestamp": 5}
    header = {"type": "session", "version": 2, "id": "s-2", "timestamp": time_text, "cwd": ""}
    entry = {"type": "message", "id": "a", "parentId": None, "timestamp": time_text, "message": message}
    path = damaged(encode_record(header) + encode_record(entry))
    pi = agent([{"text": "fine"}], "--session", str(path), has_session=True)
    prompt(pi, NEW)

    assert "custom" == entries_of(path.read_bytes())[0]["message"]["role"]
    assert "from a hook" in pi.llm.requests[0].text


def test_a_newer_format_is_only_read_and_can_be_copied(
    made: Made, damaged: Callable[[bytes], Path], agent: AgentStarter
) -> None:
    data = b"".join([encode_record({**json.loads(made.lines[0]), "version": 4}), *made.lines[1:]])
    path = damaged(data)
    pi = agent((), "--session", str(path), has_session=True)
    refused = pi.request({"type": "prompt", "message": NEW})
    named = pi.request({"type": "set_session_name", "name": "N"})
    assert ["session_not_saved"] * 2 == [each["errorCode"] for each in (refused, named)]
    assert "version 4" in refused["error"]
    assert (False, []) == (status(pi)["saved"], pi.llm.requests)
    pi.check_end()
    assert path.read_bytes() == data

    copy = agent([{"text": "fine"}], "--fork", str(path), has_session=True)
    prompt(copy, NEW)
    assert "third answer" in copy.llm.requests[0].text
    assert path.read_bytes() == data


# Rows about what is appended when, and what hangs from what.


def test_the_result_of_a_shell_during_a_run_is_on_the_disk_when_it_is_answered(
    agent: AgentStarter, gates: Callable[[], ShellGate]
) -> None:
    gate = gates()
    call = {"name": "bash", "args": {"command": gate.reading}}
    pi = agent([{"tool_calls": [call]}, {"text": "fine"}], has_session=True)
    pi.request({"type": "prompt", "message": "go"})
    gate.wait_reached()
    assert pi.request({"type": "bash", "command": "echo said"})["success"]
    pi.kill()

    again = agent((), "--continue", again=pi)
    messages = again.request({"type": "get_messages"})["data"]["messages"]
    assert ["said\n"] == [message["output"] for message in messages if message["role"] == "bashExecution"]
    prompt(again, NEW)
    assert [] == find_request_faults(again.llm.requests[-1].body)
    assert "said" in again.llm.requests[-1].text


def test_parents_in_a_circle_end_and_hide_nothing(
    made: Made, damaged: Callable[[bytes], Path], agent: AgentStarter
) -> None:
    entries = [dict(entry) for entry in made.entries]
    entries[3]["parentId"] = entries[9]["id"]
    entries[14]["parentId"] = entries[14]["id"]
    data = made.lines[0] + b"".join(map(encode_record, entries))
    path = damaged(data)
    pi = agent([{"text": "fine"}], "--session", str(path), has_session=True)

    assert ids(entries) == ids(pi.request({"type": "get_entries"})["data"]["entries"])
    tree = pi.request({"type": "get_tree"})["data"]["tree"]
    reached: list[object] = []
    while tree:
        node = tree.pop()
        reached.append(node["entry"]["id"])
        tree += node["children"]
    assert sorted(map(str, ids(entries))) == sorted(map(str, reached))
    assert 2 == status(pi)["orphans"]
    begun_s = time.monotonic()
    prompt(pi, NEW)
    assert time.monotonic() - begun_s < PROMPT_S
    assert is_within(branch_messages(made.data), pi.request({"type": "get_messages"})["data"]["messages"])


def labelled(made: Made) -> bytes:
    """The session with labels between its entries, as other programs write them: the chain goes through them."""
    lines, parent = [made.lines[0]], None
    chain = [entry for entry in made.entries if entry["id"] != FOREIGN_ID]
    for number, entry in enumerate(chain):
        lines.append(encode_record({**entry, "parentId": parent}))
        parent = entry["id"]
        if number % 3 == 1:
            label = {"type": "label", "id": f"label-{number}", "parentId": parent, "timestamp": entry["timestamp"]}
            lines.append(encode_record({**label, "targetId": parent, "label": f"mark {number}"}))
            parent = f"label-{number}"
    return b"".join(lines)


@pytest.mark.parametrize("command", ["clone", "fork"])
def test_a_copy_has_everything_behind_labels(
    made: Made, damaged: Callable[[bytes], Path], agent: AgentStarter, command: str
) -> None:
    path = damaged(labelled(made))
    pi = agent([{"text": "fine"}], "--session", str(path), has_session=True)
    expected = pi.request({"type": "get_messages"})["data"]["messages"]
    assert branch_messages(made.data) == expected
    texts = pi.request({"type": "get_fork_messages"})["data"]["messages"]
    if command == "fork":
        assert pi.request({"type": "fork", "entryId": texts[-1]["entryId"]})["data"]["text"] == "four"
        place = next(number for number, message in enumerate(expected) if "four" in json.dumps(message))
        expected = expected[:place]
    else:
        assert pi.request({"type": "clone"})["success"]
    copy = session_file(pi)

    assert copy != path
    assert [] == find_damage(copy.read_bytes(), may_be_torn=False)
    assert expected == branch_messages(copy.read_bytes())
    assert expected == pi.request({"type": "get_messages"})["data"]["messages"]
    marks = [entry["label"] for entry in entries_of(copy.read_bytes()) if entry["type"] == "label"]
    assert marks
    assert [f"mark {3 * number + 1}" for number in range(len(marks))] == marks
    assert path.read_bytes() == labelled(made)
