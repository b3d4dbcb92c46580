"""Keys are stored and removed one provider at a time; other entries stay, and other users can't read them."""

import json
import stat
from pathlib import Path

import pytest

from pinnace_agent.config.credentials.auth_file import LoginInTheWay, remove_entry, store_key
from pinnace_agent.files.relaxed_json import ConfigurationFileError
from pinnace_agent.redaction.policy import Secret

LOGIN = {"type": "oauth", "access": "a", "refresh": "r", "expires": 1, "accountId": "x"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "auth.json"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_s5_the_file_and_its_copy_are_the_users_alone_from_the_first_moment(file: Path) -> None:
    store_key(file, "openai", Secret("sk"))

    assert [0o600, 0o600] == [mode_of(file), mode_of(file.with_name("auth.json.bak"))]


@pytest.mark.parametrize("key", ["new", "old"])
def test_s5_a_file_that_others_can_read_is_tightened_when_it_is_written_and_that_is_known(key: str, file: Path) -> None:
    file.write_text('{"openai": {"type": "api_key", "key": "old"}}')
    file.chmod(0o644)

    assert store_key(file, "openai", Secret(key)).is_tightened
    assert 0o600 == mode_of(file)
    assert not store_key(file, "openai", Secret("newer")).is_tightened


def test_one_entry_changes_and_the_others_stay_with_every_field(file: Path) -> None:
    file.write_text(
        json.dumps({"anthropic": LOGIN, "openai": {"type": "api_key", "key": "old", "env": {"A": "b"}, "x": 1}})
    )
    store_key(file, "openai", Secret("new"))
    store_key(file, "groq", Secret("$GROQ"))

    assert {
        "anthropic": LOGIN,
        "openai": {"type": "api_key", "key": "new", "env": {"A": "b"}, "x": 1},
        "groq": {"type": "api_key", "key": "$GROQ"},
    } == json.loads(file.read_text())


def test_a_login_gives_way_only_if_that_is_wanted(file: Path) -> None:
    file.write_text(json.dumps({"anthropic": LOGIN}))
    with pytest.raises(LoginInTheWay):
        store_key(file, "anthropic", Secret("sk"))
    with pytest.raises(LoginInTheWay):
        remove_entry(file, "anthropic")
    assert {"anthropic": LOGIN} == json.loads(file.read_text())

    store_key(file, "anthropic", Secret("sk"), replaces_login=True)
    assert {"anthropic": {"type": "api_key", "key": "sk"}} == json.loads(file.read_text())


def test_what_is_forgotten_is_in_no_copy_either(file: Path) -> None:
    store_key(file, "openai", Secret("sk-marker"))
    remove_entry(file, "openai")

    assert ["{}", "{}"] == [path.read_text() for path in sorted(file.parent.iterdir())]


def test_removing_a_missing_entry_creates_no_file(file: Path) -> None:
    assert not remove_entry(file, "openai").is_changed
    assert [] == list(file.parent.iterdir())


def test_a_file_that_cant_be_read_is_left_as_it_is(file: Path) -> None:
    file.write_text('{"anthropic": {"type": "oauth", "acc')
    with pytest.raises(ConfigurationFileError, match=r"line 1, column"):
        store_key(file, "openai", Secret("sk"))

    assert '{"anthropic": {"type": "oauth", "acc' == file.read_text()
    assert ["auth.json"] == [path.name for path in file.parent.iterdir()]
