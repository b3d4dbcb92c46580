"""The search in Python, beside ripgrep and fd: the same results, and bounds on what a pattern and a file may take."""

import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import WITH_FIXTURES

from pinnace_agent.search.line_pattern import BadPattern, compiled
from pinnace_agent.shell.child_processes import CHILDREN
from pinnace_agent.tools.base import Tool, ToolContext, ToolError
from pinnace_agent.tools.find import FindTool
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.local.find import LocalFind
from pinnace_agent.tools.local.programs import LocalGrep
from pinnace_agent.tools.local.search_program import find_fd, find_rg
from pinnace_agent.tools.validation import validate_arguments

RG, FD = find_rg(os.environ), find_fd(os.environ)
needs_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not installed: there is nothing to compare with")
needs_fd = pytest.mark.skipif(FD is None, reason="fd is not installed: there is nothing to compare with")
TIMEOUT_S = 60.0


def nothing(_env: object) -> None:
    return None


GREP = {"python": GrepTool(LocalGrep(nothing)), "rg": GrepTool(LocalGrep(lambda _: RG))}
FIND = {"python": FindTool(LocalFind(nothing, nothing)), "fd": FindTool(LocalFind(lambda _: FD))}


# Of several ignored files that match, the one that is found first: programs search in several threads.
EXAMPLE = re.compile(r"(?<= e\.g\. ).*(?=\. To search them)")


async def outcome(tool: Tool, folder: Path, **args: object) -> list[str]:
    """Return the lines of a result, sorted; of a refusal only that it is one."""
    env = {"PATH": "/nowhere", "HOME": str(folder / "home")}
    context = ToolContext(str(folder), "c1", lambda _: None, env)
    with trio.fail_after(TIMEOUT_S):
        try:
            (block,) = (await tool.execute(validate_arguments(tool, args), context)).content
        except ToolError:
            return ["refused"]
    assert block["type"] == "text"
    text = block["text"]
    if (example := EXAMPLE.search(text)) is not None:
        assert (folder / example[0]).exists()
        if tool.name == "grep":
            assert "No matches found" not in await outcome(tool, folder, **{**args, "path": example[0]})
        text = EXAMPLE.sub("one of them", text)
    return sorted(text.split("\n"))


def same(tools: Sequence[Tool], folder: Path, **args: object) -> list[str]:
    """Return what all tools answer."""

    async def ask() -> list[list[str]]:
        return [await outcome(tool, folder, **args) for tool in tools]

    first, *others = trio.run(ask)
    assert all(other == first for other in others), (args, first, others)
    return first


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


NAMES = st.sampled_from(["a.py", "b.py", "c.txt", "x.log", ".hid", "out", "A b"])
FOLDERS = st.lists(st.sampled_from(["src", "out", "d.log", ".h"]), max_size=2)
PATHS = st.builds(lambda folders, name: "/".join([*folders, f"{name}.f" if name == "out" else name]), FOLDERS, NAMES)
CONTENTS = st.lists(
    st.sampled_from([b"hit", b"no", b"Hit\r", b"a hit b", b"", b"\xffhit", "é hit".encode(), b"x\0hit", b"\0"]),
    max_size=6,
).map(b"\n".join)
RULES = st.lists(
    st.sampled_from(
        [
            "out/",
            "*.log",
            "!keep",
            "/src",
            "src/*.py",
            "**/out/**",
            "# c",
            "!*.py",
            "a.py ",
            "\\!x",
            "[ab].py",
            "*",
            "!.*",
        ]
    ),
    max_size=3,
).map("\n".join)
IGNORE_FILES = st.dictionaries(
    st.builds(
        lambda folders, name: "/".join([*folders, name]),
        FOLDERS,
        st.sampled_from([".gitignore", ".ignore", ".rgignore", ".fdignore", ".git/info/exclude"]),
    ),
    RULES,
    max_size=3,
)
TREE = st.tuples(st.dictionaries(PATHS, CONTENTS, min_size=1, max_size=6), IGNORE_FILES, st.booleans())


