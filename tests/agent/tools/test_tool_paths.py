"""From the path that a model wrote to a path of the system."""

import os
import unicodedata
from pathlib import Path

import pytest

from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.paths import os_error_text, readable_paths, resolve_path


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
