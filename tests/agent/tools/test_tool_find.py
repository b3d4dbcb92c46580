"""The find tool, by fd and without it: globs, ignore rules, limits, notices, failures in the words that models know."""

import os
import re
import shutil
import stat
import time
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace_agent.search.glob_match import BadGlob, Glob, escape_glob
from pinnace_agent.shell.child_processes import CHILDREN
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_agent.tools.find import FindTool
from pinnace_agent.tools.local.find import LocalFind
from pinnace_agent.tools.local.search_program import find_fd, find_rg
from pinnace_agent.tools.validation import validate_arguments
from pinnace_fuzz.process_tree import is_alive

# A search here takes milliseconds; a process that was killed is gone at once.
TIMEOUT_S = 60
FOUND = {"fd": find_fd(os.environ), "rg": find_rg(os.environ)}


def only(name: str, folder: Path) -> dict[str, str]:
    """Return an environment in which one of the programs is found, or none: then the search is in Python."""
    folder.mkdir(exist_ok=True)
    if name != "python":
        if FOUND[name] is None:
            pytest.skip(f"{name} is not installed")
        (folder / name).symlink_to(str(FOUND[name]))
    return {"PATH": str(folder)}


@pytest.fixture(params=["fd", "rg", "python"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """What each way to search is found with."""
    assert isinstance(request.param, str)
    return only(request.param, tmp_path / "bin")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a repository to search in: there every fd can do what is asked."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    return work


async def run(folder: Path, env: dict[str, str], pattern: str, path: str | None = None, **raw: object) -> ToolResult:
    # A ripgrep that is installed as a package would be found without a path to it.
    tool = FindTool(LocalFind(find_rg=lambda env: shutil.which("rg", path=env["PATH"])))
    arguments = validate_arguments(tool, {"pattern": pattern, "path": path, **raw})
    with trio.fail_after(TIMEOUT_S):
        return await tool.execute(arguments, ToolContext(str(folder), "c1", lambda _: None, env))


async def paths(folder: Path, env: dict[str, str], pattern: str, path: str | None = None, **raw: object) -> list[str]:
    result = await run(folder, env, pattern, path, **raw)
    assert result.details is None
    text = text_of(result)
    return [] if text.startswith("No files found matching pattern") else sorted(text.split("\n"))


def text_of(result: ToolResult) -> str:
    (block,) = result.content
    assert block["type"] == "text"
    return block["text"]


def write(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")


TREE = ("a.py", "src/b.py", "src/deep/c.py", "src/deep/c.txt", "test/B.PY", ".dot/.env", "lib/src/e.py", "x y/[z].py")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "lib/src/e.py", "src/b.py", "src/deep/c.py", "test/B.PY", "x y/[z].py"]),
        ("*.PY", ["test/B.PY"]),
        ("?.py", ["a.py", "lib/src/e.py", "src/b.py", "src/deep/c.py", "test/B.PY"]),
        ("[!a-c].py", ["lib/src/e.py"]),
        ("src", ["lib/src/", "src/"]),
        ("src/*.py", ["lib/src/e.py", "src/b.py"]),
        ("src/**/*.py", ["lib/src/e.py", "src/b.py", "src/deep/c.py"]),
        ("**/deep/*", ["src/deep/c.py", "src/deep/c.txt"]),
        ("src/**", ["lib/src/e.py", "src/b.py", "src/deep/", "src/deep/c.py", "src/deep/c.txt"]),
        ("{a,b}.py", ["a.py", "src/b.py", "test/B.PY"]),
        ("{src,test}/*", ["lib/src/e.py", "src/b.py", "src/deep/", "test/B.PY"]),
        (
            "*.{txt,py}",
            ["a.py", "lib/src/e.py", "src/b.py", "src/deep/c.py", "src/deep/c.txt", "test/B.PY", "x y/[z].py"],
        ),
        (".env", [".dot/.env"]),
        ("[[]z].py", ["x y/[z].py"]),
        ("\\[*", ["x y/[z].py"]),
        ("x y/*", ["x y/[z].py"]),
        ("nothing", []),
        ("work/*", []),
        ("/a.py", []),
        ("-x", []),
    ],
)
async def test_a_glob_finds(folder: Path, env: dict[str, str], pattern: str, found: list[str]) -> None:
    write(folder, *TREE)

    assert await paths(folder, env, pattern) == found


@pytest.mark.parametrize("pattern", ["", "*", "**"])
async def test_everything_but_the_repository_itself_is_found(folder: Path, env: dict[str, str], pattern: str) -> None:
    write(folder, "a", "b/c", ".git/HEAD", "b/.git")

    assert await paths(folder, env, pattern) == ["a", "b/", "b/c"]
    assert await paths(folder, env, pattern, ".git") == ["HEAD"]