def planted(root: Path, tree: tuple[dict[str, bytes], dict[str, str], bool]) -> Path:
    """Write a tree, in a folder whose parent has rules as well."""
    files, ignored, is_repository = tree
    work = root / "above" / "work"
    work.mkdir(parents=True)
    (root / "above" / ".ignore").write_text("c.txt\n")
    (root / "above" / ".gitignore").write_text("b.py\n")
    if is_repository:
        (root / "above" / ".git").mkdir()
    write(work, files)
    write(work, {name: rules.encode() for name, rules in ignored.items()})
    return work


@needs_rg
@pytest.mark.parametrize(
    "content", [b"no\nx\0hit", b"no\n\0", b"hit\n\0", b"\nno\n\0", b"\xef\xbb\xbfno\n\0", b"no\n" * 22_000 + b"\0"]
)
@pytest.mark.parametrize("pattern", ["no", "hit", ""])
def test_grep_finds_what_ripgrep_finds_before_a_nul(tmp_path: Path, content: bytes, pattern: str) -> None:
    write(tmp_path, {"a.py": content})

    same(list(GREP.values()), tmp_path, pattern=pattern)


@needs_rg
@given(
    tree=TREE,
    pattern=st.sampled_from(["hit", "^hit", "h.t$", "HIT", "", "é", "no|a"]),
    glob=st.sampled_from([None, "*.py", "!*.py", "src/*", "**/*.log", "*.{py,txt}", "out/**", "!src"]),
    context=st.integers(0, 2),
    ignores_case=st.booleans(),
)
@settings(WITH_FIXTURES, max_examples=40)
def test_grep_finds_what_ripgrep_finds(
    tmp_path_factory: pytest.TempPathFactory,
    tree: tuple[dict[str, bytes], dict[str, str], bool],
    pattern: str,
    glob: str | None,
    context: int,
    ignores_case: bool,
) -> None:
    root = tmp_path_factory.mktemp("tree")
    work = planted(root, tree)
    same(list(GREP.values()), work, pattern=pattern, glob=glob, context=context, ignoreCase=ignores_case)
    shutil.rmtree(root)


@needs_fd
@given(tree=TREE, pattern=st.sampled_from(["*", "*.py", "src", "src/**", "**/out/*", ".*", "[!a]*", "*.{log,f}"]))
@settings(WITH_FIXTURES, max_examples=25)
def test_find_finds_what_fd_finds(
    tmp_path_factory: pytest.TempPathFactory, tree: tuple[dict[str, bytes], dict[str, str], bool], pattern: str
) -> None:
    # An old fd can't apply .gitignore outside of a repository; the search without it is another one then.
    root = tmp_path_factory.mktemp("tree")
    work = planted(root, (tree[0], tree[1], True))
    same(list(FIND.values()), work, pattern=pattern)
    shutil.rmtree(root)


LINES = "foo(bar)\nfoo.bar baz\nFOO 12 x_y\n\tindented\nnaïve Ünï ß\n[x] {y} a{2} C++\nend.\n\naab\n"


@needs_rg
@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"\bfoo\b",
            r"fo+\(",
            r"\d+",
            r"\w+_\w",
            r"^\s",
            r"^$",
            r"[a-c]{2}",
            r"a{2}",
            r"(?i)foo",
            r"b(?i)AR|FOO",
            "C++",
        ),
        *(r"\p{Lu}", r"\pL\pL", r"\P{L}", "[[:upper:]]{3}", "[^[:alpha:]]$", r"(?P<n>o)\w", r"end\.\z"),
        *(
            r"\x41|\x{ef}",
            r"[\w.]+\s",
            "(?x) f o o",
            "(?-i)foo",
            "a*?b",
            "(a|b)+?$",
            r"\.$",
            "[]x]",
            r"[\]\[]",
            "x|",
            "}",
        ),
        *(
            "(",
            "[",
            "*a",
            "a**",
            "(?=x)",
            "(?<!x)y",
            r"(a)\1",
            r"a\nb",
            "foo{",
            "a{,2}",
            "\\",
            r"\q",
            "(?z)",
            ")",
            "{",
            "[z-a]",
        ),
    ],
)
def test_a_pattern_means_what_it_means_to_ripgrep(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "f").write_text(LINES)

    same(list(GREP.values()), tmp_path, pattern=pattern)


