"""Ids, times and file names of sessions."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.identity import file_name, iso_time, new_entry_id, new_session_id


class Taken:
    """Has every id of some length, and counts how often it was asked."""

    def __init__(self, digits: int) -> None:
        self.digits = digits
        self.asked = 0

    def __contains__(self, entry_id: object) -> bool:
        self.asked += 1
        return len(str(entry_id)) == self.digits


def test_a_session_id_is_a_uuid_of_version_7_in_lower_case() -> None:
    for made in (new_session_id() for _ in range(200)):
        parsed = uuid.UUID(made)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
        assert str(parsed) == made


def test_a_session_id_begins_with_the_time_it_was_made() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    made = datetime.fromtimestamp((uuid.UUID(new_session_id()).int >> 80) / 1000, UTC)
    assert before <= made <= datetime.now(UTC) + timedelta(milliseconds=1)


def test_session_ids_are_all_different() -> None:
    assert len({new_session_id() for _ in range(2000)}) == 2000


def test_an_entry_id_is_eight_hexadecimal_digits() -> None:
    made = {new_entry_id(()) for _ in range(1000)}
    assert all(re.fullmatch("[0-9a-f]{8}", entry_id) for entry_id in made)
    assert len(made) > 990


def test_an_entry_id_is_never_one_that_is_taken() -> None:
    taken = Taken(8)
    made = new_entry_id(taken)
    assert str(uuid.UUID(made)) == made
    assert taken.asked == 100


def test_a_time_is_written_as_utc_with_milliseconds() -> None:
    assert iso_time(1_767_323_045_678) == "2026-01-02T03:04:05.678Z"
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(1) == "1970-01-01T00:00:00.001Z"


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_time_is_exact(ms: int) -> None:
    written = iso_time(ms)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", written)
    assert (datetime.fromisoformat(written) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) == ms


def test_a_file_is_named_after_time_and_id() -> None:
    assert file_name("0198-a", 1_767_323_045_678) == "2026-01-02T03-04-05-678Z_0198-a.jsonl"


def test_files_sort_by_their_time(tmp_path: Path) -> None:
    times = [1_767_323_045_678, 1_767_323_045_679, 1_767_323_046_000, 1_800_000_000_000]
    for ms in times:
        (tmp_path / file_name(new_session_id(), ms)).touch()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name[:24] for name in names] == [iso_time(ms).replace(":", "-").replace(".", "-") for ms in times]
