"""One session, two programs: what the original wrote goes on here, and what was written here goes on there.

Both agents live in one home and work on the same files, one after the other. What counts as the same is what both tell
over their protocol; the original's messages of role `system`, which no other generation has, are left out. The tests
with the original need its release 1.5.2; a file that it wrote is kept in `tests/data`, so that opening one is tried
without it as well. Rules R-SES-03, R-SES-07.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

import pytest
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import HomedAgent
from pinnace_spec.session_format import validate_session

PEER, SLOW = pytest.mark.peer, pytest.mark.slow
BOTH_WAYS = pytest.mark.parametrize(("writer", "reader"), [("theirs", "ours"), ("ours", "theirs")])

OURS = (sys.executable, "-P", "-m", "pinnace_rpc")
RECORDED = REPOSITORY / "tests" / "data" / "session-of-pi-1.5.2.jsonl"
TOOL = {"tool_calls": [{"name": "bash", "args": {"command": "echo from the tool"}}]}
THOUGHT = {"reasoning": "hm", "text": "thought é\u2028\U0001f600"}
MORE = {"text": "more", "repeat": -1}
# A picture that is one, since the original looks at it.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# With these flags the recorded session was made. In it, its folder is another, and the tool has no descriptions.
RECORDING = ("--system-prompt", "Be brief.", "--tools", "bash")
SETTLED = {"type": "agent_settled"}


class Pair:
    """A home in which ours and the original are started."""

    def __init__(self, home: PreparedHome, llm: FakeLlm, original: Sequence[str], stack: ExitStack) -> None:
        self.home = home
        self._llm = llm
        self._original = original
        self._stack = stack

    def ours(self, *flags: str) -> HomedAgent:
        """Start our agent."""
        return self._start([*OURS, *self.home.arguments, *flags], is_specified=True)

    def theirs(self, *flags: str) -> HomedAgent:
        """Start the original."""
        return self._start([*self._original, *self.home.arguments, *flags], is_specified=False)

    def either(self, name: str, *flags: str) -> HomedAgent:
        return self.ours(*flags) if name == "ours" else self.theirs(*flags)

    def _start(self, command: Sequence[str], *, is_specified: bool) -> HomedAgent:
        pi = HomedAgent(command, self.home, self._llm, profile="pi" if is_specified else None)
        return self._stack.enter_context(pi)


MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]


def make_pair(llm: MakeLlm, root: Path, original: Sequence[str], stack: ExitStack) -> Pair:
    model = llm([TOOL, THOUGHT, MORE])
    # The original can only make pictures smaller with a library that its release brings for some systems.
    settings = {"images": {"autoResize": False}}
    home = prepare_pi_home(
        root / "home", model.base_url, env={"PYTHONPATH": PYTHONPATH}, settings=settings, has_session=True
    )
    return Pair(home, model, original, stack)


@pytest.fixture
def pair(original_pi: list[str], llm: MakeLlm, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield make_pair(llm, tmp_path, original_pi, stack)


@pytest.fixture
def alone(llm: MakeLlm, tmp_path: Path) -> Iterator[Pair]:
    """The same without the original."""
    with ExitStack() as stack:
        yield make_pair(llm, tmp_path, (), stack)


def end(pi: HomedAgent) -> None:
    """End an agent in order, with every check that a run gets."""
    pi.check_end()


def file_of(pi: HomedAgent) -> Path:
    return Path(pi.ask("get_state")["sessionFile"])


def converse(pi: HomedAgent) -> Path:
    """Do everything that leaves something in a session; return its file."""
    pi.say("run a tool")
    pi.ask("set_session_name", name="  a\nname ")
    pi.ask("set_model", provider="fake", modelId="m2")
    pi.ask("set_thinking_level", level="high")
    pi.say("think")
    pi.ask("bash", command="echo shell; exit 3")
    pi.ask("bash", command="echo aside", excludeFromContext=True)
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    pi.ask("set_model", provider="fake", modelId="m1")
    mark = pi.mark()
    pi.ask("prompt", message="look", images=[image])
    pi.wait(SETTLED, since=mark)
    return file_of(pi)


def told(pi: HomedAgent) -> Record:
    """Return what both programs tell of a session in the same words."""
    messages = [each for each in pi.ask("get_messages")["messages"] if each["role"] != "system"]
    return {
        "messages": messages,
        "prompts": pi.ask("get_fork_messages")["messages"],
        "id": pi.ask("get_state")["sessionId"],
        "name": pi.ask("get_state").get("sessionName"),
        "entries": [_shown(each) for each in entries(pi)],
    }


def written(pair: Pair, writer: str) -> tuple[Path, Record, bytes]:
    """Let a writer make a session; return its file, what the writer reports of it, and the bytes."""
    pi = pair.either(writer)
    path, known = converse(pi), told(pi)
    end(pi)
    return path, known, path.read_bytes()


def entries(pi: HomedAgent) -> list[Record]:
    return list(pi.ask("get_entries")["entries"])


def _shown(entry: Record) -> Record:
    return {name: value for name, value in entry.items() if name != "message"}


def valid(*paths: Path) -> None:
    """Check that files are as session files have to be."""
    for path in paths:
        assert validate_session(path.read_bytes()) == []


def label(path: Path, target: str, words: str) -> None:
    """Set a label, as extensions of the original do."""
    last = json.loads(path.read_bytes().splitlines()[-1])
    row = {
        "type": "label",
        "id": f"{crc32(words.encode()):08x}",
        "parentId": last["id"],
        "timestamp": last["timestamp"],
    }
    with path.open("ab") as file:
        file.write(json.dumps({**row, "targetId": target, "label": words}).encode() + b"\n")


def labels(pi: HomedAgent) -> dict[str, str]:
    """Return the labels by entry, from the whole tree."""
    found: dict[str, str] = {}
    waiting = list(pi.ask("get_tree")["tree"])
    while waiting:
        node = waiting.pop()
        waiting += node["children"]
        if "label" in node:
            found[node["entry"]["id"]] = node["label"]
    return found


@PEER
@SLOW
@BOTH_WAYS
def test_a_session_is_the_same_to_its_reader(pair: Pair, writer: str, reader: str) -> None:
    path, known, before = written(pair, writer)

    pi = pair.either(reader, "--session", str(path))

    assert _beginning(told(pi), known) == known
    end(pi)
    assert path.read_bytes()[: len(before)] == before
    valid(path)


@PEER
@SLOW
@BOTH_WAYS
def test_a_fork_and_a_clone_are_the_same_to_their_reader(pair: Pair, writer: str, reader: str) -> None:
    pi = pair.either(writer)
    converse(pi)
    prompts = pi.ask("get_fork_messages")["messages"]
    assert pi.ask("fork", entryId=prompts[1]["entryId"])["text"] == "think"
    pi.say("forked")
    fork, forked = file_of(pi), told(pi)
    pi.ask("clone")
    pi.say("cloned")
    clone, cloned = file_of(pi), told(pi)
    end(pi)

    pi = pair.either(reader, "--session", str(fork))
    assert _beginning(told(pi), forked) == forked
    pi.ask("switch_session", sessionPath=str(clone))
    assert _beginning(told(pi), cloned) == cloned
    end(pi)
    valid(fork, clone)


@PEER
@SLOW
@BOTH_WAYS
def test_a_reader_can_fork_and_clone_too(pair: Pair, writer: str, reader: str) -> None:
    path, known, before = written(pair, writer)
    pi = pair.either(reader, "--session", str(path))

    pi.ask("clone")
    assert _messages(pi) == known["messages"]
    clone = file_of(pi)
    prompts = pi.ask("get_fork_messages")["messages"]
    assert prompts == known["prompts"]
    pi.ask("fork", entryId=prompts[2]["entryId"])
    pi.say("other")
    fork, forked = file_of(pi), _messages(pi)
    end(pi)

    pi = pair.either(writer, "--session", str(fork))
    assert _messages(pi) == forked
    pi.ask("switch_session", sessionPath=str(clone))
    assert _messages(pi) == known["messages"]
    end(pi)
    assert path.read_bytes()[: len(before)] == before
    valid(path, clone, fork)


@PEER
@SLOW
@BOTH_WAYS
def test_labels_and_a_cleared_label_are_read_alike(pair: Pair, writer: str, reader: str) -> None:
    pi = pair.either(writer)
    path = converse(pi)
    prompts = [each["entryId"] for each in pi.ask("get_fork_messages")["messages"]]
    end(pi)
    for target, words in zip(prompts, ("start", "middle", "end"), strict=True):
        label(path, target, words)
    label(path, prompts[1], "")
    pi = pair.either(writer, "--session", str(path))
    known = labels(pi)
    assert known == {prompts[0]: "start", prompts[2]: "end"}
    pi.say("behind labels")
    messages = _messages(pi)
    end(pi)

    pi = pair.either(reader, "--session", str(path))

    assert (labels(pi), _messages(pi)) == (known, messages)
    pi.ask("clone")
    assert (labels(pi), _messages(pi)) == (known, messages)
    end(pi)


def _messages(pi: HomedAgent) -> object:
    return told(pi)["messages"]


def _beginning(now: Record, known: Record) -> Record:
    """Leave out entries that a program appends when it opens a session; anything else must be as it was."""
    return {**now, "entries": now["entries"][: len(known["entries"])]}


@PEER
@SLOW
def test_a_session_goes_back_and_forth_and_nothing_is_lost(pair: Pair) -> None:
    path: Path | None = None
    messages: list[Record] = []
    before = b""
    for turn in range(6):
        flags = () if path is None else ("--session", str(path))
        pi = pair.either(("ours", "theirs")[turn % 2], *flags)
        now = pi.ask("get_messages")["messages"]
        assert [each for each in now if each["role"] != "system"] == messages
        pi.say(f"turn {turn}")
        pi.ask("bash", command=f"echo shell {turn}")
        pi.ask("set_session_name", name=f"after {turn}")
        messages = [each for each in pi.ask("get_messages")["messages"] if each["role"] != "system"]
        path = file_of(pi)
        end(pi)
        # Only appended to, by either.
        content = path.read_bytes()
        assert content[: len(before)] == before
        before = content
        valid(path)

    prompts = [each["content"][0]["text"] for each in messages if each["role"] == "user"]
    assert prompts == [f"turn {turn}" for turn in range(6)]
    assert [each["output"] for each in messages if each["role"] == "bashExecution"] == [
        f"shell {turn}\n" for turn in range(6)
    ]
    assert len(list(pair.home.sessions.glob("*.jsonl"))) == 1


@PEER
@SLOW
def test_each_continues_the_newest_session_of_the_other(pair: Pair) -> None:
    pi = pair.theirs()
    path = converse(pi)
    end(pi)
    pi = pair.ours("--continue")
    pi.say("here")
    assert file_of(pi) == path
    end(pi)

    pi = pair.theirs("--continue")

    assert file_of(pi) == path
    assert pi.ask("get_fork_messages")["messages"][-1]["text"] == "here"
    end(pi)


@PEER
@SLOW
def test_both_have_one_place_for_the_sessions_of_a_folder(pair: Pair) -> None:
    pair.home = pair.home._replace(arguments=["--mode", "rpc", "--provider", "fake", "--model", "m1"])
    paths: list[Path] = []
    for name in ("theirs", "ours"):
        pi = pair.either(name)
        pi.say("one")
        paths.append(file_of(pi))
        end(pi)

    assert paths[0].parent == paths[1].parent
    for name in ("theirs", "ours"):
        pi = pair.either(name, "--continue")
        assert file_of(pi) == paths[1]
        end(pi)


def test_a_recorded_session_of_the_original_is_continued(alone: Pair) -> None:
    rows = [json.loads(line) for line in RECORDED.read_bytes().splitlines()]
    path = alone.home.sessions / "recorded.jsonl"
    path.write_bytes(RECORDED.read_bytes())
    messages = [row["message"] for row in rows if row["type"] == "message" and row["message"]["role"] != "system"]
    assert PIXEL in str(messages)
    assert {each["role"] for each in messages} == {"user", "assistant", "toolResult", "bashExecution"}

    pi = alone.ours("--session", str(path))

    assert pi.ask("get_messages")["messages"] == messages
    assert entries(pi) == rows[1:]
    assert [each["text"] for each in pi.ask("get_fork_messages")["messages"]] == ["run a tool", "think", "look"]
    state = pi.ask("get_state")
    assert (state["sessionName"], state["sessionId"]) == ("a name", rows[0]["id"])
    assert state["sessionStatus"] == {"saved": True}
    pi.say("and on")
    request = pi.llm.requests[-1].text
    assert all(words in request for words in ("from the tool", "Ran `echo shell; exit 3`", "and on"))
    assert "echo aside" not in request
    assert path.read_bytes().startswith(RECORDED.read_bytes())
    end(pi)
    valid(path)


@PEER
@SLOW
def test_the_recorded_session_is_what_the_original_still_writes(pair: Pair) -> None:
    pi = pair.theirs(*RECORDING)
    path = converse(pi)
    end(pi)

    assert shape(path) == shape(RECORDED)


def shape(path: Path) -> list[object]:
    """Return the types of the entries, the fields of each and of its message."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [(row["type"], sorted(row), sorted(row.get("message", {}))) for row in rows]
