"""From the path that a model wrote to a path of the system."""

import os
import unicodedata
from pathlib import Path

import pytest

from pinnace_agent.approval.question import examine
from pinnace_agent.files.paths import protected_places
from pinnace_agent.tools.base import Tool, ToolContext, ToolError, ToolResult
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.find import FindTool
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.ls import LsTool
from pinnace_agent.tools.paths import os_error_text, readable_paths, resolve_path
from pinnace_agent.tools.read import ReadTool
from pinnace_agent.tools.validation import validate_arguments
from pinnace_agent.tools.write import WriteTool


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a.txt", "/work/a.txt"),
        ("./a/../b.txt", "/work/b.txt"),
        ("../b", "/b"),
        ("/abs//x/.", "/abs/x"),
        ("//x", "/x"),
        ("@a.txt", "/work/a.txt"),
        ("@@a.txt", "/work/@a.txt"),
        ("a\u00a0b\u202fc\u3000d.txt", "/work/a b c d.txt"),
        ("file:///tmp/a%20b.txt", "/tmp/a b.txt"),
        ("file://localhost/tmp/x", "/tmp/x"),
        ("~user/x", "/work/~user/x"),
        (" a ", "/work/ a "),
    ],
)
def test_a_path_is_read_as_it_is_meant(written: str, meant: str) -> None:
    assert resolve_path(written, "/work") == meant


def test_a_tilde_is_the_home_folder() -> None:
    home = os.path.expanduser("~")

    assert resolve_path("~", "/work") == home
    assert resolve_path("~/x", "/work") == os.path.join(home, "x")


@pytest.mark.parametrize("written", ["file://elsewhere/x", "a\0b", "a\ud800b"])
def test_a_path_of_another_machine_is_rejected(written: str) -> None:
    with pytest.raises(ToolError, match="Not a "):
        resolve_path(written, "/work")


@pytest.mark.parametrize(
    ("on_disk", "written"),
    [
        ("Shot at 3.04\u202fPM.png", "Shot at 3.04 PM.png"),
        ("Shot at 3.04\u202fam.png", "Shot at 3.04 am.png"),
        (unicodedata.normalize("NFD", "café.txt"), "café.txt"),
        ("it\u2019s.txt", "it's.txt"),
        (unicodedata.normalize("NFD", "l\u2019été.txt"), "l'été.txt"),
    ],
)
def test_a_name_as_macos_writes_it_is_found(on_disk: str, written: str, tmp_path: Path) -> None:
    assert str(tmp_path / on_disk) in readable_paths(written, str(tmp_path))


def test_the_name_as_written_comes_first(tmp_path: Path) -> None:
    assert readable_paths("it's", str(tmp_path)) == [str(tmp_path / "it's"), str(tmp_path / "it\u2019s")]


def test_a_name_that_is_written_in_one_way_only_is_looked_for_once(tmp_path: Path) -> None:
    assert readable_paths("plain.txt", str(tmp_path)) == [str(tmp_path / "plain.txt")]


def test_a_failure_names_its_code_and_the_file() -> None:
    with pytest.raises(OSError) as caught:
        os.stat("/no/such/file")

    assert os_error_text(caught.value, "open", "/no/such/file") == (
        "ENOENT: no such file or directory, open '/no/such/file'"
    )


def text_of(result: ToolResult) -> str:
    (block,) = result.content
    assert block["type"] == "text"
    return block["text"]


COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(
    ("there", "given", "found"),
    [
        (f"{DECOMPOSED}/{DECOMPOSED}.txt", f"{COMPOSED}/{COMPOSED}.txt", f"{DECOMPOSED}/{DECOMPOSED}.txt"),
        (f"{COMPOSED}/{DECOMPOSED}.txt", f"{COMPOSED}/{COMPOSED}.txt", f"{COMPOSED}/{DECOMPOSED}.txt"),
        (f"{COMPOSED}.txt", f"{DECOMPOSED}.txt", f"{COMPOSED}.txt"),
        (f"{DECOMPOSED}/x", f"{COMPOSED}/new/{COMPOSED}", f"{DECOMPOSED}/new/{COMPOSED}"),
        ("x", f"{COMPOSED}/{COMPOSED}", f"{COMPOSED}/{COMPOSED}"),
    ],
)
async def test_a_name_is_found_in_the_other_normal_form(there: str, given: str, found: str, tmp_path: Path) -> None:
    """R-TOL-02: `write` makes no second file that looks like the first, `edit` and the others find it."""
    work = tmp_path / f"{COMPOSED} work"  # the folder's own form stays
    file = work / there
    file.parent.mkdir(parents=True)
    file.write_text("old")

    async def call(tool: Tool, **raw: object) -> ToolResult:
        context = ToolContext(str(work), "c1", lambda _: None, dict(os.environ))
        return await tool.execute(validate_arguments(tool, raw), context)

    await call(WriteTool(), path=given, content="old")
    assert {str(each.relative_to(work)) for each in work.rglob("*") if each.is_file()} == {there, found}
    await call(EditTool(), path=given, edits=[{"oldText": "old", "newText": "new"}])
    assert (work / found).read_text() == "new"
    assert (await call(ReadTool(), path=given)).content == [{"type": "text", "text": "new"}]
    folder = os.path.dirname(given) or "."
    searches: list[tuple[Tool, dict[str, object]]] = [
        (LsTool(), {}),
        (FindTool(), {"pattern": "*"}),
        (GrepTool(), {"pattern": "new"}),
    ]
    for tool, raw in searches:
        assert os.path.basename(found) in text_of(await call(tool, path=folder, **raw))


async def test_a_file_that_is_named_exactly_is_not_taken_for_its_twin(tmp_path: Path) -> None:
    """R-TOL-02."""
    for name in (COMPOSED, DECOMPOSED):
        (tmp_path / name).write_text(name)

    for name in (COMPOSED, DECOMPOSED):
        context = ToolContext(str(tmp_path), "c1", lambda _: None, {})
        assert text_of(await ReadTool().execute({"path": name}, context)) == name


async def test_the_file_that_is_approved_is_the_one_that_is_changed(tmp_path: Path) -> None:
    """R-TOL-02: also where its name has another normal form than the call."""
    (tmp_path / DECOMPOSED).write_text("old")
    examined = await examine(
        "write", {"path": COMPOSED, "content": "new"}, str(tmp_path), lambda: protected_places({}, ()), is_builtin=True
    )

    assert examined.path == str(tmp_path / DECOMPOSED)
    context = ToolContext(str(tmp_path), "c1", lambda _: None, {}, bound_path=examined.bound_path)
    await WriteTool().execute(examined.arguments, context)
    assert (os.listdir(tmp_path), (tmp_path / DECOMPOSED).read_text()) == ([DECOMPOSED], "new")
