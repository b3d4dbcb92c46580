"""The tail of an output: what is shown, what is kept, what the file gets."""

import codecs
import os
import stat
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinnace_agent.core.control_text import ControlTextFilter
from pinnace_agent.shell import output as output_module
from pinnace_agent.shell.output import OutputTail
from pinnace_agent.shell.truncation import MAX_BYTES, MAX_LINES, truncate_tail


def cut(data: bytes, positions: list[int]) -> Iterator[bytes]:
    """The data in pieces, cut at the positions as far as they are inside."""
    places = [0, *sorted(position % (len(data) + 1) for position in positions), len(data)]
    return (data[start:end] for start, end in pairwise(places))


def fed(output: OutputTail, data: bytes, positions: list[int]) -> str:
    return "".join([output.feed(piece) for piece in cut(data, positions)]) + output.finish()


cuts = st.lists(st.integers(0, 1_000_000), max_size=20)


@given(st.binary(max_size=200), cuts)
@example(b"\xef", [])
@example(b"\xef\xbb", [1])
@example(codecs.BOM_UTF8, [2])
@example(codecs.BOM_UTF8 + b"a", [1, 3])
def test_text_does_not_depend_on_how_the_bytes_arrive(data: bytes, positions: list[int]) -> None:
    """A byte order mark at the very beginning is not for the reader."""
    output = OutputTail()
    text = ControlTextFilter().feed(data.removeprefix(codecs.BOM_UTF8).decode(errors="replace"))

    assert fed(output, data, positions) == text.replace("\r", "")
    assert output.snapshot().text == text.replace("\r", "")
    assert output.result().text == "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))


@given(
    st.lists(st.sampled_from(["", "x", "long " * 30, "é" * 200, "€" * 30_000]), max_size=12),
    st.integers(0, 1_500),
    st.booleans(),
    cuts,
)
def test_what_is_shown_is_the_tail_of_the_whole_text(
    lines: list[str], repeated: int, ends: bool, positions: list[int]
) -> None:
    text = "\n".join([*lines, *["short"] * repeated, *lines]) + ("\n" if ends else "")
    output = OutputTail()
    fed(output, text.encode(), positions)
    shown = output.result()

    expected = truncate_tail(text)
    if shown.full_output_path is not None:
        assert Path(shown.full_output_path).read_text() == text
        os.unlink(shown.full_output_path)
    assert shown.text == expected.content
    assert shown.truncation == (expected if expected.is_truncated else None)
    assert shown.last_line_bytes == len(text.removesuffix("\n").split("\n")[-1].encode())


