"""Which files the client serves to the tools, and what becomes of a call when it does not. R-FIL-01, R-FIL-03, 04."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.agent.client_files.conftest import ScriptedClient

from pinnace_agent.client_files.call_files import MAX_SERVED_BYTES
from pinnace_agent.tools.base import ApprovalOutdated, ToolError
from pinnace_spec.records.messages import FILE_METHODS

GIF = b"GIF89a"  # also UTF-8


def refusing(record: Mapping[str, Any]) -> Mapping[str, object]:
    return {"success": False, "error": f"no {record['method']}"}


def serving(record: Mapping[str, Any]) -> Mapping[str, object]:
    return {"success": True, "content": "typed\n"} if record["method"] == "read_text_file" else {"success": True}


async def test_what_the_client_can_not_serve_is_on_the_disk(client: ScriptedClient, tmp_path: Path) -> None:
    """R-FIL-01."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "a.txt").write_text("outside")
    (work / "link.txt").symlink_to(other / "a.txt")
    (work / "latin.txt").write_bytes(b"caf\xe9")
    (work / "zero.txt").write_bytes(b"a\0b")
    (work / "image").write_bytes(GIF)
    (work / "large.txt").write_bytes(b"a\n" * (MAX_SERVED_BYTES // 2 + 1))
    (work / "broken.txt").symlink_to(work / "nothing")
    client.answer = serving

    assert "outside" == await client.call("read", work, path="../other/a.txt")
    assert "outside" == await client.call("read", work, path="link.txt")
    assert "caf" in await client.call("read", work, path="latin.txt")
    assert (await client.call("read", work, path="zero.txt")).startswith("[Binary file")
    assert "image" in await client.call("read", work, path="image")
    assert "a" in await client.call("read", work, path="large.txt", limit=1)
    for path in (".", "broken.txt"):
        with pytest.raises(ToolError):
            await client.call("read", work, path=path)
    await client.edit(work, "latin.txt", "ca", "ba")
    await client.call("write", work, path="link.txt", content="written")
    await client.call("write", work, path="zero.txt", content="text")
    assert b"baf\xe9" == (work / "latin.txt").read_bytes()
    assert "written" == (other / "a.txt").read_text()
    assert "text" == (work / "zero.txt").read_text()
    assert [] == client.asked
    assert "typed\n" == await client.call("read", work, path="zero.txt")
    assert "typed\n" == await client.call("read", work, path="new/never-saved.txt")


async def test_an_edit_needs_both_methods(client: ScriptedClient, tmp_path: Path) -> None:
    """R-FIL-01: a text that is read in one place and written in another would lose changes."""
    (tmp_path / "a.txt").write_text("saved\n")
    client.answer = serving
    for offered in FILE_METHODS:
        client.requests.offer([offered])
        with pytest.raises(ToolError, match="Could not find"):
            await client.edit(tmp_path, "a.txt", "typed", "changed")
    assert [] == client.asked
    client.requests.offer(["read_text_file", "write_text_file"])
    await client.edit(tmp_path, "a.txt", "typed", "changed")

    assert "changed\n" == client.asked[-1]["content"]
    assert "saved\n" == (tmp_path / "a.txt").read_text()


async def test_what_the_client_refuses(client: ScriptedClient, tmp_path: Path) -> None:
    """R-FIL-03, R-FIL-04: reads are on the disk, and an edit then is entirely; a write fails."""
    (tmp_path / "a.txt").write_text("saved\n")
    client.answer = refusing
    assert "saved\n" == await client.call("read", tmp_path, path="a.txt")
    with pytest.raises(ToolError, match="ENOENT"):
        await client.call("read", tmp_path, path="b.txt")
    with pytest.raises(ToolError, match="was not written: no write_text_file"):
        await client.call("write", tmp_path, path="new/b.txt", content="x")
    assert not (tmp_path / "new").exists()
    await client.edit(tmp_path, "a.txt", "saved", "changed")
    assert "changed\n" == (tmp_path / "a.txt").read_text()

    client.answer = lambda record: (serving if record["method"] == "read_text_file" else refusing)(record)
    with pytest.raises(ToolError, match="no write_text_file"):
        await client.edit(tmp_path, "a.txt", "typed", "x")
    assert "changed\n" == (tmp_path / "a.txt").read_text()


async def test_a_client_that_is_silent_at_a_read_leaves_it_to_the_disk(
    client: ScriptedClient, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """R-FIL-03."""
    (tmp_path / "a.txt").write_text("saved\n")

    assert "saved\n" == await client.call("read", tmp_path, path="a.txt")
    assert 1 == len(client.asked)


async def test_a_client_that_is_silent_at_a_write_fails_the_call(
    client: ScriptedClient, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """R-FIL-04: it may still write."""
    with pytest.raises(ToolError, match=r"unknown whether .* was written: the client has not answered in 30 seconds"):
        await client.call("write", tmp_path, path="a.txt", content="x")
    assert not (tmp_path / "a.txt").exists()


async def test_a_method_that_is_unsupported_is_withdrawn(client: ScriptedClient, tmp_path: Path) -> None:
    """R-FIL-04."""
    (tmp_path / "a.txt").write_text("typed\n")

    def unsupported(record: Mapping[str, Any]) -> Mapping[str, object]:
        is_read = record["method"] == "read_text_file"
        return serving(record) if is_read else {"success": False, "errorCode": "unsupported"}

    client.answer = unsupported
    with pytest.raises(ToolError, match="not changed"):
        await client.edit(tmp_path, "a.txt", "typed", "changed")
    assert "typed\n" == (tmp_path / "a.txt").read_text()
    await client.edit(tmp_path, "a.txt", "typed", "changed")
    assert "changed\n" == (tmp_path / "a.txt").read_text()
    assert 2 == len(client.asked)
    client.requests.offer(["write_text_file"])
    await client.call("write", tmp_path, path="new/a.txt", content="x")

    assert "x" == (tmp_path / "new/a.txt").read_text()
    assert 3 == len(client.asked)


async def test_line_ends_and_the_byte_order_mark_stay(client: ScriptedClient, tmp_path: Path) -> None:
    client.answer = lambda record: {**serving(record), "content": "\ufeffa\r\nb\r\n"}
    await client.edit(tmp_path, "a.txt", "a\nb", "c\nd")

    assert "\ufeffc\r\nd\r\n" == client.asked[-1]["content"]


async def test_a_text_that_is_no_unicode_is_read_on_the_disk(client: ScriptedClient, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n")
    client.answer = lambda _: {"success": True, "content": "\ud800"}

    assert "saved\n" == await client.call("read", tmp_path, path="a.txt")


async def test_a_call_that_was_approved_for_a_file_writes_no_other_one(client: ScriptedClient, tmp_path: Path) -> None:
    """The client gets the path that was approved, and only while it is no link."""
    work = tmp_path.resolve() / "work"
    (work / "docs").mkdir(parents=True)
    (work / "link").symlink_to("docs")
    client.answer = serving
    bound = str(work / "docs/a.txt")
    await client.call("write", work, path="link/a.txt", content="x", bound_path=bound)
    assert bound == client.asked[-1]["path"]
    (work / "docs").rename(work / "other")
    (work / "docs").symlink_to("other")
    with pytest.raises(ApprovalOutdated):
        await client.call("write", work, path="link/a.txt", content="x", bound_path=bound)

    assert 1 == len(client.asked)
