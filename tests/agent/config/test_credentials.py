"""auth.json: which entries are usable, and the problems reported about the others."""

import json
from pathlib import Path

import pytest

from pinnace_agent.config.credentials.credentials import AuthFile, Credentials, StoredKey, read_auth


def read(folder: Path, content: object) -> AuthFile:
    file = folder / "auth.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_auth(file)


def test_a_missing_file_has_no_keys_and_is_not_made(tmp_path: Path) -> None:
    assert {} == read_auth(tmp_path / "auth.json").entries
    assert [] == list(tmp_path.iterdir())


def test_a_stored_key_is_read_with_the_variables_of_its_provider(tmp_path: Path) -> None:
    auth = read(tmp_path, {"local": {"type": "api_key", "key": "$LOCAL", "env": {"LOCAL": "sk"}}})

    stored = auth.entries["local"]
    assert stored.key is not None
    assert ("$LOCAL", None) == (stored.key.reveal(), stored.login)
    assert {"LOCAL": "sk"} == {name: value.reveal() for name, value in stored.env.items()}
    assert () == auth.diagnostics


@pytest.mark.parametrize("entry", [{"type": "api_key"}, {"type": "api_key", "key": ""}])
def test_an_entry_may_have_no_key(entry: object, tmp_path: Path) -> None:
    assert {"local": StoredKey(None, {})} == read(tmp_path, {"local": entry}).entries


def test_a_login_is_known_as_one(tmp_path: Path) -> None:
    auth = read(tmp_path, {"local": {"type": "oauth", "access": "sk-marker", "refresh": "sk-marker", "expires": 1}})

    login = auth.entries["local"].login
    assert login is not None
    assert ("sk-marker", False) == (login.access, login.is_valid)
    assert "sk-marker" not in repr(auth)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("sk-marker", "must be an object"),
        (["sk-marker"], "must be an object"),
        ({}, 'type must be "api_key" or "oauth"'),
        ({"type": "sk-marker"}, 'type must be "api_key" or "oauth"'),
        ({"key": "sk-marker"}, 'type must be "api_key" or "oauth"'),
        ({"type": "api_key", "key": ["sk-marker"]}, "key must be a string"),
        ({"type": "api_key", "key": None}, "key must be a string"),
        ({"type": "api_key", "key": "sk-marker", "env": "sk-marker"}, "env must be an object"),
        ({"type": "api_key", "key": "sk-marker", "env": {"A": ["sk-marker"]}}, "env must hold strings only"),
    ],
)
def test_an_entry_of_another_form_is_left_out_alone_and_reported_without_its_content(
    entry: object, told: str, tmp_path: Path
) -> None:
    auth = read(tmp_path, {"bad": entry, "good": {"type": "api_key", "key": "k"}})

    [diagnostic] = auth.diagnostics
    assert str(diagnostic) == f"{tmp_path / 'auth.json'}: bad: {told} (these entries are not used)"
    assert ["good"] == list(auth.entries)
    assert "sk-marker" not in repr(auth)


@pytest.mark.parametrize("text", ['{"local": "sk-marker', '["sk-marker"]', "", '{"local": {}} // sk-marker'])
def test_a_damaged_file_is_reported_without_its_content_and_stays_as_it_is(text: str, tmp_path: Path) -> None:
    auth = read(tmp_path, text)

    [diagnostic] = auth.diagnostics
    assert {} == auth.entries
    assert str(diagnostic).startswith(f"{tmp_path / 'auth.json'}: ")
    assert str(diagnostic).endswith("(no stored key is used)")
    assert "sk-marker" not in f"{diagnostic} {auth!r}"
    assert text == (tmp_path / "auth.json").read_text()


def test_a_damaged_file_is_reported_with_its_last_good_state_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "auth.json.bak").write_text("{}")

    assert f"{tmp_path / 'auth.json.bak'} is how it was" in str(read(tmp_path, "{").diagnostics[0])


def test_credentials_are_shown_without_their_contents() -> None:
    shown = repr(Credentials("sk-marker", {"authorization": "sk-marker"}))

    assert "sk-marker" not in shown
