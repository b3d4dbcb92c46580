"""OAuth by the library's `OAuthClientProvider`: what requests carry, the refresh of a token, and signing in.

The library discovers, registers, makes the proof key and exchanges codes. What it lacks is here: a refresh that lasts
beyond one process, since the library forgets where the authorization server is; addresses that tokens may not go to;
limits of time and size; and that only a sign-in which the user wants may register a client or show an address.
"""

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import parse_qs, urlsplit

import httpx2
import trio
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from pinnace_agent.config.credentials.logins import is_safe_endpoint
from pinnace_agent.core.finishing import finish_within
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_list, is_object
from pinnace_agent.mcp.launching import ClientSettings
from pinnace_agent.mcp.oauth.credentials import FILE_NAME, NOTHING, Credentials, StoredCredentials
from pinnace_agent.mcp.ports import Challenge, SignInFailed
from pinnace_agent.mcp.wire.local_addresses import REFUSED, leads_here, must_be_elsewhere
from pinnace_agent.redaction.redactor import REDACTOR

_Method: TypeAlias = Literal["none", "client_secret_post", "client_secret_basic"]
_REFRESH_S: Final = 30.0
"""For one refresh, with everything that it has to ask."""
_REQUEST_S: Final = 30.0
"""For one answer of an authorization server."""
_EARLY_S: Final = 30.0
"""How long before its end a token is refreshed, as the original does."""
_UNAUTHORIZED: Final = 401
_OK: Final = 200
_INSUFFICIENT: Final = "insufficient_scope"
_GONE_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})
_METHODS: Final[Sequence[_Method]] = (
    "none",
    "client_secret_post",
    "client_secret_basic",
)
"""To register with, the best first. Servers made with the library want the client's id in the body, where the original,
which uses the same registration, sends it with the second and not with the third.
"""
_FILE_ERRORS: Final = (ConfigurationFileError, LockHeld, OSError)


OpenClient: TypeAlias = Callable[[str], httpx2.AsyncClient]
"""Makes the client for an address: with its proxy, certificates and limits, and without anything of the server."""


class ProviderToken(httpx2.Auth):
    """Sends the token of a model provider, read for each request: its own refreshes apply."""

    def __init__(self, token: Callable[[], Awaitable[str | None]]) -> None:
        """Send what `token` returns; None: nothing."""
        self._token = token

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token to a request."""
        token = await self._token()
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


@dataclass(slots=True)
class _Refresh:
    """One refresh, which all requests wait for that need it."""

    done: trio.Event


class StoredToken(httpx2.Auth):
    """Sends the stored token of a server. Refreshes one that is at its end, or that was refused, once."""

    def __init__(self, credentials: Credentials, settings: ClientSettings, open_client: OpenClient) -> None:
        """Read nothing yet."""
        self._credentials = credentials
        self._settings = settings
        self._open_client = open_client
        self._refreshing: _Refresh | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token to a request, and send it once more with a new one if the server refuses it."""
        stored = await self._load()
        if stored.refresh_token is not None and stored.expires_within(_EARLY_S):
            stored = await self._refreshed(stored)
        _authorize(request, stored)
        response = yield request
        if response.status_code != _UNAUTHORIZED or stored.refresh_token is None:
            return
        newer = await self._refreshed(stored)
        if newer.access_token not in (None, stored.access_token):
            _authorize(request, newer)
            yield request

    async def _load(self) -> StoredCredentials:
        try:
            return await trio.to_thread.run_sync(self._credentials.load)
        except _FILE_ERRORS:
            return NOTHING  # a sign-in will say why

    async def _refreshed(self, stale: StoredCredentials) -> StoredCredentials:
        """Return what is stored after a refresh, or after that of another process. Cancelling lets it finish."""
        if self._refreshing is None:
            self._refreshing = _Refresh(trio.Event())
            trio.lowlevel.spawn_system_task(self._work, stale.access_token, self._refreshing, name="MCP token refresh")
        await self._refreshing.done.wait()
        return await self._load()

    async def _work(self, stale: str | None, refresh: _Refresh) -> None:
        """Refresh. Raises nothing: what failed shows when the token is refused."""
        try:
            await finish_within(_REFRESH_S, lambda: self._refresh(stale))
        except Exception:  # the boundary: of the library, of the network, of the file
            pass
        except BaseExceptionGroup:
            pass  # the process ends
        finally:
            self._refreshing = None
            refresh.done.set()

    async def _refresh(self, stale: str | None) -> None:
        async with self._credentials.refreshing():
            stored = await trio.to_thread.run_sync(self._credentials.load)
            if stored.access_token != stale or stored.refresh_token is None:
                return  # another process was faster
            provider = _provider(self._credentials, self._settings, stored)
            if not await _knows_token_endpoint(provider, self._credentials, self._settings, stored, self._open_client):
                return
            provider.context.token_expiry_time = 1.0  # what makes the library refresh
            request = httpx2.Request("POST", self._credentials.url)
            flow = provider.async_auth_flow(request)
            try:
                outgoing = await anext(flow)
                if outgoing is request:
                    return  # it is not registered there
                response = await _exchange(outgoing, self._open_client)
                await self._forget(response)
                await flow.asend(response)
            finally:
                await flow.aclose()

    async def _forget(self, response: httpx2.Response) -> None:
        """Remove what the authorization server says is of no use any more."""
        error = _json(response).get("error") if response.status_code != _OK else None
        gone: dict[str, object] = {}
        if error == "invalid_grant" or error in _GONE_CLIENT:
            gone = {"tokens": None, "tokensExpireAt": None}
        if error in _GONE_CLIENT:
            gone |= {"clientInformation": None, "discovery": None}
        if gone:
            await trio.to_thread.run_sync(self._credentials.save, gone)