async def test_paths_are_relative_to_what_is_searched(folder: Path, env: dict[str, str]) -> None:
    write(folder, "one/two/three.txt")

    assert await paths(folder, env, "two/*", "@one") == ["two/three.txt"]
    assert await paths(folder, env, "one/**", "one") == []
    assert await paths(folder, env, f"{folder}/one/**/*.txt", "one") == ["two/three.txt"]


async def test_what_the_folder_is_called_changes_nothing(folder: Path, env: dict[str, str]) -> None:
    name = "A {b,c}[d]*?!\\ src"
    write(folder, f"{name}/src/f.ts", f"{name}/g.ts")

    assert await paths(folder, env, "src/**/*.TS".lower(), name) == ["src/f.ts"]


async def test_ignored_files_are_left_out(folder: Path, env: dict[str, str]) -> None:
    write(folder, "out/a", "b.log", "c", "sub/b.log", "sub/keep.log", "other/only.tmp", "other/d")
    (folder / ".gitignore").write_text("out/\n*.log\n")
    (folder / "sub/.gitignore").write_text("!keep.log\n")
    # Rules of one folder say nothing of its neighbours.
    (folder / "sub/.ignore").write_text("*.tmp\n")

    found = await paths(folder, env, "*")
    expected = [".gitignore", "c", "other/", "other/d", "other/only.tmp", "sub/", "sub/.gitignore", "sub/.ignore"]
    assert found == [*expected, "sub/keep.log"]


async def test_a_path_that_is_named_is_found_though_ignored(folder: Path, env: dict[str, str]) -> None:
    """R-TOL-07: and a search that finds nothing says that ignored files match."""
    write(folder, "out/a", "out/deep/b.log", ".env", "sub/.env", "c")
    (folder / ".gitignore").write_text("out/\n.env\n*.log\n")

    assert await paths(folder, env, ".env") == [".env"]
    assert await paths(folder, env, "./sub/.env") == ["sub/.env"]
    assert await paths(folder, env, "out") == ["out/"]
    assert text_of(await run(folder, env, "*.log")) == (
        "No files found matching pattern\n\n[Ignored files (.gitignore) were not searched, and some match, e.g. "
        "out/deep/b.log. To search them, give their folder as path]"
    )
    assert text_of(await run(folder, env, "*.log", "out")) == (
        "deep/b.log\n\n[Only files that .gitignore or another ignore file names match]"
    )
    assert text_of(await run(folder, env, "*.md")) == "No files found matching pattern"


async def test_a_pattern_may_begin_with_the_folder_itself(folder: Path, env: dict[str, str]) -> None:
    """R-TOL-07: `./` is the folder that is searched, so nothing deeper matches what follows it."""
    write(folder, "a.py", "sub/a.py", "sub/deep/b.py", "x/sub/c.py", "README")

    assert await paths(folder, env, "./*.py") == ["a.py"]
    assert await paths(folder, env, "././sub/**/*.py") == ["sub/a.py", "sub/deep/b.py"]
    assert await paths(folder, env, "./readme*") == ["README"]


async def test_ignore_rules_hold_outside_of_repositories(tmp_path: Path, env: dict[str, str]) -> None:
    if "fd" in os.listdir(env["PATH"]) and FOUND["rg"] is not None:
        # An old fd can't, and ripgrep does it instead.
        (Path(env["PATH"]) / "rg").symlink_to(FOUND["rg"])
    write(tmp_path / "w", "a.log", "b")
    (tmp_path / "w/.gitignore").write_text("*.log\n")

    assert await paths(tmp_path / "w", env, "*") == [".gitignore", "b"]


@pytest.mark.parametrize(("limit", "shown"), [(2, 2), (2.9, 2), (0, 1), (-5, 1)])
async def test_more_results_than_the_limit_are_reported(
    folder: Path, env: dict[str, str], limit: float, shown: int
) -> None:
    write(folder, "a", "b", "c")
    result = await run(folder, env, "?", limit=limit)

    body, notice = text_of(result).split("\n\n")
    assert len(body.split("\n")) == shown
    assert notice == f"[{shown} results limit reached. Use limit={shown * 2} for more, or refine pattern]"
    assert result.details == {"resultLimitReached": shown}


async def test_as_many_as_the_limit_are_all(folder: Path, env: dict[str, str]) -> None:
    write(folder, "a", "b", "c")

    assert await paths(folder, env, "?", limit=3) == ["a", "b", "c"]
    assert await paths(folder, env, "?", limit=1e300) == ["a", "b", "c"]


