"""Which sessions there are, and which one is meant."""

import json
import os
from pathlib import Path

import pytest

from pinnace_agent.files.folders import make_folder
from pinnace_agent.session.folders import SessionFolder, choose_folder
from pinnace_agent.session.listing import (
    Ambiguous,
    NotFound,
    find_anywhere,
    find_exact,
    find_session,
    list_sessions,
    most_recent,
)
from pinnace_spec.records.entries import Entry
from pinnace_spec.wire.json_text import encode_record

CREATED = "2026-01-02T03:04:05.678Z"
CREATED_MS = 1_767_323_045_678


class Place:
    """An agent folder with sessions of several working folders."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.agent = tmp_path / "agent"
        self.root = self.agent / "sessions"
        self.written = 0

    def folder(self, cwd: str) -> SessionFolder:
        return choose_folder(self.agent, cwd, None, {}, None)

    def flat(self) -> SessionFolder:
        return SessionFolder(self.tmp_path / "flat", is_flat=True)

    def write(self, session_id: str, cwd: str | None, *entries: Entry | bytes, **where: object) -> Path:
        """Write a session; each is a second newer than the one before it."""
        folder = where.get("folder") or self.folder(cwd or "/w")
        assert isinstance(folder, SessionFolder)
        make_folder(folder.path)
        header: dict[str, object] = {"type": "session", "version": 3, "id": session_id, "timestamp": CREATED}
        if cwd is not None:
            header["cwd"] = cwd
        header |= json.loads(str(where.get("header", "{}")))
        self.written += 1
        path = folder.path / str(where.get("name", f"2026_{self.written}_{session_id}.jsonl"))
        lines = [header, *entries]
        path.write_bytes(b"".join(line if isinstance(line, bytes) else encode_record(line) for line in lines))
        os.utime(path, (self.written, self.written))
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def line(role: str, content: object, ms: object = None, timestamp: object = CREATED) -> Entry:
    message = {"role": role, "content": content} | ({} if ms is None else {"timestamp": ms})
    return {"type": "message", "id": "1", "parentId": None, "timestamp": timestamp, "message": message}


def name(text: object) -> Entry:
    return {"type": "session_info", "id": "n", "parentId": None, "timestamp": CREATED, "name": text}


def ids(folder: SessionFolder, cwd: str | None) -> list[str]:
    return [info.id for info in list_sessions(folder, cwd)]


# Lists.


def test_a_session_is_listed_with_its_first_message_and_count(place: Place) -> None:
    path = place.write(
        "s-1",
        "/w",
        line("system", "you are"),
        line("user", [{"type": "image", "data": "", "mimeType": "image/png"}, {"type": "text", "text": " "}]),
        name("first"),
        line("user", [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}], CREATED_MS + 5000),
        line("assistant", [{"type": "text", "text": "hi"}], CREATED_MS + 6000),
        line("toolResult", [], CREATED_MS + 7000),
        name(" the \x1b[31mname\n"),
        header='{"parentSession": "/old.jsonl"}',
    )
    (info,) = list_sessions(place.folder("/w"), "/w")
    assert info._asdict() == {
        "path": path,
        "id": "s-1",
        "cwd": "/w",
        "name": "the [31mname",
        "parent_session": "/old.jsonl",
        "created": CREATED,
        "modified_ms": CREATED_MS + 6000,
        "message_count": 5,
        "first_message": "hello there",
    }


def test_a_session_without_words_is_listed_too(place: Place) -> None:
    place.write("s-1", "/w", name("x"), name(""))
    (info,) = list_sessions(place.folder("/w"), "/w")
    assert (info.first_message, info.name, info.message_count) == ("(no messages)", None, 0)
    assert (info.parent_session, info.modified_ms) == (None, CREATED_MS)


def test_the_time_of_a_session_is_that_of_its_words_else_its_own_else_the_file_s(place: Place) -> None:
    folder = place.folder("/w")
    later = "2026-01-02T03:04:06.000Z"
    place.write("entry", "/w", line("user", "x", timestamp=later))
    place.write("header", "/w", line("toolResult", [], CREATED_MS + 9000))
    place.write("file", "/w", header='{"timestamp": "soon"}')
    place.write(
        "odd",
        "/w",
        line("user", "x", "noon", None),
        line("user", "x", True, 5.5),
        line("user", "x", 1e300),
    )
    times = {info.id: info.modified_ms for info in list_sessions(folder, "/w")}
    assert times == {"entry": 1_767_323_046_000, "header": CREATED_MS, "file": 3000, "odd": CREATED_MS}


def test_the_newest_is_listed_first(place: Place) -> None:
    for session_id, ms in [("b", 2), ("c", 3), ("a", 1)]:
        place.write(session_id, "/w", line("user", "x", CREATED_MS + ms))
    assert ids(place.folder("/w"), "/w") == ["c", "b", "a"]


def test_files_that_are_no_sessions_are_skipped(place: Place) -> None:
    good = place.write("good", "/w", b"broken\n", line("user", "x"))
    folder = good.parent
    (folder / "empty.jsonl").touch()
    (folder / "entry.jsonl").write_bytes(encode_record(line("user", "x")))
    (folder / "binary.jsonl").write_bytes(bytes(range(256)) * 100)
    (folder / "folder.jsonl").mkdir()
    (folder / "nowhere.jsonl").symlink_to("nothing")
    (folder / "good.jsonl.damaged").write_bytes(good.read_bytes())
    (folder / "notes.txt").write_bytes(good.read_bytes())
    os.mkfifo(folder / "pipe.jsonl")
    assert ids(place.folder("/w"), None) == ["good"]
    assert most_recent(place.folder("/w"), "/w") == good
    assert find_session("good", place.root, place.folder("/w"), "/w") == good


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that no user can read")
def test_what_can_t_be_read_is_passed_over(place: Place) -> None:
    good = place.write("good", "/w")
    (good.parent / "bad.jsonl").symlink_to("/proc/self/mem")
    assert ids(place.folder("/w"), "/w") == ["good"]
    assert most_recent(place.folder("/w"), "/w") == good


def test_a_folder_that_is_not_there_has_no_sessions(place: Place) -> None:
    folder = place.folder("/w")
    assert list_sessions(folder, None) == []
    assert most_recent(folder, "/w") is None
    with pytest.raises(NotFound):
        find_session("a", place.root, folder, "/w")


def test_sessions_of_version_1_are_listed(place: Place) -> None:
    message = {"type": "message", "timestamp": CREATED, "message": {"role": "user", "content": "old"}}
    place.write("s-1", "/w", message, message, header='{"version": null}')
    (info,) = list_sessions(place.folder("/w"), "/w")
    assert (info.first_message, info.message_count) == ("old", 2)


# Whose a session is.


def test_a_folder_that_two_projects_share_gives_each_its_own(place: Place) -> None:
    assert place.folder("/x/a/b") == place.folder("/x/a-b")
    mine, theirs = place.write("mine", "/x/a/b"), place.write("theirs", "/x/a-b")
    folder = place.folder("/x/a/b")
    assert ids(folder, "/x/a/b") == ["mine"]
    assert ids(folder, "/x/a-b") == ["theirs"]
    assert set(ids(folder, None)) == {"mine", "theirs"}
    assert most_recent(folder, "/x/a/b") == mine
    assert most_recent(folder, "/x/a-b") == theirs
    assert most_recent(folder, "/x-a/b") is None


def test_an_id_in_a_shared_folder_is_not_found_for_the_other_project(place: Place) -> None:
    place.write("theirs", "/x/a-b")
    with pytest.raises(NotFound) as caught:
        find_session("theirs", place.root, place.folder("/x/a/b"), "/x/a/b")
    assert "/x/a-b" in caught.value.text


def test_a_folder_of_the_user_s_choice_gives_each_project_its_own(place: Place) -> None:
    one = place.write("one", "/one", folder=place.flat())
    place.write("two", "/two", folder=place.flat())
    place.write("none", None, folder=place.flat())
    assert ids(place.flat(), "/one") == ["one"]
    assert set(ids(place.flat(), None)) == {"one", "two", "none"}
    assert most_recent(place.flat(), "/one") == one


def test_an_old_session_without_a_folder_belongs_to_where_it_lies(place: Place) -> None:
    old = place.write("old", None)
    assert ids(place.folder("/w"), "/w") == ["old"]
    assert most_recent(place.folder("/w"), "/w") == old


def test_a_working_folder_is_the_same_by_any_of_its_names(place: Place, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    path = place.write("s-1", str(tmp_path / "link"), folder=place.flat())
    place.write("s-2", "real", folder=place.flat())
    place.write("s-3", f"{tmp_path}/real\0", folder=place.flat())
    assert most_recent(place.flat(), str(tmp_path / "real")) == path
    assert ids(place.flat(), str(tmp_path / "link") + "/") == ["s-1"]


def test_a_working_folder_without_a_beginning_is_not_ours_by_accident(place: Place) -> None:
    place.write("s-1", ".", folder=place.flat())
    assert ids(place.flat(), os.getcwd()) == []


# The one to continue.


def test_the_file_that_was_written_to_last_is_continued(place: Place) -> None:
    paths = [place.write(session_id, "/w", line("user", "x", 10 - n)) for n, session_id in enumerate("abc")]
    assert most_recent(place.folder("/w"), "/w") == paths[2]
    os.utime(paths[0], (99, 99))
    assert most_recent(place.folder("/w"), "/w") == paths[0]


@pytest.mark.parametrize("size", [600, 4095, 4096, 5000, 200_000, 1_000_000])
def test_a_long_header_is_seen(place: Place, size: int) -> None:
    cwd = "/" + "d" * size
    path = place.write("s-1", cwd, line("user", "x"), folder=place.folder("/w"))
    assert most_recent(place.folder("/w"), cwd) == path
    assert find_session("s-1", place.root, place.folder("/w"), cwd) == path


def test_a_header_that_ends_where_a_read_ends_is_seen(place: Place) -> None:
    for size in range(3900, 4000):
        path = place.write("s-1", "/" + "d" * size, folder=place.folder("/w"), name="a.jsonl")
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))
        assert most_recent(place.folder("/w"), "/" + "d" * size) == path


def test_no_more_than_a_mib_is_read_for_a_header(place: Place) -> None:
    place.write("s-1", "/" + "d" * 2**20, folder=place.folder("/w"))
    assert most_recent(place.folder("/w"), "/" + "d" * 2**20) is None


# By id.


def test_a_session_is_found_by_its_id_or_the_beginning_of_it(place: Place) -> None:
    path = place.write("0198-abc", "/w", name="called otherwise.jsonl")
    place.write("0199-abc", "/w")
    for reference in ["0198-abc", "0198", "0198-a"]:
        assert find_session(reference, place.root, place.folder("/w"), "/w") == path
        assert find_anywhere(reference, place.root, place.folder("/w"), "/w") == path


def test_several_matches_are_an_error_that_lists_them(place: Place) -> None:
    paths = [place.write(session_id, "/w") for session_id in ("0198-a", "0198-b")]
    place.write("0199-c", "/w")
    for find in (find_session, find_anywhere):
        with pytest.raises(Ambiguous) as caught:
            find("0198", place.root, place.folder("/w"), "/w")
        text = caught.value.text
        assert all(part in text for part in ["0198-a", "0198-b", "/w", *map(str, paths)])
        assert "0199" not in text


def test_a_whole_id_is_never_ambiguous_with_longer_ones(place: Place) -> None:
    path = place.write("task", "/w")
    place.write("task-2", "/w")
    assert find_session("task", place.root, place.folder("/w"), "/w") == path
    assert find_exact("task", place.folder("/w"), "/w") == path
    assert find_exact("tas", place.folder("/w"), "/w") is None


def test_two_files_with_one_id_are_ambiguous(place: Place) -> None:
    paths = [place.write("task", "/w"), place.write("task", "/w")]
    with pytest.raises(Ambiguous) as caught:
        find_session("task", place.root, place.folder("/w"), "/w")
    assert all(str(path) in caught.value.text for path in paths)
    assert find_exact("task", place.folder("/w"), "/w") == paths[1]


def test_many_matches_are_counted(place: Place) -> None:
    for number in range(30):
        place.write(f"t{number}", "/w")
    with pytest.raises(Ambiguous) as caught:
        find_session("t", place.root, place.folder("/w"), "/w")
    assert caught.value.text.endswith("and 10 more")


def test_a_session_of_another_folder_is_named_and_not_opened(place: Place) -> None:
    path = place.write("0198-a", "/other")
    place.write("0198-b", "/another")
    with pytest.raises(NotFound) as caught:
        find_session("0198-a", place.root, place.folder("/w"), "/w")
    assert all(part in caught.value.text for part in ["/other", str(path), "--fork"])
    assert "/another" not in caught.value.text


def test_for_a_fork_a_session_of_another_folder_will_do(place: Place) -> None:
    path = place.write("0198-a", "/other")
    assert find_anywhere("0198", place.root, place.folder("/w"), "/w") == path
    place.write("0198-b", "/another")
    assert find_anywhere("0198-a", place.root, place.folder("/w"), "/w") == path
    with pytest.raises(Ambiguous):
        find_anywhere("0198", place.root, place.folder("/w"), "/w")


def test_this_folder_goes_before_others(place: Place) -> None:
    place.write("0198", "/other")
    here = place.write("0198-a", "/w")
    assert find_session("0198", place.root, place.folder("/w"), "/w") == here
    assert find_anywhere("0198", place.root, place.folder("/w"), "/w") == here


def test_a_folder_of_the_user_s_choice_is_searched_beside_the_others(place: Place) -> None:
    flat = place.write("flat-1", "/other", folder=place.flat())
    usual = place.write("usual-1", "/other")
    assert find_anywhere("flat", place.root, place.flat(), "/w") == flat
    assert find_anywhere("usual", place.root, place.flat(), "/w") == usual


def test_a_session_that_is_reached_in_two_ways_is_found_once(place: Place) -> None:
    path = place.write("0198", "/other")
    (place.root / "link").symlink_to(path.parent)
    (place.root / "file").touch()
    assert find_anywhere("0198", place.root, place.folder("/w"), "/w").resolve() == path
    assert find_anywhere("0198", place.root, place.folder("/other"), "/w").parent == path.parent


@pytest.mark.parametrize("reference", ["", "nothing", "ABC", "*", "2026"])
def test_what_matches_nothing_is_not_found(place: Place, reference: str) -> None:
    place.write("abc", "/w")
    for find in (find_session, find_anywhere):
        with pytest.raises(NotFound) as caught:
            find(reference, place.root, place.folder("/w"), "/w")
        assert caught.value.text == f"No session matches '{reference}'"


def test_the_text_of_a_header_reaches_no_terminal_as_it_is(place: Place) -> None:
    for ending in "ab":
        place.write(f"x\x1b]0;title\x07{ending}", "/other\n\x9b31m")
    with pytest.raises(Ambiguous) as caught:
        find_anywhere("x", place.root, place.folder("/w"), "/w")
    assert all(line.isprintable() for line in caught.value.text.splitlines())
    assert len(caught.value.text.splitlines()) == 3


def test_listing_and_finding_change_nothing(place: Place) -> None:
    path = place.write("s-1", "/w", b"torn")
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))
    list_sessions(place.folder("/w"), None)
    most_recent(place.folder("/w"), "/w")
    find_session("s", place.root, place.folder("/w"), "/w")
    assert before == (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))