@needs_rg
@pytest.mark.parametrize(
    "content",
    [
        *("\ufeffhit\n".encode(), "hit é\nno\n".encode("utf-16"), "hit\n".encode("utf-16-be"), b"caf\xe9 hit\n"),
        *(b"hit\n" * 20_000 + b"\0\nhit\n", b"\0hit\n", b"hit", b"hit\r\n\r\n", b"x" * 9_000 + b"hit\nhit\n"),
    ],
    ids=["bom", "utf-16", "utf-16 without a mark", "latin-1", "late nul", "nul", "no end", "crlf", "long"],
)
@pytest.mark.parametrize("path", [".", "f"])
def test_an_encoding_is_read_as_ripgrep_reads_it(tmp_path: Path, content: bytes, path: str) -> None:
    (tmp_path / "f").write_bytes(content)

    same(list(GREP.values()), tmp_path, pattern="hit", path=path, limit=100_000)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[a&&b]", "needs? ripgrep"),
        (r"\p{Greek}", "needs? ripgrep"),
        ("(?U)a", "needs? ripgrep"),
        ("a\nb", "not allowed"),
    ],
)
def test_what_only_ripgrep_knows_is_refused_by_name(pattern: str, reason: str) -> None:
    with pytest.raises(BadPattern, match=reason):
        compiled(pattern, is_literal=False, ignores_case=False)


@given(text=st.text(st.characters(exclude_characters="\n"), max_size=8), ignores_case=st.booleans())
def test_a_literal_means_itself(text: str, ignores_case: bool) -> None:
    assert compiled(text, is_literal=True, ignores_case=ignores_case).search(f"<{text}>")


@given(pattern=st.text(st.sampled_from("ab()[]{}*+?|\\^$.-,2:<>PpLidwz=!&"), max_size=10))
@settings(max_examples=500)
def test_every_text_is_a_pattern_or_refused(pattern: str) -> None:
    with suppress(BadPattern):  # and nothing else is raised
        compiled(pattern, is_literal=False, ignores_case=False).search("a line")


async def test_a_pattern_that_takes_for_ever_is_ended_and_others_go_on_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x" * 60 + "\n")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.05)
            ticks += 1

    context = ToolContext(str(tmp_path), "c1", lambda _: None, {"PATH": "/nowhere"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        with trio.fail_after(TIMEOUT_S), pytest.raises(ToolError, match=r"takes more than 2 s on one line"):
            await GREP["python"].execute({"pattern": "(x+x+)+y"}, context)
        nursery.cancel_scope.cancel()
    assert ticks > 10


async def test_an_endless_line_takes_bounded_memory_and_an_abort_leaves_no_process(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 39)  # one hole: hours to read
    context = ToolContext(str(tmp_path), "c1", lambda _: None, {"PATH": "/nowhere"})

    async def search() -> None:
        await GREP["python"].execute({"pattern": "x", "path": "huge"}, context)

    def figure(file: str, name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
        return 0 if found is None else int(found[1])

    deadline_s = time.monotonic() + TIMEOUT_S
    async with trio.open_nursery() as nursery:
        nursery.start_soon(search)
        while not CHILDREN.pids:  # noqa: ASYNC110  # there is no event for the start
            await trio.sleep(0.01)
        (pid,) = CHILDREN.pids
        while figure("io", "rchar") < 300 * 1024 * 1024:
            assert time.monotonic() < deadline_s
            await trio.sleep(0.01)
        peak_kib = figure("status", "VmHWM")
        nursery.cancel_scope.cancel()

    assert peak_kib < 100 * 1024
    assert not CHILDREN.pids