async def test_too_many_bytes_are_cut_at_a_path(folder: Path, env: dict[str, str]) -> None:
    write(folder, *(f"{number:0200}" for number in range(300)))
    result = await run(folder, env, "*0*")

    body, notice = text_of(result).split("\n\n")
    assert notice == "[50.0KB limit reached]"
    assert {len(line) for line in body.split("\n")} == {200}
    assert result.details is not None
    truncation = result.details["truncation"]
    assert isinstance(truncation, dict)
    assert (truncation["outputLines"], truncation["totalLines"], truncation["totalBytes"]) == (254, 300, 300 * 201 - 1)


async def test_names_may_be_odd(folder: Path, env: dict[str, str]) -> None:
    for name in (b"-rf.t", b"a b.t", b"new\nline.t", b"\xff\xfe.t", "é.t".encode(), b"{x}*.t"):
        (folder / os.fsdecode(name)).write_text("text")

    found = await paths(folder, env, "*.t")
    assert found == sorted(["-rf.t", "a b.t", "new", "line.t", "\ufffd\ufffd.t", "é.t", "{x}*.t"])


async def test_loops_of_links_are_not_followed(folder: Path, env: dict[str, str]) -> None:
    write(folder, "in/a.txt")
    (folder / "in/loop").symlink_to("..")
    (folder / "door").symlink_to("in")

    assert await paths(folder, env, "*.txt") == ["in/a.txt"]
    assert await paths(folder, env, "*.txt", "door") == ["a.txt"]


async def test_links_and_empty_folders_are_what_ripgrep_does_not_report(folder: Path, env: dict[str, str]) -> None:
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("nowhere")

    has_rg = "rg" in os.listdir(env["PATH"])
    assert await paths(folder, env, "*") == ([] if has_rg else ["empty/", "link"])


async def test_a_path_that_is_no_folder_is_rejected(folder: Path, env: dict[str, str]) -> None:
    write(folder, "file")
    for name, text in (("nope", "Path not found"), ("file", "Not a directory")):
        with pytest.raises(ToolError) as caught:
            await run(folder, env, "*", name)
        assert str(caught.value) == f"{text}: {folder / name}"


@pytest.mark.parametrize("pattern", ["[", "{a", "[z-a]", "a/[", "src/{a,b"])
async def test_a_glob_without_a_meaning_is_an_error(folder: Path, env: dict[str, str], pattern: str) -> None:
    with pytest.raises(ToolError, match="error parsing glob"):
        await run(folder, env, pattern)


def program(folder: Path, script: str) -> dict[str, str]:
    """Put a program called fd first on the path of a call."""
    folder.mkdir()
    file = folder / "fdfind"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}{os.pathsep}/bin{os.pathsep}/usr/bin"}


@pytest.fixture
def fd_is_named_fdfind() -> None:
    if shutil.which("fd", path="/bin:/usr/bin"):
        pytest.skip("a real fd comes first")


@pytest.mark.usefixtures("fd_is_named_fdfind")
@pytest.mark.parametrize(
    ("script", "told"),
    [("echo ' it broke ' >&2; exit 1", "it broke"), ("exit 3", "fd exited with code 3")],
)
async def test_a_failure_is_what_was_said_or_the_code(folder: Path, tmp_path: Path, script: str, told: str) -> None:
    with pytest.raises(ToolError) as caught:
        await run(folder, program(tmp_path / "fake", script), "x")
    assert str(caught.value) == told


@pytest.mark.usefixtures("fd_is_named_fdfind")
async def test_a_failure_with_results_is_none(folder: Path, tmp_path: Path) -> None:
    script = f"printf '{folder}/a\\0'; echo 'b: Permission denied' >&2; exit 1"

    assert await paths(folder, program(tmp_path / "fake", script), "x") == ["a"]


@pytest.mark.usefixtures("fd_is_named_fdfind")
async def test_an_abort_leaves_no_process(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    env = program(tmp_path / "fake", f"trap '' TERM INT; sleep 1000 & echo $! $$ >{tmp_path}/begun; wait")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run(folder, env, "x"))
        pids = (await trio.Path(tmp_path / "begun").read_text()).split()
        nursery.cancel_scope.cancel()

    assert not CHILDREN.pids
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(is_alive(int(pid)) for pid in pids):
        assert time.monotonic() < deadline_s
        await trio.sleep(0.01)


# What a glob means, against a plain reading.

LETTERS = st.sampled_from(["a", "b", "A", ".", "é", "\n"])
WORDS = st.lists(st.one_of(LETTERS, st.sampled_from(["*", "?", "[ab]", "[!a]", "**"])), min_size=1, max_size=5).map(
    "".join
)
PATTERNS = st.lists(st.one_of(WORDS, st.just("**")), min_size=1, max_size=4).map("/".join)
PATHS = st.lists(st.lists(LETTERS, min_size=1, max_size=4).map("".join), min_size=1, max_size=5).map("/".join)


