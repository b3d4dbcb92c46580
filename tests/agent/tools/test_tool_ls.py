"""The ls tool: order, limits, notices and failures in the words that models know."""

import os
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.core.control_text import visible_controls
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_agent.tools.ls import LsTool
from pinnace_agent.tools.validation import validate_arguments


async def run(folder: Path, **raw: object) -> ToolResult:
    tool = LsTool()
    return await tool.execute(validate_arguments(tool, raw), ToolContext(str(folder), "c1", lambda _: None, {}))


def reply(text: str, details: dict[str, object] | None = None) -> ToolResult:
    return ToolResult([{"type": "text", "text": text}], details)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


async def test_entries_are_sorted_and_folders_marked(tmp_path: Path) -> None:
    touch(tmp_path, "b", "A", ".hidden", "c d")
    (tmp_path / "Bin").mkdir()
    (tmp_path / "door").symlink_to("Bin")

    assert await run(tmp_path) == reply(".hidden\nA\nb\nBin/\nc d\ndoor/")


async def test_the_order_is_that_of_a_list_for_people(tmp_path: Path) -> None:
    """Recorded from the original: marks, digits, letters, neither case nor accents first."""
    order = ["_a", "-a", ",c", ";s", "!x", ".a", "'q", "(p", "[b", "{c", "@at", "&am", "#h", "%p", "`bt", "^c", "+p"]
    order += ["=e", "~t", "$d", "€e", "10", "1a", "2", "9", "a", "a  c", "a b", "a_b", "a-b", "a.b", "a1", "a10", "a2"]
    order += ["AB", "Ab", "aB", "ab", "B", "e", "é", "f", "n", "ñ", "o", "Z", "zß", "Ω", "я", "中"]
    touch(tmp_path, *order)

    assert await run(tmp_path) == reply("\n".join(order))


async def test_the_path_is_relative_to_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    touch(tmp_path / "in", "x")

    for path in ("in", "@in", "./in/../in/", str(tmp_path / "in")):
        assert await run(tmp_path, path=path) == reply("x")
    assert await run(tmp_path, path="") == await run(tmp_path, path=None) == reply("in/")


async def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    assert await run(tmp_path) == reply("(empty directory)")


async def test_links_to_nothing_and_loops_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")

    assert await run(tmp_path) == reply("(empty directory)")
    touch(tmp_path, "z")
    assert await run(tmp_path) == reply("z")


@pytest.mark.parametrize(("limit", "shown"), [(2, 2), (2.9, 2), (0, 1), (-1, 1)])
async def test_more_results_than_the_limit_are_reported(tmp_path: Path, limit: float, shown: int) -> None:
    touch(tmp_path, "a", "b", "c")

    body = "\n".join("abc"[:shown])
    notice = f"[{shown} entries limit reached. Use limit={shown * 2} for more]"
    assert await run(tmp_path, limit=limit) == reply(f"{body}\n\n{notice}", {"entryLimitReached": shown})


async def test_as_many_as_the_limit_are_all(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{number:03}" for number in range(500)))

    assert (await run(tmp_path)).details is None
    touch(tmp_path, "500")
    assert (await run(tmp_path)).details == {"entryLimitReached": 500}
    assert (await run(tmp_path, limit=1e300)).details is None


async def test_too_many_bytes_are_cut_at_an_entry(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{number:0200}" for number in range(301)))
    result = await run(tmp_path, limit=300)

    (block,) = result.content
    assert block["type"] == "text"
    body, notices = block["text"].split("\n\n")
    assert body == "\n".join(f"{number:0200}" for number in range(254))
    assert notices == "[300 entries limit reached. Use limit=600 for more. 50.0KB limit reached]"
    assert result.details is not None
    assert result.details["entryLimitReached"] == 300
    truncation = result.details["truncation"]
    assert isinstance(truncation, dict)
    assert (truncation["totalLines"], truncation["totalBytes"], truncation["outputLines"]) == (300, 300 * 201 - 1, 254)


async def test_names_may_be_odd(tmp_path: Path) -> None:
    touch(tmp_path, "-rf", "a\nb", os.fsdecode(b"\xff"), " ")

    assert await run(tmp_path) == reply(" \n-rf\na\nb\n\ufffd")


async def test_a_path_that_is_no_folder_is_rejected(tmp_path: Path) -> None:
    touch(tmp_path, "file")
    (tmp_path / "dangling").symlink_to("nowhere")
    cases = {
        "nope": "Path not found",
        "dangling": "Path not found",
        "file/x": "Path not found",
        "file": "Not a directory",
    }
    for name, text in cases.items():
        with pytest.raises(ToolError) as caught:
            await run(tmp_path, path=name)
        assert str(caught.value) == f"{text}: {tmp_path / name}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_folder_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    with pytest.raises(ToolError) as caught:
        await run(tmp_path, path="locked")
    path = tmp_path / "locked"
    assert str(caught.value) == f"Cannot read directory: EACCES: permission denied, scandir '{path}'"


async def test_a_cancelled_call_ends(tmp_path: Path) -> None:
    touch(tmp_path, *(str(number) for number in range(2_000)))
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(tmp_path, limit=10_000)

    assert scope.cancelled_caught


@given(
    names=st.sets(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20), max_size=30)
)
def test_every_entry_is_listed_once(tmp_path_factory: pytest.TempPathFactory, names: set[str]) -> None:
    folder = tmp_path_factory.mktemp("names")
    touch(folder, *(name for name in names if name not in (".", "..")))
    result = trio.run(lambda: run(folder))

    (block,) = result.content
    assert block["type"] == "text"
    there = sorted(os.listdir(folder))
    listed = block["text"].split("\n") if there else [""]
    # Each by itself: a carriage return at the end of a name is no line break with the next one.
    assert sorted("\n".join(map(visible_controls, there)).split("\n")) == sorted(listed)
