"""Which proxy an address is reached by: of the environment, of the setting, or none."""

import httpx
import pytest

from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.llm.transport import proxies
from pinnace_agent.llm.transport.connections import PooledTransport
from pinnace_agent.llm.transport.proxies import (
    ProxyUnusable,
    environment_problems,
    proxy_for,
    proxy_problem,
    use_proxy,
)
from pinnace_agent.redaction.policy import Secret

PROXY = "http://proxy.test:3128"


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "_setting", PerAgent(list))


def route(url: str) -> str | None:
    proxy = proxy_for(url)
    return None if proxy is None else proxy.reveal()


def test_without_variables_everything_is_reached_directly() -> None:
    assert route("http://model.test") is None


@pytest.mark.parametrize(
    ("name", "routed"),
    [("HTTP_PROXY", {"http"}), ("https_proxy", {"https"}), ("ALL_PROXY", {"http", "https"})],
)
@pytest.mark.parametrize("value", [PROXY, PROXY.removeprefix("http://")], ids=["address", "host and port"])
def test_each_variable_routes_its_scheme(
    name: str, routed: set[str], value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    assert {scheme for scheme in ("http", "https") if route(f"{scheme}://model.test/v1") == PROXY} == routed


OVER_HTTP = {"http://model.test", "http://a.model.test/v1", "http://MODEL.test."}
WITH_PORT = {"https://model.test:8443/v1"}
BESIDE = {"http://notmodel.test", "http://model.test.other", "http://11.1.2.3"}
ENTRIES = [
    *((entry, OVER_HTTP | WITH_PORT) for entry in ("model.test", ".model.test", "*.model.test", "model.test.")),
    ("all://MODEL.test", OVER_HTTP | WITH_PORT),
    ("http://model.test", OVER_HTTP),
    ("model.test:80", OVER_HTTP),
    ("model.test:8443", WITH_PORT),
    ("localhost", {"http://localhost:11434"}),
    *((entry, {"http://10.1.2.3"}) for entry in ("10.1.2.3", "10.1.2.3:80", "10.0.0.0/8", "10.1.2.3/8")),
    *((entry, {"http://[::1]:8080"}) for entry in ("::1", "[::1]", "[::1]:8080")),
    ("fe80::/10", {"http://[fe80::1]"}),
]
EVERY = BESIDE.union(*(exempt for _, exempt in ENTRIES))


@pytest.mark.parametrize(("entry", "exempt"), ENTRIES)
@pytest.mark.parametrize("around", ["{}", "other.test,{}", "other.test {}\t", "!!, {},http://[::bad"])
def test_entries_of_no_proxy_are_reached_directly(
    entry: str, exempt: set[str], around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside entries that can't be read."""
    monkeypatch.setenv("ALL_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", around.format(entry))

    assert {url for url in EVERY if route(url) is None} == exempt


def test_a_star_in_no_proxy_turns_every_proxy_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "no address")
    monkeypatch.setenv("NO_PROXY", "model.test,*")

    assert route("https://other.test") is None


def test_a_proxy_that_is_none_fails_what_goes_through_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:mark@[::1")
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "exempt.test")

    assert (route("http://model.test"), route("https://exempt.test")) == (PROXY, None)
    with pytest.raises(ProxyUnusable, match="https_proxy") as failed:
        route("https://model.test")
    assert "mark" not in str(failed.value)


def test_the_setting_counts_where_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    use_proxy(Secret("http://setting.test"))
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "exempt.test")

    assert route("http://model.test") == "http://setting.test"
    assert route("https://model.test") == PROXY
    assert route("http://exempt.test") is None


@pytest.mark.parametrize(
    "entry", ["!!", "10.0.0.0/40", "model.test:port", "model.test:0", "ftp://model.test", "a/b", "a..b"]
)
def test_an_entry_that_can_not_be_read_is_named(entry: str) -> None:
    [problem] = environment_problems({"NO_PROXY": f"model.test,{entry}, 10.0.0.0/8"})

    assert problem.startswith(f"NO_PROXY: {entry!r} is passed over")


def test_what_a_small_letter_says_counts() -> None:
    assert environment_problems({"NO_PROXY": "!!", "no_proxy": "model.test"}) == []


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