class SignInRedirect(Protocol):
    """The page that the authorization server sends the browser to, and the user whom it asks."""

    uri: str

    async def response(self, url: str, state: str) -> Mapping[str, str]:
        """Show an address, and return the parameters of the redirect with this state.

        Raises:
            SignInFailed: The user, or the authorization server, does not want it.
        """
        ...


async def sign_in(
    credentials: Credentials,
    settings: ClientSettings,
    challenge: Challenge,
    redirecting: SignInRedirect,
    open_client: OpenClient,
) -> None:
    """Let the user sign in to a server, and store the tokens.

    Args:
        credentials: Where they are stored.
        settings: How this program is known there.
        challenge: With what the server has refused a request.
        redirecting: The page of the redirect, and the user.
        open_client: Makes the clients of requests.

    Raises:
        SignInFailed: There are no tokens; the text says why.
    """
    try:
        await _sign_in(credentials, settings, challenge, redirecting, open_client)
    except SignInFailed:
        raise
    except _FILE_ERRORS as error:
        raise SignInFailed(f"{FILE_NAME}: {error}") from None
    except ValidationError:
        raise SignInFailed("an answer of the authorization server is not one of the protocol") from None
    except (OAuthFlowError, ValueError) as error:
        raise SignInFailed(str(error)) from None
    except httpx2.HTTPError as error:
        raise SignInFailed(str(error) or type(error).__name__) from None


async def _sign_in(
    credentials: Credentials,
    settings: ClientSettings,
    challenge: Challenge,
    redirecting: SignInRedirect,
    open_client: OpenClient,
) -> None:
    stored = await trio.to_thread.run_sync(credentials.load)
    request = httpx2.Request("POST", credentials.url)
    refusal = httpx2.Response(challenge.status, headers={"WWW-Authenticate": challenge.header}, request=request)
    is_step_up = extract_field_from_www_auth(refusal, "error") == _INSUFFICIENT
    asked = union_scopes(settings.scope, extract_field_from_www_auth(refusal, "scope"))
    provider = _provider(credentials, settings, stored, redirecting, is_step_up=is_step_up)
    status = challenge.status
    if settings.metadata_url is not None:
        provider.context.oauth_metadata = await _metadata_at(settings.metadata_url, open_client)
        _choose_method(provider)
        # With metadata the library discovers nothing when a server asks for more.
        status, is_step_up = 403, True
    header = _challenge(extract_field_from_www_auth(refusal, "resource_metadata"), asked, is_step_up=is_step_up)
    flow = provider.async_auth_flow(request)
    try:
        await anext(flow)
        response = httpx2.Response(status, headers={"WWW-Authenticate": header}, request=request)
        while (outgoing := await flow.asend(response)) is not request:
            response = await _exchange(outgoing, open_client)
            _note_methods(provider, response)
    finally:
        await flow.aclose()


