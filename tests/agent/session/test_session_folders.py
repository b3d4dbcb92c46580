"""Where sessions go, and who else may read them."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.files.folders import loose_modes, make_folder
from pinnace_agent.session.folders import (
    SESSION_DIR_VARIABLE,
    SessionFolder,
    choose_folder,
    folder_name,
    sessions_root,
)


@pytest.fixture(params=[0o022, 0o002, 0o077, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    former = os.umask(request.param)
    yield request.param
    os.umask(former)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The name for a working folder.


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/x/a/b", "--x-a-b--"),
        ("/x/a-b", "--x-a-b--"),
        ("/", "----"),
        ("/x/", "--x--"),
        ("//x//y/./z/..", "--x-y--"),
        ("/with space/ü/日本", "--with space-ü-日本--"),
        ("/a:b\\c", "--a-b-c--"),
        ("C:\\w", "--C--w--"),
        ("\\\\host\\share", "---host-share--"),
        ("/.hidden/~", "--.hidden-~--"),
    ],
)
def test_a_working_folder_s_sessions_have_a_folder_named_after_it(cwd: str, name: str) -> None:
    assert folder_name(cwd) == name


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=400))
def test_a_name_always_fits_into_a_file_system(text: str) -> None:
    name = folder_name("/" + text)
    assert len(os.fsencode(name)) <= 255
    assert name.startswith("--")
    assert name.endswith("--")
    assert not {"/", "\\", ":"} & set(name)


@pytest.mark.parametrize("unit", ["a", "ä", "日", "😀", "\udcff"])
def test_a_name_of_255_bytes_stays_and_a_longer_one_ends_in_a_digest(unit: str, tmp_path: Path) -> None:
    size = len(os.fsencode(unit))
    fitting = "/" + unit * (251 // size)
    assert folder_name(fitting) == f"--{fitting[1:]}--"
    longer = fitting + "x" * (252 - 251 // size * size)
    name = folder_name(longer)
    assert len(os.fsencode(name)) <= 255
    assert len(os.fsencode(name)) > 245 or unit == "\udcff"
    (tmp_path / name).mkdir()


def test_long_names_that_begin_alike_differ() -> None:
    beginning = "/" + "long/" * 100
    names = {folder_name(beginning + ending) for ending in ("a/b", "a-b", "a", "b")}
    assert len(names) == 4
    assert all(name.startswith("--long-long-") for name in names)


def test_a_long_name_is_the_same_every_time() -> None:
    assert folder_name("/" + "d" * 300) == folder_name("//" + "d" * 300 + "/")


def test_a_deep_working_folder_gets_a_folder_on_the_disk(tmp_path: Path) -> None:
    folder = choose_folder(tmp_path, "/" + "/".join(["überlang"] * 60), None, {}, None)
    make_folder(folder.path)
    assert folder.path.is_dir()
    assert folder.path.parent == sessions_root(tmp_path)


# Which folder is chosen.


def test_sessions_go_to_the_agent_folder_by_default(tmp_path: Path) -> None:
    folder = choose_folder(tmp_path, "/x/a", None, {}, None)
    assert folder == SessionFolder(tmp_path / "sessions" / "--x-a--", is_flat=False)
    assert list(tmp_path.iterdir()) == []


def test_the_flag_wins_over_the_variable_and_that_over_the_setting() -> None:
    env = {SESSION_DIR_VARIABLE: "/variable"}
    agent_dir = Path("/agent")
    assert choose_folder(agent_dir, "/w", "/flag", env, "/setting") == SessionFolder(Path("/flag"), is_flat=True)
    assert choose_folder(agent_dir, "/w", None, env, "/setting") == SessionFolder(Path("/variable"), is_flat=True)
    assert choose_folder(agent_dir, "/w", None, {}, "/setting") == SessionFolder(Path("/setting"), is_flat=True)


def test_what_is_empty_chooses_nothing() -> None:
    folder = choose_folder(Path("/agent"), "/w", "", {SESSION_DIR_VARIABLE: ""}, "")
    assert folder == SessionFolder(Path("/agent/sessions/--w--"), is_flat=False)


@pytest.mark.parametrize(
    ("chosen", "path"),
    [
        ("~", "/home/me"),
        ("~/s", "/home/me/s"),
        ("s", "/w/d/s"),
        ("./s/../t", "/w/d/t"),
        ("../s", "/w/s"),
        ("/s/", "/s"),
        ("~other", "/w/d/~other"),
    ],
)
def test_what_is_chosen_may_begin_with_the_home_and_is_relative_to_the_working_folder(chosen: str, path: str) -> None:
    env = {"HOME": "/home/me"}
    assert choose_folder(Path("/agent"), "/w/d", chosen, env, None).path == Path(path)
    assert choose_folder(Path("/agent"), "/w/d", None, {**env, SESSION_DIR_VARIABLE: chosen}, None).path == Path(path)
    assert choose_folder(Path("/agent"), "/w/d", None, env, chosen).path == Path(path)


def test_s3_a_project_can_not_choose_where_its_sessions_go(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".pi").mkdir(parents=True)
    (project / ".pi" / "settings.json").write_text('{"sessionDir": "transcripts"}')
    folder = choose_folder(tmp_path / "agent", str(project), None, {}, None)
    assert folder.path.parent == tmp_path / "agent" / "sessions"


# What is made, and its modes.


def test_s1_folders_are_made_for_the_user_alone(tmp_path: Path, umask: int) -> None:
    wanted = tmp_path / "agent" / "sessions" / "--w--"
    make_folder(wanted)
    assert [mode(path) for path in [wanted, wanted.parent, wanted.parent.parent]] == [0o700] * 3


@pytest.mark.parametrize("existing", [0o755, 0o777, 0o750, 0o700])
def test_s1_folders_that_exist_keep_their_modes(tmp_path: Path, existing: int) -> None:
    root = tmp_path / "sessions"
    root.mkdir()
    root.chmod(existing)
    make_folder(root / "--w--")
    make_folder(root)
    assert (mode(root), mode(root / "--w--")) == (existing, 0o700)


def test_a_link_to_a_folder_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    make_folder(tmp_path / "link" / "sub")
    assert (tmp_path / "real" / "sub").is_dir()


def test_a_file_in_the_way_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in [tmp_path / "file", tmp_path / "file" / "sub"]:
        with pytest.raises(NotADirectoryError):
            make_folder(path)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(OSError):
        make_folder(tmp_path / "link")
    with pytest.raises(OSError):
        make_folder(tmp_path / "link" / "sub")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["nul\0", "\ud800", "n" * 300])
def test_a_name_that_no_file_can_have_is_an_error_of_the_system(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError) as caught:
        make_folder(tmp_path / name)
    assert caught.value.errno in {errno.EINVAL, errno.ENAMETOOLONG}
    assert loose_modes(tmp_path / name) is None


# What others may read.


@pytest.mark.parametrize("loose", [0o755, 0o750, 0o705, 0o740])
def test_s1_a_folder_that_others_may_read_is_reported(tmp_path: Path, loose: int) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    folder.chmod(loose)
    notice = loose_modes(folder)
    assert notice is not None
    assert str(folder) in notice
    assert f"{loose:o}" in notice
    assert "chmod 700" in notice
    assert mode(folder) == loose


@pytest.mark.parametrize("loose", [0o644, 0o640, 0o604])
def test_s1_a_file_that_others_may_read_is_reported(tmp_path: Path, loose: int) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    folder.chmod(0o755)
    file = folder / "a.jsonl"
    file.touch()
    file.chmod(loose)
    notice = loose_modes(file)
    assert notice is not None
    assert str(file) in notice
    assert "chmod 600" in notice
    folder.chmod(0o700)
    assert loose_modes(file) is None


@pytest.mark.parametrize("strict", [0o700, 0o600, 0o500])
def test_s1_files_that_only_the_user_may_read_are_not_reported(tmp_path: Path, strict: int) -> None:
    file = tmp_path / "a.jsonl"
    file.touch()
    file.chmod(strict)
    assert loose_modes(file) is None
    folder = tmp_path / "sessions"
    folder.mkdir()
    folder.chmod(0o700)
    assert loose_modes(folder) is None


def test_a_missing_file_is_not_reported(tmp_path: Path) -> None:
    assert loose_modes(tmp_path / "nothing") is None
