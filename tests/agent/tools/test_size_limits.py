"""Files that are too large: refused before they are read, with their size and what to do (R-LIM-04)."""

import os
import threading
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.listing import list_sessions
from pinnace_agent.session.opening import check_path, read_text
from pinnace_agent.session.store import append_file as growing_file
from pinnace_agent.session.store.append_file import FileReplaced, create
from pinnace_agent.tools.base import ToolContext, ToolError
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.local.files import LocalEdit
from pinnace_agent.tools.text import match as text_match
from pinnace_agent.tools.text.match import normalise
from pinnace_spec.rules import errors
from pinnace_spec.rules.limits import MAX_EDIT_BYTES, MAX_SESSION_BYTES

HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}\n'
HUGE = 20 * 1024**3
# Refusing takes no memory to speak of.
MOST_BYTES = 2 * 1024 * 1024


def sparse(path: Path, size: int, start: bytes = b"") -> Path:
    """Make a file of a size that takes no room on the disk."""
    path.write_bytes(start)
    os.truncate(path, size)
    return path


def traced(work: Callable[[], object]) -> int:
    """Return how many bytes of memory some work takes at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def edited(path: Path, operations: LocalEdit | None = None) -> None:
    tool = EditTool() if operations is None else EditTool(operations=operations)
    arguments = {"path": str(path), "edits": [{"oldText": "a", "newText": "b"}]}
    await tool.execute(arguments, ToolContext(str(path.parent), "c1", lambda _: None, {}))


async def test_an_edit_of_a_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = sparse(tmp_path / "huge", 3 * 1024**3)
    tracemalloc.start()
    with pytest.raises(ToolError) as refusal:
        await edited(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert str(refusal.value) == (
        f"File too large to edit: {path} has more than 32.0MB. "
        "Use bash with a program that reads it piece by piece, e.g. sed."
    )
    assert peak < MOST_BYTES


async def test_an_edit_of_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    class Grows(LocalEdit):
        async def access(self, path: str) -> None:
            os.truncate(path, HUGE)

    path = sparse(tmp_path / "f", 10)
    with pytest.raises(ToolError, match="too large to edit"):
        await edited(path, Grows())
    assert path.stat().st_size == HUGE


async def test_an_edit_that_is_aborted_while_it_compares_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison goes on in its thread until its next look, and nothing is written."""
    path = tmp_path / "f"
    path.write_text("a\n")
    begun, may_end = trio.Event(), threading.Event()

    def slow(text: str) -> str:
        trio.from_thread.run_sync(begun.set)
        may_end.wait(90)
        return text

    monkeypatch.setattr(text_match, "normalise", slow)
    try:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(edited, path)
                await begun.wait()
                nursery.cancel_scope.cancel()
    finally:
        may_end.set()
    assert path.read_text() == "a\n"


@given(st.text(st.sampled_from("ae\u0301\u0300\u00a0 \n\t\u1100\u1161\u11a8\ufb01\u201c\u0345\u3000x"), max_size=40))
def test_a_text_is_normalised_in_pieces_as_it_is_as_a_whole(text: str) -> None:
    whole = normalise(text)
    with pytest.MonkeyPatch.context() as patch:
        for size in (1, 2, 5):
            patch.setattr(text_match, "_PIECE_CHARACTERS", size)
            assert normalise(text) == whole


def test_no_call_of_the_unicode_tables_gets_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def spy(form: Any, text: str) -> str:
        sizes.append(len(text))
        return text

    monkeypatch.setattr(unicodedata, "normalize", spy)
    monkeypatch.setattr(text_match, "_PIECE_CHARACTERS", 1_000)
    normalise("h\u00e9llo w\u00f6rld " * 10_000)

    assert max(sizes) < 1_100


def test_a_huge_session_is_refused_with_its_size(tmp_path: Path) -> None:
    path = sparse(tmp_path / "s.jsonl", HUGE, HEADER)

    def refused() -> None:
        with pytest.raises(errors.ClientError) as error:
            read_text(check_path(str(path), "/"))
        assert error.value.code is errors.ErrorCode.SESSION_UNAVAILABLE
        assert error.value.text == (
            f"Session can't be opened: {path}: it has 21,474,836,480 bytes, and a session may have 1,073,741,824"
        )

    assert traced(refused) < MOST_BYTES


def test_a_huge_session_is_reported_and_the_others_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(HEADER)
    path = sparse(tmp_path / "b.jsonl", HUGE, HEADER)
    reports: list[str] = []

    infos = list_sessions(SessionFolder(tmp_path, is_flat=True), None, reports.append)

    assert [info.path.name for info in infos] == ["a.jsonl"]
    assert reports == [f"{path} is not listed: it has 21,474,836,480 bytes, and a session may have 1,073,741,824"]


def test_what_another_program_appends_without_end_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    file = create(path)
    file.write(HEADER)
    os.truncate(path, HUGE)

    def looked() -> None:
        with pytest.raises(FileReplaced, match="larger than a session may be"):
            file.check_for_changes()

    assert traced(looked) < MOST_BYTES
    file.descriptor.release()


def test_a_session_does_not_grow_beyond_what_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a full disk: what can't be written is kept in memory, and the file is as it was."""
    monkeypatch.setattr(growing_file, "MAX_SESSION_BYTES", len(HEADER) + 10)
    file = create(tmp_path / "s.jsonl")
    file.write(HEADER)

    with pytest.raises(OSError, match="File too large"):
        file.write(b"x" * 11)

    assert (tmp_path / "s.jsonl").read_bytes() == HEADER
    file.write(b"x" * 10)
    file.descriptor.release()


def test_a_session_of_the_size_that_is_allowed_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.jsonl").write_bytes(HEADER)
    monkeypatch.setattr(growing_file, "MAX_SESSION_BYTES", len(HEADER))

    assert Library(None).open(tmp_path / "s.jsonl", "/w", None).session.id == "s"


def test_the_limits_are_far_above_ordinary_files() -> None:
    assert MAX_EDIT_BYTES >= 32 * 1024**2
    assert MAX_SESSION_BYTES >= 1024**3
