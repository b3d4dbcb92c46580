"""Proxies that the environment names, as patterns of httpx's `mounts`."""

import httpx
import pytest

from pinnace_agent.llm.transport.connections import PooledTransport
from pinnace_agent.llm.transport.proxies import environment_routes, proxy_problem

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


@pytest.mark.parametrize(
    "address",
    [
        "http://p:1",
        "https://p",
        "http://u:w@p:1",
        "p:1",
        "ftp://p:1",
        "http://p:port",
        "socks5://p:1",
        "",
    ],
)
def test_what_a_start_reports_of_a_proxy_is_what_a_request_would_fail_with(address: str) -> None:
    try:
        PooledTransport(None, address)
    except (ValueError, ImportError, httpx.InvalidURL):
        fails = True
    else:
        fails = False
    assert fails == (proxy_problem(address) is not None)
