"""What a connection to a server can do, and how it fails, without the library of the protocol."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import trio


class LinkLost(Exception):
    """The connection has ended; the text says why. What a call may have done is not known."""

    def __init__(self, text: str, details: str = "") -> None:
        """Keep both; `details` is the end of what the server has written to stderr."""
        super().__init__(text)
        self.details = details


class NotConnected(LinkLost):
    """There is no connection, and none can be made: the request was not sent."""


class Unreachable(LinkLost):
    """The server can't be reached now, and perhaps soon."""

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        """Keep both; `wait_s` is how long the server asks to wait (`Retry-After`), None: it does not."""
        super().__init__(text)
        self.wait_s = wait_s


class Challenge(NamedTuple):
    """With what a server has refused a request that carries no good token."""

    status: int
    header: str
    """Its `WWW-Authenticate`; may be empty."""


class NeedsAuth(LinkLost):
    """The server wants the user to sign in: the request was not executed."""

    def __init__(self, text: str, challenge: Challenge) -> None:
        """Keep both."""
        super().__init__(text)
        self.challenge = challenge


class SignInFailed(Exception):
    """The user has not signed in; the text says why, without a token."""


class SignInCancelled(SignInFailed):
    """The user did not want to."""


class SessionExpired(LinkLost):
    """The server does not know the session any more: the request was not executed."""


class ServerError(Exception):
    """The server has answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        """Keep both."""
        super().__init__(text)
        self.code = code
        self.text = text


class CallTimedOut(Exception):
    """There was no answer, and no progress, for as long as the server may take."""


class OnProgress(Protocol):
    """Takes the progress of one request. Must not wait."""

    def __call__(self, value: float, total: float | None, message: str | None) -> None:
        """Take it."""


def _ignore(_task_id: str) -> None:
    """Do nothing."""


class ServerHooks(NamedTuple):
    """What a server may ask of the agent, and report to it. None of the plain functions waits."""

    logged: Callable[[Mapping[str, object]], None]
    """Takes a `notifications/message`."""
    changed: Callable[[str], None]
    """Takes the change of a list: `tools`, `prompts` or `resources`."""
    roots: Callable[[], str]
    """Returns the folder of the session."""
    elicit: Callable[[Mapping[str, object]], Awaitable[Mapping[str, object]]] | None
    """Asks the user, with the parameters of `elicitation/create`, and returns the result; None: there is no user."""
    task_changed: Callable[[str], None] = _ignore
    """Takes the id of a task whose state has changed."""


class ServerLink(Protocol):
    """One connection to a server, after the handshake."""

    @property
    def capabilities(self) -> Mapping[str, object]:
        """What the server offers, by name."""
        ...

    @property
    def instructions(self) -> str:
        """What the server says about itself; may be empty."""
        ...

    @property
    def protocol(self) -> str:
        """The version of the protocol."""
        ...

    @property
    def is_current(self) -> Callable[[], bool] | None:
        """Returns whether the server's program still sees what another one would that is started now.

        Blocks; for any thread. None: it is no program in a sandbox.
        """
        ...

    @property
    def ended(self) -> trio.Event:
        """Set when it has ended."""
        ...

    @property
    def reason(self) -> str:
        """Why it has ended."""
        ...

    def declare(self, schemas: Mapping[str, Mapping[str, object]]) -> Mapping[str, str]:
        """Take the schemas of all tools as the server has sent them, by name, in the place of those before.

        Later calls repeat the arguments that a schema marks (`x-mcp-header`) as headers of the request.

        Returns:
            Why some can't be called over this connection, by name: what they mark is not allowed.
        """
        ...

    @property
    def announces(self) -> Sequence[str]:
        """The lists whose changes `listen` reports: `tools`, `prompts`. Empty where the server reports them unasked."""
        ...

    async def listen(self) -> None:
        """Ask the server for the changes of its lists, and wait until it has ended that in order.

        When it has agreed, and at each change, the list is reported as changed (`ServerHooks.changed`).

        Raises:
            ServerError: The server refuses, or has ended that in another way.
            LinkLost: The connection has ended.
        """
        ...

    async def listen_to(self, task_id: str) -> None:
        """Ask the server for the changes of a task, and wait until it has ended that in order.

        When it has agreed, and at each change, the task is reported as changed (`ServerHooks.task_changed`).

        Raises:
            ServerError: The server refuses, or has ended that in another way.
            LinkLost: The connection has ended.
        """
        ...

    async def answers(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        """Answer what the server asks within a result, by its keys.

        Raises:
            ServerError: It asks for what is not offered.
        """
        ...

    async def request(
        self, method: str, params: Mapping[str, object], timeout_s: float, on_progress: OnProgress | None = None
    ) -> Mapping[str, object]:
        """Send a request once, and return the result as it came.

        Cancelling notifies the server, and does not wait for it.

        Args:
            method: Of the request.
            params: Of the request.
            timeout_s: For the answer; progress begins it anew, and it does not run while the user is asked.
            on_progress: Takes progress.

        Raises:
            ServerError: The server refuses.
            CallTimedOut: There was no answer.
            LinkLost: The connection has ended.
        """
        ...
