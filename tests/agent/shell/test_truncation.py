"""How texts are cut, against the plain rule: line by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.shell.truncation import Truncation, format_size, truncate_head, truncate_tail

texts = st.text(st.sampled_from("ab\n\né€😀"), max_size=60)


def size(text: str) -> int:
    return len(text.encode())


def plain_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


@given(texts, st.integers(1, 8), st.integers(1, 40))
def test_a_head_keeps_whole_leading_lines(text: str, max_lines: int, max_bytes: int) -> None:
    cut = truncate_head(text, max_lines=max_lines, max_bytes=max_bytes)
    lines = plain_lines(text)

    assert (cut.total_lines, cut.total_bytes) == (len(lines), size(text))
    if len(lines) <= max_lines and size(text) <= max_bytes:
        assert (cut.content, cut.truncated_by) == (text, None)
        return
    kept = cut.output_lines
    assert cut.content == "\n".join(lines[:kept])
    assert cut.output_bytes == size(cut.content) <= max_bytes
    assert kept <= max_lines
    assert kept in (max_lines, len(lines)) or size("\n".join(lines[: kept + 1])) > max_bytes, "nothing more fits"
    assert cut.truncated_by == ("lines" if kept in (max_lines, len(lines)) else "bytes")
    assert cut.first_line_exceeds_limit == (kept == 0)


@given(texts, st.integers(1, 8), st.integers(4, 40))
def test_a_tail_keeps_whole_trailing_lines(text: str, max_lines: int, max_bytes: int) -> None:
    cut = truncate_tail(text, max_lines=max_lines, max_bytes=max_bytes)
    lines = plain_lines(text)

    assert (cut.total_lines, cut.total_bytes) == (len(lines), size(text))
    if len(lines) <= max_lines and size(text) <= max_bytes:
        assert (cut.content, cut.truncated_by) == (text, None)
        return
    assert cut.output_bytes == size(cut.content) <= max_bytes
    if size(lines[-1]) > max_bytes:
        assert cut.last_line_partial
        assert cut.truncated_by == "bytes"
        assert lines[-1].endswith(cut.content)
        assert size(cut.content) > max_bytes - 4, "no more than a part of a character is lost"
        return
    kept = cut.output_lines
    assert not cut.last_line_partial
    assert cut.content == "\n".join(lines[-kept:])
    assert kept in (max_lines, len(lines)) or size("\n".join(lines[-kept - 1 :])) > max_bytes, "nothing more fits"
    assert cut.truncated_by == ("lines" if kept in (max_lines, len(lines)) else "bytes")


def test_the_record_has_the_names_that_clients_read() -> None:
    assert truncate_tail("a\nb\nc\n", max_lines=2).record() == {
        "content": "b\nc",
        "truncated": True,
        "truncatedBy": "lines",
        "totalLines": 3,
        "totalBytes": 6,
        "outputLines": 2,
        "outputBytes": 3,
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": 2,
        "maxBytes": 51_200,
    }


def test_a_text_within_the_limits_keeps_its_trailing_line_feed() -> None:
    assert truncate_head("a\nb\n") == Truncation("a\nb\n", None, 2, 4, 2, 4)


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.0KB"), (51_200, "50.0KB"), (1024 * 1024, "1.0MB"), (1_600_000, "1.5MB")],
)
def test_sizes_are_worded_with_one_decimal(count: int, words: str) -> None:
    assert format_size(count) == words
