"""The grep tool: matches, context, limits, notices and failures in the words that models know; real ripgrep."""

import base64
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import WITH_FIXTURES

from pinnace_agent.shell.child_processes import CHILDREN
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.local.programs import LOCAL_GREP, LocalGrep
from pinnace_agent.tools.local.search_program import find_rg
from pinnace_agent.tools.text.match_events import MAX_EVENT_BYTES, MatchEvent, MatchEvents
from pinnace_agent.tools.text.search_result import ShownLines
from pinnace_agent.tools.validation import validate_arguments
from pinnace_fuzz.process_tree import is_alive

# By ripgrep, and by the search in Python; the first is skipped where it is not there.
both = pytest.mark.usefixtures("searcher")
RG = find_rg(os.environ)
_operations = [LOCAL_GREP]
# A search here takes milliseconds; a process that was killed is gone at once.
TIMEOUT_S = 60


@pytest.fixture(params=["rg", "python"])
def searcher(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have every search done by one of the two."""
    if request.param == "rg" and RG is None:
        pytest.skip("ripgrep is not installed")
    _operations.append(LocalGrep(lambda env: RG if request.param == "rg" else None))
    yield
    _operations.pop()


async def run(
    folder: Path, pattern: str, path: str | None = None, *, call_env: dict[str, str] | None = None, **raw: object
) -> ToolResult:
    env = dict(os.environ) if call_env is None else call_env
    tool = GrepTool(_operations[-1])
    arguments = validate_arguments(tool, {"pattern": pattern, "path": path, **raw})
    with trio.fail_after(TIMEOUT_S):
        return await tool.execute(arguments, ToolContext(str(folder), "c1", lambda _: None, env))


async def lines(
    folder: Path, pattern: str, path: str | None = None, *, call_env: dict[str, str] | None = None, **raw: object
) -> list[str]:
    """Return the lines of a result without notices; files come in any order, so sorted by file."""
    result = await run(folder, pattern, path, call_env=call_env, **raw)
    assert result.details is None
    return sorted(text_of(result).split("\n"))


def text_of(result: ToolResult) -> str:
    (block,) = result.content
    assert block["type"] == "text"
    return block["text"]


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def program(folder: Path, script: str) -> dict[str, str]:
    """Put a program called rg first on the path of a call."""
    folder.mkdir()
    file = folder / "rg"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@both
async def test_matches_have_path_and_number(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "no\nhit one\n", "sub/b.txt": "hit two", ".hidden": "hit three\n"})

    assert await lines(tmp_path, "hit") == [".hidden:1: hit three", "a.txt:2: hit one", "sub/b.txt:1: hit two"]


@both
async def test_a_file_is_named_by_its_name_alone(tmp_path: Path) -> None:
    write(tmp_path, {"sub/a b.txt": "hit\n"})

    assert await lines(tmp_path, "hit", "sub/a b.txt") == ["a b.txt:1: hit"]


@both
async def test_paths_are_relative_to_what_is_searched(tmp_path: Path) -> None:
    write(tmp_path, {"one/two/three.txt": "hit\n"})

    assert await lines(tmp_path, "hit", "@one") == ["two/three.txt:1: hit"]


@both
async def test_nothing_found_says_so(tmp_path: Path) -> None:
    assert await run(tmp_path, "hit") == ToolResult([{"type": "text", "text": "No matches found"}])


@both
async def test_case_and_special_characters_count_unless_disabled(tmp_path: Path) -> None:
    write(tmp_path, {"a": "f.o\nfoo\nF.O\n"})

    assert await lines(tmp_path, "f.o") == ["a:1: f.o", "a:2: foo"]
    assert await lines(tmp_path, "f.o", literal=True) == ["a:1: f.o"]
    assert await lines(tmp_path, "f.o", literal=True, ignoreCase=True) == ["a:1: f.o", "a:3: F.O"]


@both
async def test_a_pattern_may_begin_with_a_dash(tmp_path: Path) -> None:
    write(tmp_path, {"a": "--files\n", "-b": "--files\n"})

    assert await lines(tmp_path, "--files") == ["-b:1: --files", "a:1: --files"]
    assert await lines(tmp_path, "--files", "-b") == ["-b:1: --files"]


@both
@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("./*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("./src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("!./src/*.py", ["a.py", "d.txt", "src/deep/c.py"]),
        ("!*.py", ["d.txt"]),
        ("*.{py,txt}", ["a.py", "d.txt", "src/b.py", "src/deep/c.py"]),
        ("", ["a.py", "d.txt", "src/b.py", "src/deep/c.py"]),
    ],
)
async def test_globs_are_relative_to_the_path(tmp_path: Path, glob: str, found: list[str]) -> None:
    write(tmp_path / "in", dict.fromkeys(("a.py", "src/b.py", "src/deep/c.py", "d.txt"), "hit\n"))

    assert await lines(tmp_path, "hit", "in", glob=glob) == [f"{name}:1: hit" for name in found]


@both
async def test_ignored_files_are_left_out_and_the_repository_itself_as_well(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "out/\n*.log\n", "out/a": "hit", "b.log": "hit", "c": "hit", ".git/config": "hit"})

    assert await lines(tmp_path, "hit") == ["c:1: hit"]
    assert await lines(tmp_path, "hit", ".git") == ["config:1: hit"]
    # A glob overrides what is ignored, but never lets the repository in.
    assert await lines(tmp_path, "hit", glob="*") == ["b.log:1: hit", "c:1: hit", "out/a:1: hit"]


@both
async def test_the_users_configuration_of_ripgrep_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, {"config": "--fixed-strings\n--max-count=1\n", "in/a": "hit\nhat\n"})
    env = {**os.environ, "RIPGREP_CONFIG_PATH": str(tmp_path / "config")}

    assert await lines(tmp_path, "h.t", "in", call_env=env) == ["a:1: hit", "a:2: hat"]


@both
async def test_context_is_marked_and_said_once(tmp_path: Path) -> None:
    write(tmp_path, {"a": "1\nhit\n3\nhit\n5\n6\n7\nhit\n"})

    assert text_of(await run(tmp_path, "hit", context=1)).split("\n") == [
        *("a-1- 1", "a:2: hit", "a-3- 3", "a:4: hit", "a-5- 5", "a-7- 7", "a:8: hit"),
    ]


@both
@pytest.mark.parametrize(("context", "shown"), [(0, 1), (-3, 1), (0.9, 1), (1.9, 3), (1e300, 5)])
async def test_context_is_a_whole_number(tmp_path: Path, context: float, shown: int) -> None:
    write(tmp_path, {"a": "1\n2\nhit\n4\n5\n"})

    assert len(await lines(tmp_path, "hit", context=context)) == shown


@both
@pytest.mark.parametrize(("limit", "shown"), [(2, 2), (2.9, 2), (0, 1), (-5, 1)])
async def test_more_matches_than_the_limit_are_reported(tmp_path: Path, limit: float, shown: int) -> None:
    write(tmp_path, {"a": "hit\n" * 3})
    result = await run(tmp_path, "hit", limit=limit)

    body, notice = text_of(result).split("\n\n")
    assert body.split("\n") == [f"a:{number}: hit" for number in range(1, shown + 1)]
    assert notice == f"[{shown} matches limit reached. Use limit={shown * 2} for more, or refine pattern]"
    assert result.details == {"matchLimitReached": shown}


@both
async def test_as_many_as_the_limit_are_all(tmp_path: Path) -> None:
    write(tmp_path, {"a": "hit\n" * 100})

    assert len(await lines(tmp_path, "hit")) == 100
    assert len(await lines(tmp_path, "hit", limit=100, context=3)) == 100


@both
async def test_a_match_in_the_context_of_the_last_one_is_context(tmp_path: Path) -> None:
    write(tmp_path, {"a": "hit\n2\nhit\n4\n5\nhit\n"})
    result = await run(tmp_path, "hit", limit=1, context=3)

    assert text_of(result) == (
        "a:1: hit\na-2- 2\na-3- hit\na-4- 4\n\n[1 matches limit reached. Use limit=2 for more, or refine pattern]"
    )


@both
async def test_long_lines_are_cut_and_reported(tmp_path: Path) -> None:
    write(tmp_path, {"a": "é" * 500 + "\n" + "😀" * 501 + "\n"})
    result = await run(tmp_path, "é|😀")

    assert text_of(result) == (
        f"a:1: {'é' * 500}\na:2: {'😀' * 500}... [truncated]\n\n"
        "[Some lines truncated to 500 chars. Use read tool to see full lines]"
    )
    assert result.details == {"linesTruncated": True}


@both
async def test_too_many_bytes_are_cut_at_a_line(tmp_path: Path) -> None:
    write(tmp_path, {"a": ("x" * 490 + "\n") * 150})
    result = await run(tmp_path, "x", limit=120)

    body, notices = text_of(result).split("\n\n")
    assert len(body) <= 51_200
    assert len(body) + 500 > 51_200
    assert notices == ("[120 matches limit reached. Use limit=240 for more, or refine pattern. 50.0KB limit reached]")
    assert result.details is not None
    truncation = result.details["truncation"]
    assert isinstance(truncation, dict)
    assert (truncation["content"], truncation["totalLines"], truncation["maxLines"]) == (body, 120, 2**53 - 1)
    whole = "\n".join(f"a:{number}: {'x' * 490}" for number in range(1, 121))
    assert truncation["totalBytes"] == len(whole)


@both
async def test_only_the_end_of_a_line_is_taken_off(tmp_path: Path) -> None:
    """R-TOL-11: control characters are shown by pictures of them."""
    write(tmp_path, {"a": b"hit\r\nhit a\rb\nhit\xff\x1b[0m\n\rhit\r\r\n"})

    assert text_of(await run(tmp_path, "hit")).split("\n") == [
        *("a:1: hit", "a:2: hit a␍b", "a:3: hit\ufffd␛[0m", "a:4: ␍hit␍"),
    ]


@both
@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("hit$", [1, 2, 4]),
        (r"hit\r$", [1]),
        ("^$", [3]),
        ("(hit$|other)", [1, 2, 4]),
        (r"hit\$", [5]),
        ("hit [$]", [6]),
    ],
)
async def test_the_end_of_a_line_is_before_crlf_too(pattern: str, numbers: list[int], tmp_path: Path) -> None:
    """R-TOL-07: unless the pattern is about CRs."""
    write(tmp_path, {"a": b"hit\r\nhit\n\r\na hit\nhit$ x\r\nhit $ y\r\n"})

    found = text_of(await run(tmp_path, pattern)).split("\n")
    assert [int(line.split(":")[1]) for line in found] == numbers


@both
async def test_a_search_that_finds_nothing_says_that_ignored_files_match(tmp_path: Path) -> None:
    """R-TOL-07: and a folder that is named is searched though all in it is ignored."""
    write(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\n", "out/a.log": "hit", "b": "no", "c.log": "other hit"})
    ignored = "[Only files that .gitignore or another ignore file names match]"

    assert text_of(await run(tmp_path, "other")) == (
        "No matches found\n\n[Ignored files (.gitignore) were not searched, and some match, e.g. c.log. "
        "To search them, give their folder as path]"
    )
    assert text_of(await run(tmp_path, "hit", path="out")) == f"a.log:1: hit\n\n{ignored}"
    assert text_of(await run(tmp_path, "hit", path="c.log")) == "c.log:1: other hit"
    assert text_of(await run(tmp_path, "nowhere")) == "No matches found"


@both
async def test_names_may_be_odd(tmp_path: Path) -> None:
    for name in (b"-rf", b"a b", b"new\nline", b"\xff\xfe", "é".encode(), b"{x}*"):
        (tmp_path / os.fsdecode(name)).write_text("hit")

    assert await lines(tmp_path, "hit") == sorted(
        ["-rf:1: hit", "a b:1: hit", "new", "line:1: hit", "\ufffd\ufffd:1: hit", "é:1: hit", "{x}*:1: hit"]
    )


@both
async def test_binary_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"a.bin": b"\0hit\n", "b.txt": "hit\n"})

    assert await lines(tmp_path, "hit") == ["b.txt:1: hit"]


@both
async def test_loops_of_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"in/a": "hit\n"})
    (tmp_path / "in/loop").symlink_to("..")
    (tmp_path / "door").symlink_to("in")

    assert await lines(tmp_path, "hit") == ["in/a:1: hit"]
    assert await lines(tmp_path, "hit", "door") == ["a:1: hit"]


@both
async def test_a_path_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("nope", "dangling"):
        with pytest.raises(ToolError) as caught:
            await run(tmp_path, "x", name)
        assert str(caught.value) == f"Path not found: {tmp_path / name}"


@both
async def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path, {"a": "hit\n"})

    with pytest.raises(ToolError, match=r"^Not a file with content, but a pipe"):
        await run(tmp_path, "x", "pipe")
    assert await lines(tmp_path, "hit") == ["a:1: hit"]


@both
async def test_what_ripgrep_says_of_a_pattern_is_the_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="regex parse error") as caught:
        await run(tmp_path, "(")
    assert str(caught.value) == str(caught.value).strip()


@both
@pytest.mark.parametrize("pattern", ["a\0b", "\ud800"])
async def test_a_pattern_that_no_program_can_get_is_an_error(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match=r"^Failed to run ripgrep: "):
        await run(tmp_path, pattern)


@both
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_folder_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    write(tmp_path, {"a": "hit\n", "locked/b": "hit\n"})
    (tmp_path / "locked").chmod(0)
    try:
        with pytest.raises(ToolError, match="locked: Permission denied"):
            await run(tmp_path, "hit")
    finally:
        (tmp_path / "locked").chmod(0o700)


def test_the_program_of_the_package_is_found_where_it_is_installed(tmp_path: Path) -> None:
    """As an installation lays it out: modules in one folder, programs in another, a record of both."""
    modules = tmp_path / "lib/modules"
    record = "../../bin/rg,,\nripgrep-14.1.0.dist-info/RECORD,,\n"
    info = {"METADATA": "Metadata-Version: 2.1\nName: ripgrep\nVersion: 14.1.0\n", "RECORD": record}
    write(modules / "ripgrep-14.1.0.dist-info", dict(info))
    program(tmp_path / "bin", "exit 0")
    code = "from pinnace_agent.tools.local.search_program import find_rg; print(find_rg({'PATH': '/nowhere'}))"
    search = os.pathsep.join([str(modules), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": search}, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == str(tmp_path / "bin/rg")


@pytest.mark.parametrize(
    ("script", "event"),
    [
        ("echo ' it broke ' >&2; exit 2", "it broke"),
        ("exit 3", "ripgrep exited with code 3"),
        ("kill -9 $$", "ripgrep exited with code -9"),
        ("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 2", "x" * 51_200),
    ],
)
async def test_a_failure_is_what_was_said_or_the_code(tmp_path: Path, script: str, event: str) -> None:
    with pytest.raises(ToolError) as caught:
        await run(tmp_path, "x", call_env=program(tmp_path / "bin", script))
    assert str(caught.value) == event


async def test_a_program_that_can_not_be_run_is_reported(tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "")
    (tmp_path / "bin/rg").write_text("#!/nowhere/at/all\n")
    with pytest.raises(ToolError, match=r"^Failed to run ripgrep: "):
        await run(tmp_path, "x", call_env=env)


async def test_its_configuration_is_taken_out_of_the_environment(tmp_path: Path) -> None:
    env = program(tmp_path / "bin", 'echo "<$RIPGREP_CONFIG_PATH> $1" >&2; exit 2') | {"RIPGREP_CONFIG_PATH": "/x"}
    with pytest.raises(ToolError, match=r"^<> --no-config$"):
        await run(tmp_path, "x", call_env=env)


async def test_an_abort_leaves_no_process(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    # It stops reading nothing, ignores what it can, and has a child.
    env = program(tmp_path / "bin", f"trap '' TERM INT; sleep 1000 & echo $! $$ >{tmp_path}/begun; wait")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run(tmp_path, "x", call_env=env))
        pids = (await trio.Path(tmp_path / "begun").read_text()).split()
        nursery.cancel_scope.cancel()

    assert not CHILDREN.pids
    # The child belongs to init now, which may take a moment to reap it.
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(is_alive(int(pid)) for pid in pids):
        assert time.monotonic() < deadline_s
        await trio.sleep(0.01)


async def test_enough_matches_end_the_program(tmp_path: Path) -> None:
    event = json.dumps(
        {"type": "match", "data": {"path": {"text": "./a"}, "lines": {"text": "hit\n"}, "line_number": 7}},
        separators=(",", ":"),
    )
    env = program(tmp_path / "bin", f"echo $$ >{tmp_path}/pid; yes '{event}'")
    result = await run(tmp_path, "x", limit=1, call_env=env)

    assert result.details == {"matchLimitReached": 1}
    assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_the_context_of_the_last_match_ends_with_its_file(tmp_path: Path) -> None:
    def line(name: str, number: int, kind: str = "match") -> str:
        data = {"path": {"text": f"./{name}"}, "lines": {"text": "hit\n"}, "line_number": number}
        return json.dumps({"type": kind, "data": data}, separators=(",", ":"))

    stream = "\n".join([line("a", 7), line("a", 8, "context"), line("b", 8, "context"), line("b", 9), line("a", 9)])
    (tmp_path / "events").write_text(f"{stream}\n")
    env = program(tmp_path / "bin", f"cat {tmp_path}/events")

    assert text_of(await run(tmp_path, "x", limit=1, context=2, call_env=env)).split("\n\n")[0] == "a:7: hit\na-8- hit"


def test_lines_that_are_not_shown_are_not_kept() -> None:
    shown = ShownLines()
    tracemalloc.start()
    try:
        for number in range(100_000):
            shown.add(f"{number:0100}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500_000
    assert (shown.result(None, {}).details or {}).keys() == {"truncation"}


# Events, however long their lines are.


def line(text: bytes | str, number: int = 5, *, kind: str = "match", matches: int = 1) -> bytes:
    content = {"text": text} if isinstance(text, str) else {"bytes": base64.b64encode(text).decode()}
    data = {
        "path": {"text": './q"\\.txt'},
        "lines": content,
        "line_number": number,
        "absolute_offset": 0,
        "submatches": [{"match": {"text": '},"line_number":99,'}, "start": 0, "end": 1}] * matches,
    }
    return json.dumps({"type": kind, "data": data}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


LONG = MAX_EVENT_BYTES * 2
TEXTS: list[bytes | str] = [
    "short\n",
    "",
    "x" * LONG,
    "\x1b" * LONG,
    '"},"line_number":1,' * 20_000,
    "\\" * LONG,
    b"\xff" * LONG,
]


@given(
    texts=st.lists(st.sampled_from(TEXTS), max_size=4),
    sizes=st.lists(st.sampled_from([1_000, 65_536, 200_000, 7_777]), min_size=1),
    data=st.data(),
)
@settings(max_examples=25)
def test_events_are_the_same_however_they_are_cut(
    texts: list[bytes | str], sizes: list[int], data: st.DataObject
) -> None:
    stream = b"".join(
        b'{"type":"begin","data":{}}\n' + line(text, number, kind=data.draw(st.sampled_from(["match", "context"])))
        for number, text in enumerate(texts, 1)
    )
    events = MatchEvents(500)
    got: list[MatchEvent] = []
    place = 0
    while place < len(stream):
        size = data.draw(st.sampled_from(sizes))
        got += events.feed(stream[place : place + size])
        place += size

    assert [(found.path, found.number) for found in got] == [('./q"\\.txt', n) for n in range(1, len(texts) + 1)]
    for found, text in zip(got, texts, strict=True):
        whole = text if isinstance(text, str) else text.decode("utf-8", "replace")
        assert found.text[:501] == whole.removesuffix("\n")[:501]


@pytest.mark.parametrize("text", ["x" * LONG, b"\xff" * LONG], ids=["text", "bytes"])
def test_a_long_event_may_be_cut_anywhere_at_its_number(text: bytes | str) -> None:
    stream = line(text, 123_456) + line("short", 7)
    place = stream.index(b'},"line_number"')
    for cut in range(place - 3, place + 30):
        events = MatchEvents(500)
        found = [each for piece in (stream[:cut], stream[cut:]) for each in events.feed(piece)]
        assert [each.number for each in found] == [123_456, 7]


def test_a_long_event_is_not_kept() -> None:
    def pieces() -> Iterable[bytes]:
        head, tail = line("x" * LONG).split(b"x" * LONG)
        yield head
        yield from (b"x" * 65_536 for _ in range(1_000))
        yield tail

    events = MatchEvents(500)
    tracemalloc.start()
    try:
        (found,) = [event for piece in pieces() for event in events.feed(piece)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.number == 5
    assert peak < 2_000_000


@both
async def test_a_huge_line_of_matches_is_cut(tmp_path: Path) -> None:
    write(tmp_path, {"a": "before\n" + "ab" * 3_000_000 + "\nab\n"})

    assert text_of(await run(tmp_path, "a")).split("\n")[:2] == ["a:2: " + "ab" * 250 + "... [truncated]", "a:3: ab"]


# Against a search that is written plainly.

NAMES = st.sampled_from(["a.txt", "b.log", "c", ".d", "e e", "keep.log"])
TREES = st.dictionaries(
    st.lists(st.sampled_from(["out", "src", "x.log", "s p"]), max_size=2).flatmap(
        lambda folders: NAMES.map(lambda name: "/".join([*folders, name]))
    ),
    st.lists(st.sampled_from(["hit", "miss", "", "a hit b", "HIT"]), max_size=8),
    max_size=6,
)
IGNORED = st.sampled_from(["", "*.log\n", "out/\n", "/c\n", "src/a.txt\n", "*.log\n!keep.log\n", "# no\n\n"])


def is_ignored(path: str, rules: str) -> bool:
    """Apply the few rules that are drawn."""
    folders, _, name = path.rpartition("/")
    parts = folders.split("/") if folders else []
    match rules:
        case "*.log\n":
            return any(part.endswith(".log") for part in [*parts, name])
        case "out/\n":
            return "out" in parts
        case "/c\n":
            return path == "c"
        case "src/a.txt\n":
            return path == "src/a.txt"
        case "*.log\n!keep.log\n":
            return any(part.endswith(".log") and part != "keep.log" for part in [*parts, name])
        case _:
            return False


def expected(tree: dict[str, list[str]], rules: str, context: int) -> list[str]:
    shown = []
    for path, content in tree.items():
        if is_ignored(path, rules):
            continue
        hits = [index for index, line in enumerate(content) if "hit" in line]
        for index, line in enumerate(content):
            if index in hits:
                shown.append(f"{path}:{index + 1}: {line}")
            elif any(abs(index - hit) <= context for hit in hits):
                shown.append(f"{path}-{index + 1}- {line}")
    return shown


@both
@given(tree=TREES, rules=IGNORED, context=st.integers(0, 3))
@settings(WITH_FIXTURES, max_examples=30)
def test_it_finds_what_a_plain_search_finds(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, list[str]], rules: str, context: int
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    files = {path for path in tree if not any(other.startswith(f"{path}/") for other in tree)}
    tree = {path: content for path, content in tree.items() if path in files}
    write(folder, {path: "".join(f"{line}\n" for line in content) for path, content in tree.items()})
    write(folder, {".git/HEAD": "hit", ".gitignore": rules})
    found = trio.run(lambda: run(folder, "hit", context=context))

    lines = sorted(expected(tree, rules, context))
    text, _, notice = text_of(found).partition("\n\n[")
    assert sorted(text.split("\n")) == (lines or ["No matches found"])
    assert (notice != "") == (not lines and expected(tree, "", context) != [])
    shutil.rmtree(folder)