@pytest.mark.parametrize(
    ("data", "has_file"),
    [
        (b"x" * MAX_BYTES, False),
        (b"x" * (MAX_BYTES + 1), True),
        (b"\n" * MAX_LINES, False),
        (b"\n" * MAX_LINES + b"x", True),
        (b"\xff" * (MAX_BYTES // 3 + 1), True),  # each byte becomes a character of three
    ],
    ids=["bytes", "a byte more", "lines", "a line more", "longer as text"],
)
def test_the_file_begins_when_a_limit_is_passed(data: bytes, has_file: bool, tmp_path: Path) -> None:
    output = OutputTail(temp_dir=str(tmp_path))
    output.feed(data)

    assert (output.snapshot().full_output_path is not None) == has_file
    assert len(os.listdir(tmp_path)) == has_file
    output.finish()


def test_the_file_is_for_the_user_alone(tmp_path: Path) -> None:
    output = OutputTail(temp_dir=str(tmp_path))
    output.feed(b"x" * 60_000)
    path = output.result().full_output_path

    assert path is not None
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    name = os.path.basename(path)
    assert name.startswith("pi-bash-")
    assert name.endswith(".log")
    assert len(name) == len("pi-bash-.log") + 16


def test_the_file_holds_what_came_before_it_was_needed(tmp_path: Path) -> None:
    output = OutputTail(temp_dir=str(tmp_path))
    for number in range(10_000):
        output.feed(b"%d\n" % number)
    path = output.result().full_output_path

    assert path is not None
    assert Path(path).read_text() == "".join(f"{number}\n" for number in range(10_000))


def test_the_file_has_all_bytes_and_what_is_shown_no_controls(tmp_path: Path) -> None:
    output = OutputTail(temp_dir=str(tmp_path))
    output.feed(b"\x1b[31mred\x1b[0m" * 10_000)
    shown = output.result()

    assert shown.text == "red" * 10_000
    assert shown.truncation is None
    assert shown.full_output_path is not None
    assert Path(shown.full_output_path).read_text() == "\x1b[31mred\x1b[0m" * 10_000


@given(
    st.lists(st.sampled_from(["", "1%", "x" * 300, "é" * 40_000, "\r", "\n", "\r\n", "50%\r100%"]), max_size=20),
    cuts,
)
@example(["kept\n", "é" * 40_000, "é" * 40_000, "\r", "done"], [])
def test_progress_is_shown_by_its_last_state_and_updates_only_grow(parts: list[str], positions: list[int]) -> None:
    """R-TOL-11, R-TOL-08: a terminal would overwrite it, and clients expect all output so far."""
    text = "".join(parts)
    output = OutputTail()
    fed(output, text.encode(), positions)
    shown = output.snapshot()

    filtered = ControlTextFilter().feed(text)
    grown = truncate_tail(filtered.replace("\r", ""))
    assert (shown.text, shown.truncation is not None) == (grown.content, grown.is_truncated)
    result, last = output.result(), "\n".join(line.rpartition("\r")[2] for line in filtered.split("\n"))
    whole = truncate_tail(last)
    if result.truncation is None or result.truncation.output_bytes == whole.output_bytes:
        assert (result.text, result.truncation is not None) == (whole.content, whole.is_truncated)
    else:  # what came before a long line had been forgotten when it was overwritten
        assert whole.content.endswith(result.text)
    assert result.last_line_bytes == len(last.removesuffix("\n").split("\n")[-1].encode())
    if result.full_output_path is not None:
        assert Path(result.full_output_path).read_bytes() == text.encode()
        os.unlink(result.full_output_path)


def test_a_file_that_can_not_be_made_is_done_without() -> None:
    output = OutputTail(temp_dir="/no/such/folder")
    output.feed(b"x\n" * 50_000)
    shown = output.result()

    assert shown.full_output_path is None
    assert shown.truncation is not None
    assert shown.truncation.output_lines == MAX_LINES


def test_memory_does_not_grow_with_the_output(tmp_path: Path) -> None:
    output = OutputTail(temp_dir=str(tmp_path))
    chunk = (b"0123456789" * 9 + b"\n") * 700
    tracemalloc.start()
    try:
        for _ in range(200):
            output.feed(chunk)
        for _ in range(20_000):
            output.feed(b"little" * 50)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    output.finish()

    assert peak < 2_000_000


def test_the_length_of_the_last_line_counts_all_its_pieces() -> None:
    output = OutputTail()
    for piece, length in ((b"x\nab", 2), (b"cd", 4), ("é\n".encode(), 6), (b"longer\nlast\n", 4), (b"y", 1)):
        output.feed(piece)
        assert output.snapshot().last_line_bytes == length


def test_a_snapshot_can_be_taken_at_any_time(tmp_path: Path) -> None:
    output = OutputTail(temp_dir=str(tmp_path))
    assert output.snapshot().text == ""
    output.feed("é".encode()[:1])
    assert output.snapshot().text == ""
    output.feed("é\n".encode()[1:])
    assert output.snapshot().text == "é\n"
    assert output.result().text == "é\n"
    assert output.result().text == "é\n"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\x1b[31mred\x1b[0m\r\n\0b\ufffdc\tz\a", "ared\nb\ufffdc\tz"),
        ("10%\r20%\r", "10%\r20%"),
        ("a\r\r\nb\r\r", "a\nb"),
        ("10%\r\x1b[K20%\x1b[0m\r\n", "10%\r20%\n"),
        ("\x1b]0;title\atext", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(B\x1b)0\x1b=\x1bMx", "x"),
        ("\x9b1;2mx", "x"),
        ("\x1bPq#0;2\x1b\\x", "x"),
        ("\x1b]never ended\nnext", "\nnext"),
        ("\x1b[31\nnext", "\nnext"),
        ("\x1b", ""),
        ("\x1b[3", ""),
        ("\ufff9a\ufffab\ufffb", "ab"),
        ("plain é\t\n", "plain é\t\n"),
        ("\x08\x7f", "\x7f"),
    ],
)
def test_what_is_for_a_terminal_is_removed(raw: str, clean: str) -> None:
    assert ControlTextFilter().feed(raw) == clean


_parts = st.sampled_from(
    ["\x1b", "\x1b[", "\x1b]", "\x9b", "31", ";", " ", "m", "0", "\\", "\a", "\x9c", "\n", "\r", "é", "\x1bP"]
)


@given(st.lists(_parts, max_size=30).map("".join), st.lists(st.integers(0, 100), max_size=8))
@example("\x1b\x1b  \x1b", [4])
@example("\x1b" + " " * 9 + "A", [9])
def test_what_is_removed_does_not_depend_on_how_it_arrives(text: str, positions: list[int]) -> None:
    places = [0, *sorted(position % (len(text) + 1) for position in positions), len(text)]
    control = ControlTextFilter()
    pieces = [control.feed(text[start:end]) for start, end in pairwise(places)]

    assert "".join(pieces) == ControlTextFilter().feed(text)


def test_a_control_string_without_an_end_is_not_kept() -> None:
    control = ControlTextFilter()
    tracemalloc.start()
    try:
        for _ in range(1_000):
            assert control.feed("\x1b]1337;File=" + "A" * 10_000) == ""
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert kept < 50_000


def test_the_file_of_an_endless_output_ends_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-LIM-04: a disk is not filled; the command goes on, and its end is shown."""
    monkeypatch.setattr(output_module, "MAX_OUTPUT_FILE_BYTES", 2 * MAX_BYTES)
    output = OutputTail(temp_dir=str(tmp_path))
    for _ in range(5):
        output.feed(b"y\n" * (MAX_BYTES // 2))
    output.feed(b"the end\n")
    shown = output.result()

    assert shown.text.endswith("the end\n") or shown.text.endswith("the end")
    assert shown.full_output_path is not None
    content = Path(shown.full_output_path).read_bytes()
    kept, marker = content[: 2 * MAX_BYTES], content[2 * MAX_BYTES :]
    assert kept == b"y\n" * MAX_BYTES
    assert marker == b"\n[The output goes on. This file keeps 1,024 MiB of it.]\n"
