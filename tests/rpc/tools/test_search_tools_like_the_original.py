"""grep, find and ls as the original has them: the same calls on the same files, each through a whole agent.

What release 1.5.2 answered is kept in tests/data, so that this runs without it. Where it is present it must still
answer so. To record anew, delete the file and run this with the original.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.recorded import RecordedList

from pinnace_agent.tools.local.search_program import find_fd, find_rg
from pinnace_fuzz.process_tree import words_of
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

RECORDED: Final = RecordedList("search-tools")
# A record that nobody can read proves no more than its digest.
MAX_RECORDED_CHARS: Final = 2_000
Answer = dict[str, Any]
IGNORED: Final = (
    "Ignored files (.gitignore) were not searched, and some match, e.g. a.log. "
    "To search them, give their folder as path"
)


class Case(NamedTuple):
    """One call, and if ours is to differ, its text."""

    tool: str
    args: dict[str, object]
    ours: str | None = None


def grep(pattern: str, path: str | None = None, **args: object) -> Case:
    return Case("grep", {"pattern": pattern, **({} if path is None else {"path": path}), **args})


def find(pattern: str, path: str | None = None, *, ours: str | None = None, **args: object) -> Case:
    return Case("find", {"pattern": pattern, **({} if path is None else {"path": path}), **args}, ours)


def ls(path: str | None = None, *, ours: str | None = None, **args: object) -> Case:
    return Case("ls", {**({} if path is None else {"path": path}), **args}, ours)


CASES: Final = (
    # The whole tree, a part of it, one file.
    grep("needle"),
    grep("needle", "src"),
    grep("needle", "@src/a.py"),
    grep("needle", "./src/../src/deep"),
    grep("needle", "{work}/src"),
    grep("needle", "~/nothing"),
    grep("needle", "door"),
    grep("needle", ""),
    grep("no such thing"),
    grep("needle", "nope"),
    grep("needle", "dangling"),
    # Patterns.
    grep("NEEDLE", "src"),
    grep("NEEDLE", "src", ignoreCase=True),
    grep("n.*e\\b", "src/a.py"),
    grep("(x)", "marks.txt"),
    grep("(x)", "marks.txt", literal=True),
    grep("(", "marks.txt", literal=True),
    grep("--files", "marks.txt"),
    grep("-", "marks.txt", literal=True),
    grep("(", "src"),
    grep("^$", "context.txt"),
    grep("", "marks.txt"),
    # Globs.
    grep("needle", glob="*.py"),
    grep("needle", glob="src/*.py"),
    grep("needle", glob="./src/**/*.py"),
    grep("needle", "src", glob="deep/*"),
    grep("needle", glob="!./src/**")._replace(ours=f"No matches found\n\n[{IGNORED}]"),
    grep("needle", glob="*.log"),
    grep("needle", "src", glob="["),
    grep("needle", "src", glob="*.{py,txt}"),
    # Context and limits.
    grep("hit", "context.txt", context=1),
    grep("hit", "context.txt", context=2.9),
    grep("hit", "context.txt", context=-1),
    grep("hit", "context.txt", limit=1),
    grep("hit", "context.txt", limit=1, context=3),
    grep("hit", "context.txt", limit=2, context=1),
    grep("hit", "context.txt", limit=4),
    grep("hit", "context.txt", limit=3),
    grep("hit", "context.txt", limit=0),
    grep("hit", "context.txt", limit="2"),
    grep("hit", "context.txt", limit=None),
    grep("line", "many.txt"),
    grep("line", "many.txt", limit=100_000),
    grep("x", "long.txt"),
    grep("x", "wide.txt", limit=150),
    # What is no plain text.
    grep("hit", "ends.txt")._replace(
        ours="ends.txt:1: hit\nends.txt:2: hit a␍b\nends.txt:3: hit\ufffdend\nends.txt:4: hit"
    ),
    grep("hit", "binary.bin"),
    grep("hit", "names"),
    # Names.
    find("*.py"),
    find("*.py", "src"),
    find("a*", "src"),
    find("A*", "src"),
    find("src"),
    find("src/*"),
    find("src/**/*.py"),
    find("**/deep/**"),
    find("*.{py,txt}", "src"),
    find("[ab].py"),
    find("*.log", ours=f"No files found matching pattern\n\n[{IGNORED}]"),
    find("*", "names"),
    find("nothing"),
    find("*", "src", limit=2.5),
    find("x*", "crowd", limit=1_000_000),
    find("x*", "crowd", limit=300),
    find("[", "src"),
    find("*.py", "door"),
    find("-*", "names"),
    find("{work}/src/*.py"),
    find("/src/*.py"),
    find("link*"),
    find("no/such/*"),
    # Documented differences: the repository itself, the folder's own name, a path that is no folder, names in no UTF-8.
    find("HEAD", ours="No files found matching pattern"),
    find("HEAD", ".git"),
    find("deep/*", "src/deep", ours="No files found matching pattern"),
    find("*", "nope", ours="Path not found: {work}/nope"),
    ls("names", ours="-rf\n{x}*\na b\né\n\ufffd"),
    find("*", "marks.txt", ours="Not a directory: {work}/marks.txt"),
    # Folders.
    ls(),
    ls("src"),
    ls("@src/"),
    ls("order"),
    ls("empty"),
    ls("only-dangling"),
    ls("nope"),
    ls("marks.txt"),
    ls("dangling"),
    ls("door"),
    ls("order", limit=3),
    ls("order", limit=0),
    ls("order", limit=2.9),
    ls("src", limit=3),
    ls("crowd", limit=300),
    ls("crowd", limit=1_000),
)


def build(work: Path) -> None:
    """Make the files that are searched."""
    files: dict[str, str | bytes] = {
        ".git/HEAD": "ref: refs/heads/main\n",
        ".gitignore": "*.log\nbuild/\n",
        "a.log": "needle in a log\n",
        "build/b.py": "needle that was built\n",
        "src/a.py": "a needle\nNeedle\nnone\n",
        "src/B.py": "two\nneedle needle\n",
        "src/deep/c.py": "needle",
        "src/deep/c.txt": "needle\n",
        "src/.hidden": "hidden needle\n",
        "src/deep/.gitignore": "c.txt\n",
        "marks.txt": "(x) and x\n--files\n- [y] {z} $\n\ta\n",
        "context.txt": "1\nhit\n3\nhit\n5\n6\n7\nhit\n9\n\n11\nhit\n",
        "many.txt": "".join(f"line {number}\n" for number in range(3_000)),
        "long.txt": f"{'x' * 500}\n{'x' * 501}\n{'é' * 600}x\n",
        "wide.txt": f"{'x' * 480}\n" * 200,
        "ends.txt": b"hit\r\nhit a\rb\nhit\xffend\nhit\r",
        "binary.bin": b"hit\n\0\nhit\n",
        "in/d.py": "nothing\n",
    }
    for name, content in files.items():
        file = work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    for name in ("empty", "names", "order", "crowd", "only-dangling"):
        (work / name).mkdir()
    for raw in (b"-rf", b"a b", b"\xff", "é".encode(), b"{x}*"):
        (work / "names" / os.fsdecode(raw)).write_text("hit\n")
    for name in "_a -a .a 'q (p @at #h %p ^c +p =e ~t $d 10 1a 2 a a_b a.b a1 a10 a2 AB Ac B é e f Z ñ n o Ω".split():
        (work / "order" / name).touch()
    for number in range(301):
        (work / "crowd" / f"x{number:0200}").touch()
    (work / "door").symlink_to("src")
    (work / "link.py").symlink_to("src/a.py")
    (work / "dangling").symlink_to("nowhere")
    (work / "only-dangling/x").symlink_to("nowhere")


def answers(start: Callable[..., HomedAgent]) -> list[Answer]:
    """Have an agent make all calls, and return what it answered: without what is chance, such as the order of files."""
    agent = start([], "--tools", "grep,find,ls")
    work = agent.home.work
    build(work)
    calls = [
        {"name": case.tool, "args": json.loads(json.dumps(case.args).replace("{work}", str(work)))} for case in CASES
    ]
    agent.llm.add({"tool_calls": calls})
    agent.llm.add({"text": "done"})
    assert agent.request({"type": "prompt", "message": "go"})["success"]
    messages = agent.wait({"type": "agent_end"}, timeout_s=60)["messages"]
    results = [message for message in messages if message["role"] == "toolResult"]
    assert len(results) == len(CASES)
    kept = [{key: result.get(key) for key in ("content", "details", "isError")} for result in results]
    return [settled(case, answer, agent.home.root) for case, answer in zip(CASES, kept, strict=True)]


def settled(case: Case, answer: Answer, root: Path) -> Answer:
    """Take out what is chance: where the files are, and in which order two programs at work come to them."""
    read: Answer = json.loads(json.dumps(answer).replace(str(root / "work"), "{work}").replace(str(root), "{root}"))
    details = read["details"] or {}
    (block,) = read["content"]
    if read["isError"]:
        # Releases of ripgrep and fd frame their messages differently; what is wrong stands last.
        block["text"] = block["text"].split("\n")[-1].removeprefix("rg: ")
    elif case.tool == "grep":
        block["text"] = in_order(block["text"])
    elif case.tool == "find":
        body, gap, notice = ("\n\n" + block["text"]).rpartition("\n\n[")
        lines = sorted((body if gap else notice).strip("\n").split("\n"))
        # Which ones come first is chance as well.
        shown = f"{len(lines)} paths" if details else "\n".join(lines)
        block["text"] = shown + (gap + notice if gap else "")
    if len(block["text"]) > MAX_RECORDED_CHARS:
        digest = hashlib.sha256(block["text"].encode()).hexdigest()
        block["text"] = f"{block['text'][:80]}...{block['text'][-160:]} {digest}"
    if "truncation" in details:
        # The text says the same, and the other fields how long it is.
        details["truncation"]["content"] = len(details["truncation"]["content"])
    return read


def in_order(text: str) -> str:
    """Sort by file, and keep the order of lines within one; the notice stays at the end."""
    body, gap, notice = text.rpartition("\n\n[")
    lines = (body if gap else notice).split("\n")
    lines.sort(key=lambda line: re.split(r"[:-]\d+[:-] ", line)[0])
    return "\n".join(lines) + (gap + notice if gap else "")


def record_of(answered: list[Answer]) -> list[dict[str, object]]:
    return [{"tool": case.tool, "args": case.args, **each} for case, each in zip(CASES, answered, strict=True)]


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    return RECORDED.read()


@pytest.fixture(scope="module")
def ours(module_agent: AgentStarter) -> list[Answer]:
    if find_rg(os.environ) is None or find_fd(os.environ) is None:
        pytest.skip("ripgrep and fd are not there")
    return answers(module_agent)


@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda index: f"{CASES[index].tool}-{index}")
def test_a_call_is_answered_as_by_the_original(index: int, ours: list[Answer], recorded: list[dict[str, Any]]) -> None:
    case, expected = CASES[index], recorded[index]
    assert (expected.pop("tool"), expected.pop("args")) == (case.tool, json.loads(json.dumps(case.args)))
    if case.ours is None:
        assert ours[index] == expected
    else:
        assert ours[index] != expected, "no difference any more"
        # Which ignored file is the first one is up to the file system.
        assert ours[index]["content"][0]["text"].replace("e.g. build/b.py.", "e.g. a.log.") == case.ours


def test_an_abort_ends_a_search_at_work(agent: AgentStarter) -> None:
    """Nothing is left when the agent ends, which every agent is checked for, and nothing right after the abort."""
    if find_rg(os.environ) is None:
        pytest.skip("ripgrep is not there")
    running = agent([{"tool_calls": [{"name": "grep", "args": {"pattern": "x", "path": "huge"}}]}], "--tools", "grep")
    with (running.home.work / "huge").open("wb") as file:
        # Takes minutes to read and nothing to keep: it is one hole.
        file.truncate(1 << 39)
    running.request({"type": "prompt", "message": "go"})
    running.wait({"type": "tool_execution_start"})
    deadline_s = time.monotonic() + 60
    while not any(b"--json" in words_of(each) for each in running.descendants()):
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    assert running.request({"type": "abort"})["success"]

    assert running.descendants() == []
    (end,) = running.found({"type": "tool_execution_end"})
    assert end["isError"]
    assert end["result"]["content"] == [{"type": "text", "text": "Operation aborted"}]


@pytest.mark.peer
@pytest.mark.slow
def test_the_original_still_answers_so(original_pi: list[str], search_tools_path: Path, tmp_path: Path) -> None:
    with AgentStarter(original_pi, tmp_path) as start:
        record = record_of(answers(partial(start, path_first=search_tools_path)))
    RECORDED.check(record)