def _challenge(resource_metadata: str | None, scope: str | None, *, is_step_up: bool) -> str:
    """Return the header that has the library ask for a scope, with the one that is configured."""
    parts = {
        "resource_metadata": resource_metadata,
        "scope": scope,
        "error": _INSUFFICIENT if is_step_up else None,
    }
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


class _Storage:
    """What the library stores, as it is kept for the original."""

    def __init__(
        self,
        credentials: Credentials,
        settings: ClientSettings,
        stored: StoredCredentials,
        redirect: str | None,
        *,
        is_new: bool,
    ) -> None:
        self._credentials = credentials
        self._settings = settings
        self._stored = stored
        self._redirect = redirect
        self._is_new = is_new
        self.context_of: Callable[[], Mapping[str, object]] = dict

    async def get_tokens(self) -> OAuthToken | None:
        return None if self._is_new or not self._stored.tokens else OAuthToken.model_validate(self._stored.tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        former = {} if self._is_new else self._stored.tokens
        fields = {**former, **tokens.model_dump(mode="json", exclude_none=True)}
        REDACTOR.learn(tokens.access_token, tokens.refresh_token)
        expires_ms = None if tokens.expires_in is None else round((time.time() + tokens.expires_in) * 1000)
        changes = {"tokens": fields, "tokensExpireAt": expires_ms}
        await trio.to_thread.run_sync(self._credentials.save, {**changes, **self.context_of()})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        settings = self._settings
        if settings.client_id is not None:
            method = "client_secret_basic" if settings.client_secret is not None else "none"
            return OAuthClientInformationFull(
                client_id=settings.client_id,
                client_secret=settings.client_secret,
                token_endpoint_auth_method=method,
            )
        client = self._stored.client
        if not client or (self._redirect is not None and not _is_registered(client, self._redirect)):
            return None
        return OAuthClientInformationFull.model_validate(client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self._settings.client_id is not None:
            return
        REDACTOR.learn(client_info.client_secret)
        # Tokens of another registration are of no use with this one.
        changes = {"clientInformation": client_info.model_dump(mode="json", exclude_none=True)}
        await trio.to_thread.run_sync(self._credentials.save, {**changes, "tokens": None, "tokensExpireAt": None})


def _provider(
    credentials: Credentials,
    settings: ClientSettings,
    stored: StoredCredentials,
    redirecting: SignInRedirect | None = None,
    *,
    is_step_up: bool = False,
) -> OAuthClientProvider:
    """Return the library's provider; without a user it can refresh alone."""
    is_new = redirecting is not None and not is_step_up
    redirect = None if redirecting is None else redirecting.uri
    storage = _Storage(credentials, settings, stored, redirect, is_new=is_new)
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect or "http://127.0.0.1/callback")],
        client_name=settings.client_name,
        token_endpoint_auth_method="none",
        scope=settings.scope if is_step_up else None,
    )
    waiting: list[str] = []

    async def show(url: str) -> None:
        if not is_safe_endpoint(url):
            page = url.partition("?")[0]
            raise SignInFailed(f"the page of the authorization server is not on an https address: {page}")
        if must_be_elsewhere(url, (credentials.url, settings.metadata_url)) and await leads_here(url):
            raise SignInFailed(f"{url.partition('?')[0]}, the page of the authorization server: {REFUSED}")
        _choose_method(provider)
        waiting.append(url)

    async def answered() -> AuthorizationCodeResult:
        assert redirecting is not None
        (url,) = waiting
        (state,) = parse_qs(urlsplit(url).query)["state"]
        found = await redirecting.response(url, state)
        REDACTOR.learn(found["code"])
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    provider = OAuthClientProvider(
        credentials.url,
        metadata,
        storage,
        show if redirecting is not None else None,
        answered if redirecting is not None else None,
    )
    if settings.metadata_url is None and redirecting is not None:
        storage.context_of = lambda: {"discovery": _discovered(provider)}
    return provider


def _discovered(provider: OAuthClientProvider) -> JsonObject:
    """Return where the library has found the authorization server, in the original's shape."""
    context = provider.context
    found: JsonObject = {"authorizationServerUrl": context.auth_server_url or _origin(context.server_url)}
    for name, model in (
        ("authorizationServerMetadata", context.oauth_metadata),
        ("resourceMetadata", context.protected_resource_metadata),
    ):
        if model is not None:
            found[name] = model.model_dump(mode="json", exclude_none=True)
    return found


