"""The current warnings: new ones are said once, on stderr and as records. Rules R-WRN-01 and R-WRN-02."""

from collections.abc import Mapping

import pytest

from pinnace_agent.core.user_warnings import MOST_CHARS, MOST_KEPT, Notice, Warnings

FIRST = Notice("models", "a is wrong", "Write b.", "/a/models.json")
SECOND = Notice("mcp", "the server s has failed", source="s")


class Said:
    """Warnings, with what was written of them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.records: list[Mapping[str, object]] = []
        self.warnings = Warnings(self.lines.append)

    def publish(self) -> None:
        self.warnings.publish(self.records.append)


@pytest.fixture
def said() -> Said:
    return Said()


def test_a_warning_is_said_at_once_and_emitted_when_records_can_be(said: Said) -> None:
    """R-WRN-01: with its remedy."""
    said.warnings.add(FIRST)
    assert (["a is wrong. Write b."], []) == (said.lines, said.records)
    said.publish()
    said.warnings.add(SECOND)
    assert said.records == [
        {"type": "warning", "kind": "models", "text": "a is wrong", "remedy": "Write b.", "source": "/a/models.json"},
        {"type": "warning", "kind": "mcp", "text": "the server s has failed", "source": "s"},
    ]
    assert said.warnings.records() == [{k: v for k, v in each.items() if k != "type"} for each in said.records]


def test_a_warning_that_still_holds_is_not_repeated(said: Said) -> None:
    """R-WRN-02: nor is one that was found twice; one that holds no more, and then again, is."""
    said.publish()
    for _ in range(2):
        said.warnings.renew(("models",), [FIRST, FIRST])
        said.warnings.add(SECOND)
    assert (2, 2) == (len(said.lines), len(said.records))
    said.warnings.renew(("models",), [])
    assert [SECOND] == list(said.warnings.current.values())
    said.warnings.renew(("models",), [FIRST])
    assert (3, 3) == (len(said.lines), len(said.records))


def test_a_warning_that_another_record_reports_has_no_second_one(said: Said) -> None:
    said.warnings.keep(FIRST)
    said.publish()
    assert ([FIRST], [FIRST.line], []) == (list(said.warnings.current.values()), said.lines, said.records)


def test_warnings_about_one_thing_are_forgotten_alone(said: Said) -> None:
    other = SECOND._replace(text="t has failed", source="t")
    for each in (FIRST, SECOND, other):
        said.warnings.add(each)
    said.warnings.forget("mcp", "s")
    assert [FIRST, other] == list(said.warnings.current.values())
    said.warnings.forget("mcp")
    assert [FIRST] == list(said.warnings.current.values())


def test_warnings_are_bounded(said: Said) -> None:
    """The oldest are forgotten, and a long text is cut in records, never on stderr."""
    for number in range(MOST_KEPT + 1):
        said.warnings.add(Notice("tools", f"{number} " + "x" * MOST_CHARS))
    kept = said.warnings.records()
    assert (MOST_KEPT, MOST_KEPT + 1) == (len(kept), len(said.lines))
    assert str(kept[0]["text"]).startswith("1 x")
    assert {MOST_CHARS + 1} == {len(str(each["text"])) for each in kept}
    assert said.lines[0] == f"0 {'x' * MOST_CHARS}"
