"""Which variables commands in a sandbox get."""

import pytest

from pinnace_agent.sandbox.environment import confined_environment, withheld_variables
from pinnace_agent.shell.environment import WITHHELD, shell_environment

KEYS = {
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "GITHUB_TOKEN": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "DATABASE_URL": "postgres://user:hunter2hunter2@db.example.org/app",
    "NPM_AUTH_TOKEN": "0f3c2b1a-6d5e-4f7a-8b9c-0d1e2f3a4b5c",
    "SLACK_WEBHOOK_SECRET": "8f742231b10e8888abcd99yyyzzz85a5",
}
OTHERS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/user",
    "LANG": "C.UTF-8",
    "SSH_KEY_FILE": "/home/user/.ssh/id_rsa",
    "TOKEN_LIMIT": "4096",
    "EDITOR": "vim",
    "PROXY": "http://proxy.example.org:3128",
}


def test_variables_that_hold_keys_are_withheld_and_others_are_not() -> None:
    assert frozenset(KEYS) == withheld_variables({**KEYS, **OTHERS}, ())


def test_a_variable_that_is_named_stays() -> None:
    assert frozenset(KEYS) - {"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"} == withheld_variables(
        KEYS, ["GITHUB_TOKEN", "AWS_*", "github_token"]
    )


def test_the_environment_of_tools_is_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinnace_agent.shell.environment.WITHHELD", {"GITHUB_TOKEN"})
    assert set() == WITHHELD

    assert {"HOME"} == {"HOME", "GITHUB_TOKEN"} & set(shell_environment({**KEYS, **OTHERS}))


def test_addresses_of_services_are_left_out_inside() -> None:
    found = confined_environment({"DBUS_SESSION_BUS_ADDRESS": "x", "SSH_AUTH_SOCK": "y", "A": "b"}, "read-only")

    assert {"A", "TMPDIR", "XDG_CACHE_HOME", "npm_config_cache", "PINNACE_SANDBOX"} == set(found)
