"""Sign-ins against a real authorization server on this machine, without an agent around them."""

import json
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

pytest.importorskip("mcp")

from tests.agent.mcp.authorization_server import AuthorizationServer, authorization_server, browse

from pinnace_agent.config.server_entries import ServerEntry, read_entry
from pinnace_agent.mcp.launching import Environment
from pinnace_agent.mcp.oauth.credentials import Credentials
from pinnace_agent.mcp.oauth.sign_in import sign_in_to
from pinnace_agent.mcp.opening import credentials_of, load_library, open_link
from pinnace_agent.mcp.ports import Challenge, NeedsAuth, ServerHooks, ServerLink, SignInCancelled, SignInFailed
from pinnace_agent.redaction.redactor import REDACTOR

# Those of the library, whose generators are not closed when a connection ends.
pytestmark = [
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PI = Path(__file__).parents[3] / ".tools" / "pi-1.5.2" / "package" / "dist" / "bundle" / "cli.js"
NODE = Path(__file__).parents[3] / ".tools" / "node22" / "bin" / "node"


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    load_library()


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with authorization_server() as found:
        yield found


class Guarded:
    """A configured server, and the user who signs in to it."""

    def __init__(self, tmp_path: Path, server: AuthorizationServer, fields: Mapping[str, object]) -> None:
        self.server = server
        self.env = {"PI_CODING_AGENT_DIR": str(tmp_path / "agent"), "HOME": str(tmp_path), "SECRET": "sekret-of-it"}
        self.given = Environment({}, self.env, str(tmp_path))
        self.entry: ServerEntry = read_entry("my-server", {"url": server.address, **fields}, "user", "mcp.json")
        self.file = tmp_path / "agent" / "mcp-auth.json"
        self.shown: list[str] = []
        self.visit: Callable[[str], object] = lambda url: httpx.get(browse(url))
        self.pasted: Callable[[], str | None] | None = None

    @property
    def credentials(self) -> Credentials:
        return credentials_of(self.entry, self.given)

    @property
    def state(self) -> dict[str, Any]:
        """What the file has for the server."""
        found: dict[str, Any] = json.loads(self.file.read_text())[f"mcp__my_server|{self.server.address}"]
        return found

    def show(self, url: str) -> None:
        self.shown.append(url)

    async def paste(self) -> str | None:
        """Let the browser work beside."""
        if self.pasted is not None:
            return await trio.to_thread.run_sync(self.pasted)
        await trio.to_thread.run_sync(self.visit, self.shown[-1])
        await trio.sleep(600)
        return None

    async def connect(self) -> list[str]:
        """Connect, and return the names of the tools."""
        names: list[str] = []

        async def use(link: ServerLink) -> None:
            listed = await link.request("tools/list", {}, 30)
            names.extend(each["name"] for each in listed["tools"])  # type: ignore[attr-defined]

        await open_link(self.entry, self.given, ServerHooks(drop, drop, str, None), "1", lambda: 1.0, use)
        return names

    async def challenge(self) -> Challenge:
        with pytest.raises(NeedsAuth) as caught:
            await self.connect()
        return caught.value.challenge

    async def sign_in(self, limit_s: float = 20) -> None:
        challenge = await self.challenge()
        await sign_in_to(self.entry, self.given, self.credentials, challenge, self, limit_s)


def drop(_said: object) -> None:
    """Take what a server reports."""


@pytest.fixture
def guarded(tmp_path: Path, server: AuthorizationServer) -> Callable[..., Guarded]:
    return lambda **oauth: Guarded(tmp_path, server, {"oauth": oauth} if oauth else {})


async def test_a_user_signs_in_and_the_tokens_are_used_and_kept(guarded: Callable[..., Guarded]) -> None:
    mine = guarded(scope="read")
    await mine.sign_in()
    assert await mine.connect() == ["open_door"]
    (asked,) = mine.server.asked
    assert asked.scopes == ["read"]
    assert asked.resource == mine.server.address
    (client,) = mine.server.clients.values()
    assert (client.client_name, client.token_endpoint_auth_method) == ("pinnace", "client_secret_post")
    assert stat.S_IMODE(mine.file.stat().st_mode) == 0o600
    state = mine.state
    assert state["serverUrl"] == mine.server.address
    assert state["clientInformation"]["client_id"] == client.client_id
    assert state["discovery"]["authorizationServerMetadata"]["token_endpoint"] == f"{mine.server.url}/token"
    assert 0 < state["tokensExpireAt"] - time.time() * 1000 <= 3_600_000
    for token in (state["tokens"]["access_token"], state["tokens"]["refresh_token"]):
        assert token not in REDACTOR.text(f"it is {token}.")
    assert mine.credentials.remove()
    assert not mine.credentials.remove()
    assert "Bearer" in (await mine.challenge()).header


async def test_connections_neither_register_nor_show_an_address(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    await mine.challenge()
    assert {path for _, path in mine.server.requests} == {"/mcp"}


async def test_a_pasted_redirect_is_as_good_as_a_browser_on_this_machine(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    mine.pasted = lambda: f"  {browse(mine.shown[-1])}\n"
    await mine.sign_in()
    assert await mine.connect() == ["open_door"]


async def test_a_token_at_its_end_is_refreshed_once_and_for_all_processes(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    mine.server.lasting_s = 1
    await mine.sign_in()
    mine.server.lasting_s = 3600
    found: list[list[str]] = []

    async def connect() -> None:
        found.append(await mine.connect())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(connect)
    assert found == [["open_door"]] * 3
    assert mine.server.refreshes == 1


async def test_a_refused_token_is_refreshed_and_the_request_is_repeated(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    await mine.sign_in()
    kept = {**mine.state, "ofAnotherProgram": 1}
    mine.file.write_text(json.dumps({f"mcp__my_server|{mine.server.address}": kept, "other": {"a": 1}}))
    mine.server.access.clear()
    assert await mine.connect() == ["open_door"]
    assert mine.server.refreshes == 1
    assert mine.state["ofAnotherProgram"] == 1
    assert json.loads(mine.file.read_text())["other"] == {"a": 1}
    assert mine.state["tokens"]["refresh_token"] != kept["tokens"]["refresh_token"]


async def test_a_revoked_refresh_token_asks_for_a_sign_in_and_is_forgotten(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    await mine.sign_in()
    mine.server.access.clear()
    mine.server.refresh.clear()
    await mine.challenge()
    assert mine.server.count("/token") == 2
    assert "tokens" not in mine.state
    assert "clientInformation" in mine.state
    await mine.challenge()
    assert mine.server.count("/token") == 2
    # The registration is used again, and so is its port.
    await mine.sign_in()
    assert mine.server.count("/register") == 1


async def test_what_goes_wrong_in_a_sign_in_is_said(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    mine.server.is_denying = True
    with pytest.raises(SignInFailed, match="the user said no"):
        await mine.sign_in()
    mine.server.is_denying = False
    mine.pasted = lambda: browse(mine.shown[-1], changed="of-another")
    with pytest.raises(SignInFailed, match="belongs to another login"):
        await mine.sign_in()
    mine.pasted = lambda: None
    with pytest.raises(SignInCancelled):
        await mine.sign_in()
    assert "tokens" not in mine.state


async def test_a_redirect_with_a_wrong_state_does_not_end_the_sign_in(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()

    def visit(url: str) -> None:
        assert httpx.get(browse(url, changed="wrong")).status_code == 400
        assert httpx.get(browse(url)).status_code == 200

    mine.visit = visit
    await mine.sign_in()
    assert await mine.connect() == ["open_door"]


async def test_a_sign_in_has_a_limit_and_its_listener_ends(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    mine.visit = lambda url: None
    for limit_s in (1, 60):
        with pytest.raises(SignInFailed, match=f"not completed within {limit_s} seconds"):
            await mine.sign_in(limit_s=limit_s)
        if mine.shown:  # a busy machine may not come so far in a second
            break
    assert not is_listening(port_of(mine.shown[-1]))


async def test_an_aborted_sign_in_ends_at_once_and_stores_no_token(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    shown = trio.Event()
    mine.visit = lambda url: trio.from_thread.run_sync(shown.set)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mine.sign_in)
        await shown.wait()
        nursery.cancel_scope.cancel()
    assert not is_listening(port_of(mine.shown[-1]))
    assert "tokens" not in mine.state


def port_of(shown: str) -> int:
    port = httpx.URL(httpx.URL(shown).params["redirect_uri"]).port
    assert port is not None
    return port


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


async def test_the_redirect_is_the_one_that_is_configured(guarded: Callable[..., Guarded]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        mine = guarded(callbackPort=port)
        with pytest.raises(SignInFailed, match=f"port {port}, which oauth wants for the redirect, is in use"):
            await mine.sign_in()
        assert mine.server.count("/register") == 0
    uri = f"http://localhost:{port}/back/here"
    mine = guarded(callbackUrl=uri, clientName="Somebody")
    await mine.sign_in()
    assert str(mine.server.asked[-1].redirect_uri) == uri
    assert [client.client_name for client in mine.server.clients.values()] == ["Somebody"]


async def test_a_registered_client_and_its_metadata_are_used(guarded: Callable[..., Guarded]) -> None:
    from mcp.shared.auth import OAuthClientInformationFull
    from pydantic import AnyUrl

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mine = guarded(clientId="by-hand", clientSecret="${SECRET}", callbackPort=port)
    mine.server.clients["by-hand"] = OAuthClientInformationFull(
        client_id="by-hand",
        client_secret="sekret-of-it",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        token_endpoint_auth_method="client_secret_basic",
        scope="read write",
    )
    document = f"{mine.server.url}/.well-known/oauth-authorization-server"
    with_document = guarded(
        clientId="by-hand", clientSecret="${SECRET}", callbackPort=port, authServerMetadataUrl=document
    )
    for each in (mine, with_document):
        await each.sign_in()
        assert await each.connect() == ["open_door"]
        # The client is configured, so it is not stored.
        assert "clientInformation" not in each.state
        each.credentials.remove()
    assert mine.server.count("/register") == 0
    assert mine.server.count("/.well-known/oauth-protected-resource/mcp") == 1


async def test_an_address_that_is_not_safe_gets_no_token(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    challenge = Challenge(401, 'Bearer resource_metadata="http://169.254.169.254/latest"')
    with pytest.raises(SignInFailed, match="must be on an https address"):
        await sign_in_to(mine.entry, mine.given, mine.credentials, challenge, mine, 20)
    with pytest.raises(SignInFailed, match="no client metadata document"):
        await sign_in_to(
            guarded(clientRegistration="cimd").entry, mine.given, mine.credentials, Challenge(401, ""), mine, 20
        )


@pytest.mark.parametrize(
    "broken",
    [
        {"tokens": {"accessToken": "of a later release"}},
        {"tokens": "sealed"},
        {"serverUrl": "https://elsewhere.example/", "tokens": {"access_token": "x"}},
        "sealed",
    ],
)
async def test_a_shape_that_is_not_understood_stays_beside_a_sign_in_of_its_own(
    guarded: Callable[..., Guarded], broken: object
) -> None:
    mine = guarded()
    key = f"mcp__my_server|{mine.server.address}"
    mine.file.parent.mkdir()
    mine.file.write_text(json.dumps({key: broken}))
    await mine.sign_in()
    assert await mine.connect() == ["open_door"]
    found = json.loads(mine.file.read_text())
    assert found[key] == broken
    assert found[f"pinnace|{key}"]["tokens"]["access_token"].startswith("access-")


async def test_a_file_that_is_no_json_is_left_alone(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    mine.file.parent.mkdir()
    mine.file.write_text('{"half')
    with pytest.raises(SignInFailed, match=r"mcp-auth\.json"):
        await mine.sign_in()
    assert mine.file.read_text() == '{"half'


async def test_an_old_entry_of_the_address_alone_is_taken_over(guarded: Callable[..., Guarded]) -> None:
    mine = guarded()
    await mine.sign_in()
    mine.file.write_text(json.dumps({mine.server.address: mine.state}))
    mine.server.access.clear()
    assert await mine.connect() == ["open_door"]
    assert list(json.loads(mine.file.read_text())) == [f"mcp__my_server|{mine.server.address}"]


async def test_a_lock_of_another_process_is_waited_for_and_the_wait_can_be_cancelled(
    guarded: Callable[..., Guarded],
) -> None:
    mine = guarded()
    await mine.sign_in()
    async with mine.credentials.refreshing():
        (lock,) = mine.file.parent.glob("mcp-auth-refresh-*.lock")
        with trio.move_on_after(0.3) as waiting:
            async with mine.credentials.refreshing():
                raise AssertionError
        assert waiting.cancelled_caught
    assert not lock.exists()


@pytest.mark.skipif(not (PI.exists() and NODE.exists()), reason="needs pi 1.5.2 (scripts/peers)")
async def test_the_original_uses_a_sign_in_of_this_program_and_the_other_way_round(
    guarded: Callable[..., Guarded],
) -> None:
    """pi refreshes what we have stored, under its locks, and we refresh what pi has stored."""
    mine = guarded()
    await mine.sign_in()
    (mine.file.parent / "mcp.json").write_text(json.dumps({"mcpServers": {"my-server": {"url": mine.server.address}}}))
    mine.server.access.clear()
    environment = {**mine.env, "PATH": "/usr/bin:/bin", "PI_OFFLINE": "1"}

    def listed() -> Any:
        done = subprocess.run(
            [NODE, PI, "mcp", "list", "--json"],
            env=environment,
            cwd=mine.file.parent,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return json.loads(done.stdout)["servers"][0]

    shown = await trio.to_thread.run_sync(listed)
    assert (shown["state"], shown["tools"]) == ("connected", ["open_door"])
    assert mine.server.refreshes == 1
    of_pi = mine.state
    mine.server.access.clear()
    assert await mine.connect() == ["open_door"]
    assert mine.server.refreshes == 2
    assert mine.state.keys() == of_pi.keys()
