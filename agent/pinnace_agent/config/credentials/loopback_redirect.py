"""Helpers for logins in a browser: PKCE (RFC 7636), and a redirect to this machine (RFC 8252)."""

import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

import trio

from pinnace_agent.config.credentials.logins import LoginCancelled
from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread

_MAX_HEAD_BYTES: Final = 16 * 1024
# A browser sends its request at once; other connections must not make it wait.
_REQUEST_S: Final = 10.0


class ForeignRedirect(LoginCancelled):
    """What was pasted is no code, or belongs to another login."""


class Pkce(NamedTuple):
    """A proof key: the verifier stays here until the code is exchanged, the challenge goes with the first request."""

    verifier: str
    challenge: str
    method: str = "S256"


def pkce() -> Pkce:
    """Return a new proof key."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    return Pkce(verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode())


@usable_from_any_thread()
class Redirect:
    """A page on this machine that receives the authorization code from the browser."""

    def __init__(self, uri: str, path: str, *, has_state: bool = True) -> None:
        """Create a redirect that isn't served yet. Without a state the path must be one that can't be guessed."""
        self.uri = uri
        """The `redirect_uri` of the authorization request."""
        self.state = secrets.token_urlsafe(24)
        """Its `state`: a redirect without it is rejected. Code that makes its own sets it before it shows a URL."""
        self._path = path
        self._has_state = has_state
        self._done = trio.Event()
        self._answer: dict[str, list[str]] = {}
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    async def code(self) -> str:
        """Wait for the browser and return the code.

        Raises:
            LoginCancelled: The authorization server sent an error instead.
        """
        await self._done.wait()
        return self._code()

    @property
    def has_arrived(self) -> bool:
        """Whether the browser has been here."""
        return self._done.is_set()

    async def arrived(self) -> None:
        """Wait for the browser."""
        await self._done.wait()

    async def response(self, pasted: str | None = None) -> dict[str, str]:
        """Return the parameters of the redirect, such as `iss`: those of a pasted URL, else of the browser's request.

        Raises:
            LoginCancelled: The authorization server sent an error, or the pasted URL belongs to another login.
        """
        if pasted is None:
            await self._done.wait()
            return self._response()
        await trio.lowlevel.checkpoint()
        self._answer = self._checked(pasted.strip())
        return self._response()

    def read(self, pasted: str) -> str:
        """Return the code from pasted text: the URL that the browser was redirected to, its query, or the code alone.

        A code may have its state behind it, as some pages show it: `CODE#STATE`.

        Raises:
            ForeignRedirect: It is empty, or belongs to another login.
            LoginCancelled: The authorization server sent an error instead, or the URL has no code.
        """
        text = pasted.strip()
        code, mark, state = text.partition("#")
        if "://" in text or "code=" in text or "error=" in text:
            self._answer = self._checked(text)
            return self._code()
        if not code or (mark and self._has_state and state != self.state):
            raise ForeignRedirect("the pasted code belongs to another login" if code else "nothing was pasted")
        return code

    def _checked(self, text: str) -> dict[str, list[str]]:
        """Return the parameters of a pasted URL, or of its query."""
        place = _place(text if "://" in text else f"{self._path}?{text.removeprefix('?')}")
        answer = {} if place is None else parse_qs(place.query)
        if place is None or not (answer.get("state") == [self.state] if self._has_state else place.path == self._path):
            raise ForeignRedirect("the pasted URL belongs to another login")
        return answer

    def _code(self) -> str:
        if "code" not in self._answer:
            reason, *_ = (
                self._answer.get("error_description") or self._answer.get("error") or ["the redirect had no code"]
            )
            raise LoginCancelled(f"the authorization server refused: {reason}")
        return self._answer["code"][0]

    def _response(self) -> dict[str, str]:
        self._code()
        return {name: values[0] for name, values in self._answer.items()}

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one request of a browser."""
        head = b""
        try:
            with trio.move_on_after(_REQUEST_S):
                while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
                    piece = await stream.receive_some()
                    if not piece:
                        break
                    head += piece
                status, text = self._take(head)
                body = f"<!doctype html><title>pinnace</title><p>{text}</p>".encode()
                await stream.send_all(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + body
                )
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            await trio.aclose_forcefully(stream)

    def _take(self, head: bytes) -> tuple[str, str]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        place = _place(words[1]) if len(words) == 3 else None
        if place is None or words[0] != "GET" or place.path != self._path:
            return "404 Not Found", "There is no such page."
        answer = parse_qs(place.query)
        is_own = not self._has_state or answer.get("state") == [self.state]
        if not is_own or self._done.is_set() or not answer.keys() & {"code", "error"}:
            return "400 Bad Request", "This belongs to no login that is waiting."
        self._answer = answer
        self._done.set()
        return "200 OK", "This page can be closed." if "code" in answer else "The login was refused."


def _place(url: str) -> SplitResult | None:
    """Return the parts of a URL; None: it is none, such as `//[`, which any page can have a browser ask for."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


@asynccontextmanager
async def loopback_redirect(
    port: int = 0,
    path: str = "/callback",
    host: Literal["127.0.0.1", "localhost", "::1"] = "127.0.0.1",
    *,
    has_state: bool = True,
) -> AsyncGenerator[Redirect, None]:
    """Listen on this machine during the block; `redirect.uri` is the redirect URI of the authorization request.

    Args:
        port: The port; 0: any free port.
        path: The path of the page.
        host: As the URI names this machine.
        has_state: Whether the server returns the `state`. Without it the path must be one that can't be guessed.

    Raises:
        OSError: The port is in use.
    """
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1" if host == "localhost" else host)
    number: int = listeners[0].socket.getsockname()[1]
    if host == "localhost":  # a browser tries both, where there are both
        with suppress(OSError):
            listeners += await trio.open_tcp_listeners(number, host="::1")
    shown = f"[{host}]" if ":" in host else host
    redirect = Redirect(f"http://{shown}:{number}{path}", path, has_state=has_state)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, redirect.serve, listeners)
        try:
            yield redirect
        finally:
            nursery.cancel_scope.cancel()