async def _knows_token_endpoint(
    provider: OAuthClientProvider,
    credentials: Credentials,
    settings: ClientSettings,
    stored: StoredCredentials,
    open_client: OpenClient,
) -> bool:
    """Have the library know what was discovered at the sign-in; return whether it is enough for a refresh."""
    context, found = provider.context, stored.discovery
    if settings.metadata_url is not None:
        context.oauth_metadata = await _metadata_at(settings.metadata_url, open_client)
        return True
    if resource := found.get("resourceMetadata"):
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(resource)
    if metadata := found.get("authorizationServerMetadata"):
        context.oauth_metadata = OAuthMetadata.model_validate(metadata)
        return True
    server = found.get("authorizationServerUrl")
    # Without metadata the library takes the endpoint of the server itself, which must be the one that was meant.
    return isinstance(server, str) and _origin(server) == _origin(credentials.url)


async def _metadata_at(url: str, open_client: OpenClient) -> OAuthMetadata:
    response = await _exchange(httpx2.Request("GET", url, headers={"Accept": "application/json"}), open_client)
    if response.status_code != _OK:
        raise SignInFailed(f"oauth.authServerMetadataUrl: HTTP status {response.status_code}")
    try:
        return OAuthMetadata.model_validate_json(response.content)
    except ValidationError:
        raise SignInFailed("oauth.authServerMetadataUrl: it is not the metadata of an authorization server") from None


def _note_methods(provider: OAuthClientProvider, response: httpx2.Response) -> None:
    """Register with a way to authenticate that the authorization server has; its metadata is about to be read."""
    if response.status_code == _OK and is_list(methods := _json(response).get("token_endpoint_auth_methods_supported")):
        method = _first_of(methods)
        if method is not None:
            provider.context.client_metadata.token_endpoint_auth_method = method


def _choose_method(provider: OAuthClientProvider) -> None:
    """Authenticate a configured client, whose registration is not known, in a way that the server has."""
    context = provider.context
    supported = None if context.oauth_metadata is None else context.oauth_metadata.token_endpoint_auth_methods_supported
    if supported is None:
        return
    method = _first_of(supported)
    if context.client_info is None:
        context.client_metadata.token_endpoint_auth_method = method
    elif context.client_info.token_endpoint_auth_method == "client_secret_basic" and method is not None:
        is_basic = "client_secret_basic" in supported or "client_secret_post" not in supported
        context.client_info.token_endpoint_auth_method = "client_secret_basic" if is_basic else "client_secret_post"


def _first_of(supported: Sequence[object]) -> _Method | None:
    """Return the best way to authenticate that a server has; None: it has none that is known here."""
    for each in _METHODS:
        if each in supported:
            return each
    return None


async def _exchange(request: httpx2.Request, open_client: OpenClient) -> httpx2.Response:
    """Send a request to the authorization server, or for metadata; the answer has been read.

    Raises:
        SignInFailed: Its address is none that tokens may be sent to, or there was no answer.
    """
    url = str(request.url)
    if not is_safe_endpoint(url):
        raise SignInFailed(f"{url}: an authorization server must be on an https address")
    try:
        with trio.fail_after(_REQUEST_S):
            async with open_client(url) as client:
                return await client.send(request)
    except trio.TooSlowError:
        raise SignInFailed(f"{_origin(url)} has not answered within {_REQUEST_S:g} seconds") from None
    except httpx2.HTTPError as error:
        raise SignInFailed(f"{_origin(url)}: {str(error) or type(error).__name__}") from None


def _authorize(request: httpx2.Request, stored: StoredCredentials) -> None:
    if stored.access_token is not None:
        request.headers["Authorization"] = f"Bearer {stored.access_token}"


def _is_registered(client: JsonObject, redirect: str) -> bool:
    """Return whether a registration is for a redirect, or does not say for which it is."""
    uris = client.get("redirect_uris")
    return not is_list(uris) or redirect in uris


def _json(response: httpx2.Response) -> JsonObject:
    try:
        value: object = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    return value if is_object(value) else {}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
