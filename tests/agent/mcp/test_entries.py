"""What `mcp.json` means, and what is wrong with it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.config.server_entries import InvalidEntry, read_entry
from pinnace_agent.mcp.configuration import ConfiguredServers, client_text, configured, project_servers
from pinnace_agent.mcp.definitions import plain_name, tool_names

NO_ADDRESSES = (
    *("http://", "http://[::1/", "http://x:99999/", "http://a..b/", "http://exa mple.com/", "http://\ud800/"),
    *(" http://x/", "http://x/a\nb", f"http://{'x' * 64}.com/", "http://\u00fc\u200d.test/"),
)


def found(tmp_path: Path, user: object, project: object = None, *, is_trusted: bool = True) -> ConfiguredServers:
    agent, work = tmp_path / "agent", tmp_path / "work"
    for folder, content in ((agent, user), (work / ".pi", project)):
        folder.mkdir(parents=True, exist_ok=True)
        if content is not None:
            text = content if isinstance(content, str) else json.dumps({"mcpServers": content})
            (folder / "mcp.json").write_text(text, encoding="utf-8")
    return configured({"PI_CODING_AGENT_DIR": str(agent)}, work, is_trusted=is_trusted)


def test_a_project_replaces_and_changes_servers_of_the_user(tmp_path: Path) -> None:
    user = {"a": {"command": "x", "env": {"K": "v"}}, "b": {"url": "https://x/"}, "c": {"command": "c"}}
    project = {"a": {"enabled": False}, "b": {"command": "mine"}, "d": {"enabled": False}, "c": {"env": {}}}
    made = found(tmp_path, user, project)
    assert {name: entry.scope for name, entry in made.servers.items()} == {"a": "user", "b": "project", "c": "user"}
    assert not made.servers["a"].is_enabled
    assert made.servers["a"].env["K"].reveal() == "v"
    assert made.servers["b"].command == "mine"
    assert [error.partition(": ")[2] for error in made.errors] == [
        'server "d" needs "command" or "url", or a global server to override',
        'server "c": an override can only set enabled, exposure, toolExposure',
    ]
    assert [line.partition(" of ")[0] for line in made.overridden] == ["b"]


def test_an_untrusted_project_is_not_read(tmp_path: Path) -> None:
    made = found(tmp_path, {"a": {"command": "x"}}, "no json", is_trusted=False)
    assert (list(made.servers), made.errors) == (["a"], [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[]", "is not a JSON object"),
        ('{"mcpServers": []}', 'expected an object with an "mcpServers" object'),
        ('{"autoEnableCodemode": 1}', "autoEnableCodemode must be a boolean"),
        ("{", "is not valid JSON"),
        ('{"servers": {"a": {"command": "x"}}}', 'expected an object with an "mcpServers" object'),
        ('{"mcpServer": {"a": {"command": "x"}}}', 'unknown key "mcpServer" is ignored; did you mean "mcpServers"?'),
    ],
)
def test_a_file_that_is_wrong_is_reported(tmp_path: Path, text: str, error: str) -> None:
    made = found(tmp_path, text)
    assert made.servers == {}
    assert error in made.errors[0]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        [],
        {},
        {"comand": "x"},
        {"command": 5},
        {"command": "x", "timeout": "soon"},
        {"command": "x", "env": {"A": 1}},
        {"url": "ftp://x"},
        {"url": "http://x", "oauth": {"callbackPort": 0}},
    ],
    ids=repr,
)
def test_a_damaged_entry_costs_itself_alone(wrong: object, tmp_path: Path) -> None:
    """The servers before and behind it are what they were without it."""
    good = {"a": {"command": "x", "args": ["y"]}, "z": {"url": "http://x"}}
    without = found(tmp_path, dict(good))
    made = found(tmp_path, {"a": good["a"], "m": wrong, "z": good["z"]})

    assert made.servers == without.servers
    assert list(made.servers) == ["a", "z"]
    assert made.errors
    assert all('"m"' in error for error in made.errors)


def test_a_misspelt_key_is_named_also_where_the_entry_is_invalid_for_it(tmp_path: Path) -> None:
    made = found(tmp_path, {"a": {"comand": "x"}})

    assert 'unknown key "comand" is ignored; did you mean "command"?' in made.errors[0]


def test_a_server_that_another_client_has_disabled_is_reported(tmp_path: Path) -> None:
    made = found(tmp_path, {"a": {"command": "x", "disabled": True}})

    assert [each.name for each in made.enabled] == ["a"]
    assert 'did you mean "enabled": false?' in made.errors[0]


def test_a_mistyped_key_is_reported_and_the_server_is_there(tmp_path: Path) -> None:
    """Keys of other clients are none of them."""
    others = {"disabled": False, "autoApprove": [], "alwaysAllow": [], "envFile": ".env", "trust": True, "icon": "x"}
    typed = {"command": "x", "enbaled": False, "arg": []}
    made = found(
        tmp_path, {"a": typed, "b": {"command": "x", **others}, "c": {"url": "http://x", "oauth": {"scopes": ""}}}
    )
    assert list(made.servers) == ["a", "b", "c"]
    assert [error.partition(": ")[2] for error in made.errors] == [
        'server "a": unknown key "enbaled" is ignored; did you mean "enabled"?',
        'server "a": unknown key "arg" is ignored; did you mean "args"?',
        'server "c": unknown key "oauth.scopes" is ignored; did you mean "oauth.scope"?',
    ]


def test_what_trust_starts_names_the_servers_that_a_project_enables(tmp_path: Path) -> None:
    found(tmp_path, {}, {"mine": {"command": "x"}, "yours": {"enabled": True}, "off": {"enabled": False}, "bad": 5})
    shown = project_servers(tmp_path / "work")
    assert shown[:2] == ["MCP server mine: x", "MCP server yours: the one of your mcp.json, if it is disabled"]
    assert len(shown) == 3
    assert 'server "bad" must be an object' in shown[2]


def test_names_that_differ_in_dashes_alone_collide(tmp_path: Path) -> None:
    made = found(tmp_path, {"a-b": {"command": "x"}, "a_b": {"command": "y"}})
    assert list(made.servers) == ["a-b"]
    assert made.errors[0].endswith('server "a_b" conflicts with "a-b"')


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (5, "must be an object"),
        ({}, 'needs either "command" (stdio) or "url" (streamable HTTP)'),
        ({"type": "sse", "url": "https://x"}, "legacy SSE transport is not supported; use the streamable HTTP URL"),
        ({"url": "ftp://x"}, "url must be an http or https URL"),
        *(({"url": url}, "url must be an http or https URL") for url in NO_ADDRESSES),
        ({"command": ""}, "command must not be empty"),
        ({"url": "https://x", "headers": {"a": 1}}, "headers must map names to strings"),
        (
            {"url": "http://x", "auth": {"provider": "p"}},
            "auth requires an https URL, or http on localhost, 127.0.0.1,",
        ),
        ({"url": "https://x", "auth": {}}, "auth.provider must be a provider name"),
        ({"command": "x", "args": [1]}, "args must be an array of strings"),
        ({"command": "x", "timeout": 0}, "timeout must be a positive number of seconds"),
        ({"command": "x", "enabled": 1}, "enabled must be a boolean"),
        ({"command": "x", "exposure": "x"}, 'exposure must be one of "codemode", "deferred", "direct", "hidden"'),
        ({"command": "x", "toolExposure": {"t": "x"}}, 'toolExposure "t" must be one of'),
        ({"command": "x", "readOnlyTools": "t"}, "readOnlyTools must be an array of tool names or patterns"),
        ({"url": "https://x", "oauth": {"callbackPort": 70000}}, "oauth.callbackPort must be a port number"),
        ({"url": "https://x", "oauth": {"callbackUrl": "https://x"}}, "oauth.callbackUrl must be an http URI on"),
        ({"url": "https://x", "oauth": {"clientRegistration": "cimd", "clientId": "x"}}, "cannot be combined"),
        ({"url": "https://x", "oauth": {"authServerMetadataUrl": "http://x"}}, "must be an https URL"),
    ],
)
def test_an_entry_that_is_wrong_names_the_field(entry: object, error: str) -> None:
    with pytest.raises(InvalidEntry) as caught:
        read_entry("n", entry, "user", "f")
    assert str(caught.value).startswith('server "n"')
    assert error in str(caught.value)


def test_a_project_may_not_say_where_credentials_go() -> None:
    for entry in ({"url": "https://x", "auth": {"provider": "p"}}, {"command": "x", "envPassthrough": ["KEY"]}):
        with pytest.raises(InvalidEntry, match="is only allowed in the global"):
            read_entry("n", entry, "project", "f")


def test_tools_are_exposed_by_name_then_by_the_first_pattern() -> None:
    exposure = {"get_*": "hidden", "get_one": "direct", "*": "deferred"}
    entry = read_entry("n", {"command": "x", "exposure": "hidden", "toolExposure": exposure}, "user", "f")
    assert [entry.exposes(name) for name in ("get_one", "get_two", "other")] == [True, False, True]


def test_an_address_is_shown_without_its_password() -> None:
    shown = {
        "https://me:mark@x.test:8/mcp?a=b": "https://me:***@x.test:8/mcp?a=b",
        "https://:mark@[::1]/": "https://:***@[::1]/",
        "https://me@x.test/": "https://me@x.test/",
        "HTTPS://x.test": "HTTPS://x.test",
    }
    assert {url: read_entry("n", {"url": url}, "user", "f").address for url in shown} == shown


def test_values_of_a_client_stand_for_themselves(tmp_path: Path) -> None:
    env = [{"name": "A", "value": "$HOME"}, {"name": "B", "value": "!rm"}]
    text = client_text([{"name": "My server!", "command": "x", "args": [], "env": env}])
    made = configured({"PI_CODING_AGENT_DIR": str(tmp_path)}, tmp_path, is_trusted=False, client=text)
    (entry,) = made.servers.values()
    assert (entry.name, entry.scope) == ("My_server_", "client")
    assert [value.reveal() for value in entry.env.values()] == ["$$HOME", "$!rm"]


def test_servers_of_a_client_whose_names_become_equal_are_all_there(tmp_path: Path) -> None:
    names = ["my server", "my_server", "my-server", "\u65e5\u672c", "\u4e2d\u56fd", ""]
    text = client_text([{"name": name, "command": "x", "args": [name], "env": []} for name in names])
    made = configured({"PI_CODING_AGENT_DIR": str(tmp_path)}, tmp_path, is_trusted=False, client=text)
    assert made.errors == []
    assert [entry.args[0] for entry in made.servers.values()] == names
    assert list(made.servers) == ["my_server", "my_server_2", "my-server_3", "__", "___2", "_"]


@pytest.mark.parametrize("text", ["{", "[]", '{"a": {}}'])
def test_what_a_client_hands_over_wrongly_is_reported(tmp_path: Path, text: str) -> None:
    made = configured({"PI_CODING_AGENT_DIR": str(tmp_path)}, tmp_path, is_trusted=False, client=text)
    assert (len(made.errors), made.servers) == (1, {})


def test_the_names_of_tools_are_those_of_the_original() -> None:
    assert plain_name("dev-radius", "a.b") == "mcp__dev_radius__a_b"
    names = tool_names("s", ["a.b", "a_b", "c", "d" * 80])
    assert names["c"] == "mcp__s__c"
    # The first digits of SHA-256 of the server's name, NUL and the tool's.
    assert (names["a.b"], names["a_b"]) == ("mcp__s__a_b_407e8e5c", "mcp__s__a_b_8d47d403")
    assert len(names["d" * 80]) == 64


@given(st.lists(st.text(min_size=1), unique=True), st.sets(st.text()))
def test_names_are_distinct_and_fit_every_provider(tools: list[str], taken: set[str]) -> None:
    names = tool_names("server", tools, taken)
    assert len(set(names.values())) == len(tools)
    assert all(name.isascii() and name.replace("_", "a").isalnum() and len(name) <= 64 for name in names.values())
