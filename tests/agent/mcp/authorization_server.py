"""A server over HTTP that wants a sign-in, with its authorization server, made with the official SDK.

Runs in a thread of the test. What it does next is set by attributes; the browser of the user is `Browser`.
"""

import secrets
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlencode

import httpx
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp, Receive, Scope, Send

LASTING_S: Final = 3600


class AuthorizationServer:
    """Its clients, codes and tokens."""

    def __init__(self, port: int) -> None:
        """Be without clients."""
        self.url: Final = f"http://127.0.0.1:{port}"
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.asked: list[AuthorizationParams] = []
        self.requests: list[tuple[str, str]] = []
        """Method and path of each request."""
        self.is_denying = False
        self.lasting_s = LASTING_S
        self.refreshes = 0

    @property
    def address(self) -> str:
        """That of the MCP server."""
        return f"{self.url}/mcp"

    def count(self, path: str) -> int:
        """Return how many requests there were for a path."""
        return sum(each == path for _, each in self.requests)

    # What the SDK asks of an authorization server.

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append(params)
        if self.is_denying:
            raise AuthorizeError("access_denied", "the user said no")
        code = AuthorizationCode(
            code=f"code-{secrets.token_hex(16)}",
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return f"{params.redirect_uri}?{urlencode({'code': code.code, 'state': params.state or ''})}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.refreshes += 1
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        return self._issue(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    async def exchange_identity_assertion(self, client: object, params: object) -> OAuthToken:
        raise NotImplementedError

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.lasting_s, scope=" ".join(scopes) or None
        )


class _Noting:
    """Notes the requests."""

    def __init__(self, inner: ASGIApp, server: AuthorizationServer) -> None:
        self._inner = inner
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._server.requests.append((scope["method"], scope["path"]))
        await self._inner(scope, receive, send)


@contextmanager
def authorization_server() -> Generator[AuthorizationServer]:
    """Serve until the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    issuer = AuthorizationServer(listening.getsockname()[1])
    guarded = MCPServer(
        "guarded",
        instructions="Has a lock.",
        auth_server_provider=issuer,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(issuer.url),
            resource_server_url=AnyHttpUrl(issuer.address),
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
            validate_token_resource=False,
        ),
    )

    @guarded.tool()
    def open_door() -> str:
        """Open the door."""
        return "open"

    app = _Noting(guarded.streamable_http_app(), issuer)
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, lifespan="on"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        running.should_exit = running.force_exit = True
        thread.join()  # what it leaves is collected with the file of its test
        listening.close()


def browse(url: str, *, changed: str | None = None) -> str:
    """Open an address as the user's browser does; return where the authorization server sends it.

    Args:
        url: As the agent shows it.
        changed: The state that is sent back instead of the right one.
    """
    answer = httpx.get(url, follow_redirects=False)
    assert answer.status_code == 302, answer.text
    place = answer.headers["location"]
    if changed is not None:
        place = str(httpx.URL(place).copy_set_param("state", changed))
    return place
