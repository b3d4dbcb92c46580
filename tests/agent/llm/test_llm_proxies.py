"""Proxies that the environment names, as patterns of httpx's `mounts`."""

import pytest

from pinnace_agent.llm.transport.proxies import environment_routes

PROXY = "http://proxy.test:3128"


def test_without_variables_nothing_is_routed() -> None:
    assert {} == environment_routes()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("HTTP_PROXY", "http://"), ("https_proxy", "https://"), ("ALL_PROXY", "all://")],
)
@pytest.mark.parametrize("value", [PROXY, PROXY.removeprefix("http://")], ids=["address", "host and port"])
def test_each_variable_routes_its_scheme(name: str, pattern: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)

    assert {pattern: PROXY} == environment_routes()


@pytest.mark.parametrize(
    ("entry", "pattern"),
    [
        ("model.test", "all://*model.test"),
        (" .model.test ", "all://*.model.test"),
        ("localhost", "all://localhost"),
        ("127.0.0.1", "all://127.0.0.1"),
        ("192.168.0.0/16", "all://192.168.0.0/16"),
        ("::1", "all://[::1]"),
        ("http://model.test", "http://model.test"),
    ],
)
def test_entries_of_no_proxy_are_reached_directly(entry: str, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", f"other.test,{entry},")

    assert {"all://": PROXY, "all://*other.test": None, pattern: None} == environment_routes()


def test_a_star_in_no_proxy_turns_every_proxy_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "model.test,*")

    assert {} == environment_routes()