def plain_match(pattern: str, path: str) -> bool:
    """Try everything: exponential, and so plain that it is right."""
    flags = re.DOTALL | (0 if re.search("[A-Z]", pattern) else re.IGNORECASE)

    def name(word: str, text: str) -> bool:
        translated = re.sub(r"\*+|\?|\[!?\w+\]|.", lambda found: one(found[0]), word, flags=re.DOTALL)
        return re.fullmatch(translated, text, flags) is not None

    def one(token: str) -> str:
        if token[0] == "*":
            return ".*"
        return {"?": ".", "[ab]": "[ab]", "[!a]": "[^a]"}.get(token, re.escape(token))

    def walk(words: list[str], parts: list[str]) -> bool:
        if not words:
            return not parts
        if words == ["**"]:
            return bool(parts)
        if words[0] == "**":
            return any(walk(words[1:], parts[skip:]) for skip in range(len(parts) + 1))
        return bool(parts) and name(words[0], parts[0]) and walk(words[1:], parts[1:])

    if "/" not in pattern:
        return name(pattern, path.rpartition("/")[2])
    return walk(["**", *pattern.split("/")], path.split("/"))


@given(pattern=PATTERNS, path=PATHS)
@settings(max_examples=400)
def test_a_glob_means_what_a_plain_reading_says(pattern: str, path: str) -> None:
    assert Glob(pattern).matches(path) == plain_match(pattern, path)


@given(text=st.text(st.characters(exclude_characters="/"), min_size=1), other=st.text(min_size=1))
def test_an_escaped_text_means_itself_alone(text: str, other: str) -> None:
    assert Glob("A" + escape_glob(text)).matches("A" + text)
    assert Glob("A" + escape_glob(text)).matches("A" + other) == (text == other.rpartition("/")[2] and "/" not in other)


@pytest.mark.parametrize("pattern", ["*a" * 30 + "b", "**/*a/" * 10 + "b", "{" + "a," * 900 + "b}" + "*a" * 5 + "c"])
def test_stars_cost_no_more_than_their_number(pattern: str) -> None:
    begun_s = time.process_time()
    assert not Glob(pattern).matches("/".join(["a" * 120] * 8))
    assert time.process_time() - begun_s < 2


@pytest.mark.parametrize("pattern", ["{a,b}" * 11, "a}", "\\", "{a,[}"])
def test_such_globs_are_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        Glob(pattern)


NAMES = st.sampled_from(["a.ts", "B.ts", "c", ".d", "e e", "x.log"])
TREES = st.sets(
    st.lists(st.sampled_from(["out", "src", "s p"]), max_size=3).flatmap(
        lambda folders: NAMES.map(lambda name: "/".join([*folders, name]))
    ),
    max_size=7,
)


@pytest.mark.parametrize("name", ["fd", "rg", "python"])
@given(
    tree=TREES,
    pattern=st.sampled_from(
        ["*", "*.ts", "B*", "src", "src/*", "src/**/*.ts", "**/out/**", "{c,.d}", "s p/?", "[!a]*"]
    ),
    is_ignoring=st.booleans(),
)
@settings(max_examples=25)
def test_it_finds_what_a_plain_search_finds(
    tmp_path_factory: pytest.TempPathFactory, name: str, tree: set[str], pattern: str, is_ignoring: bool
) -> None:
    root = tmp_path_factory.mktemp("tree")
    env = only(name, root / "bin")
    write(root / "work", *tree, ".git/HEAD")
    if is_ignoring:
        (root / "work/.git/info").mkdir()
        (root / "work/.git/info/exclude").write_text("out/\n*.log\n")
    kept = {path for path in tree if not is_ignoring or not ("out" in path.split("/") or path.endswith(".log"))}
    folders = {"/".join(path.split("/")[:depth]) for path in kept for depth in range(1, path.count("/") + 1)}
    if is_ignoring:
        # A folder whose files are all ignored is there nevertheless; ripgrep, which lists files, finds it by its path.
        above = {"/".join(path.split("/")[:depth]) for path in tree for depth in range(1, path.count("/") + 1)}
        folders |= {
            folder for folder in above if "out" not in folder.split("/") and (name != "rg" or folder == pattern)
        }
    expected = [path for path in kept if plain_match(pattern_words(pattern, path), path)]
    expected += [f"{path}/" for path in folders if plain_match(pattern_words(pattern, path), path)]

    assert trio.run(lambda: paths(root / "work", env, pattern)) == sorted(expected)
    shutil.rmtree(root)


def pattern_words(pattern: str, path: str) -> str:
    """Replace the one choice with braces by the choice that fits, if one does."""
    if pattern != "{c,.d}":
        return pattern
    name = path.rpartition("/")[2]
    return name if name in ("c", ".d") else "no such"
