"""What the connection and its sessions need of a version of the protocol: one translation for each.

A translation reads requests and writes responses, updates and questions; the session core is the same for all. A
further version is a room beside `v1` and `v2` with a class that has these methods, and a line in `router`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.jsonrpc import RequestError, RequestId
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.shown import Call, Command, Json, Shown, Update
from pinnace_rpc.acp.translation.stop_reasons import TurnResult
from pinnace_spec.records.messages import LoginKind

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.acp.turns import PromptTurn

Operation: TypeAlias = Literal[
    "log_in",
    "log_out",
    "new",
    "open",
    "list",
    "delete",
    "close",
    "set_mode",
    "set_option",
    "prompt",
    "steer",
    "cancel_call",
    "cancel_terminal",
    "fork",
    "set_title",
    "status",
    "archive",
    "unarchive",
    "auth_status",
    "list_providers",
    "set_provider",
    "disable_provider",
]
"""What a client can ask for, by whatever method."""

Outcome: TypeAlias = TurnResult | RequestError
Emit: TypeAlias = Callable[[Update], None]


class ProviderLogin(NamedTuple):
    """A provider that this program logs in to."""

    provider: str
    """Its id."""
    name: str
    """For users."""
    method: LoginKind = "device-code"
    """With a code or in a browser."""


class Offer(NamedTuple):
    """What this agent offers a client."""

    release: str
    is_persistent: bool
    """Sessions are stored, and can be listed, opened and deleted."""
    needs_login: bool
    """No model has a key."""
    has_terminals: bool
    """The client can run a login at a terminal."""
    logins: Sequence["ProviderLogin"] = ()
    """The providers that the client's user can log in to, the one of the configured model first."""
    provider: str | None = None
    """The one of the configured model; None: none is known."""
    variable: str | None = None
    """The variable that holds its key; None: none does."""

    def with_own(self, found: Sequence[ProviderLogin]) -> "Offer":
        """Return the same with logins of extensions, which replace those of this program."""
        replaced = {each.provider for each in found}
        own = [each for each in self.logins if each.provider not in replaced]
        return self._replace(logins=sorted([*own, *found], key=lambda each: each.provider != self.provider))


class OpenedSession(NamedTuple):
    """A session as the response that opens it describes it."""

    modes: Json
    options: Sequence[Json]
    commands: Sequence[Command]
    details: Json
    """For `_meta.pinnace`."""


class Option(NamedTuple):
    """A choice in a question."""

    id: str
    name: str
    kind: str


class Question(NamedTuple):
    """A question whether something is permitted."""

    title: str
    text: str
    call: Call | None
    """What it is about."""
    announced: str | None
    """The id of a call that was announced for the question alone, where a version needs one."""
    options: Sequence[Option]


class Replies(Protocol):
    """Where the responses to the client's requests go."""

    def respond(self, identity: RequestId, result: Mapping[str, object]) -> None:
        """Answer a request."""
        ...

    def refuse(self, identity: RequestId, error: RequestError) -> None:
        """Answer a request with an error."""
        ...


class Lifecycle(Protocol):
    """How the client of one session learns of accepted prompts, of work, and of its end."""

    def begin(self, turn: "PromptTurn") -> None:
        """A prompt goes to the agent."""
        ...

    def accept(self, turn: "PromptTurn") -> None:
        """The message of a prompt is in the conversation, as `turn.accepted_as`."""
        ...

    def end(self, turn: "PromptTurn", outcome: Outcome, *, continues: bool, lost: "RequestError | None" = None) -> None:
        """A turn is over; other work may continue.

        Args:
            turn: The turn.
            outcome: How it has ended.
            continues: Other work goes on.
            lost: Why it is not known whether the message of the prompt is in the conversation; None: it is known.
        """
        ...

    def withdraw(self, turn: "PromptTurn") -> None:
        """A prompt is cancelled that had not begun."""
        ...

    def work(self, *, is_at_work: bool, outcome: Outcome | None) -> None:
        """Work that no prompt has begun begins, or ends with an outcome, if one is known."""
        ...

    def wait_for_user(self, *, is_waiting: bool) -> None:
        """The work as a whole waits for an answer of the user, or does not any more."""
        ...

    def stop(self, outcome: Outcome) -> None:
        """The agent is gone, and with it all work."""
        ...

    def report(self) -> None:
        """A client opens the session: it learns what is the case now."""
        ...


class UpdatesOf(Protocol):
    """The updates of one session."""

    def of(self, shown: Shown) -> Iterator[Update]:
        """Yield the updates for what a session shows."""
        ...


class Translation(Protocol):
    """One version of the protocol."""

    @property
    def version(self) -> int:
        """Its number."""
        ...

    @property
    def operations(self) -> Mapping[str, Operation]:
        """What each method asks for."""
        ...

    @property
    def server_fields(self) -> Collection[str]:
        """The fields of an MCP server that must be there, of those that may be left out in some version."""
        ...

    @property
    def opens_in_step(self) -> bool:
        """Whether all that an opened session shows precedes the response that opens it."""
        ...

    @property
    def announces_questions(self) -> bool:
        """Whether a question about no call needs one that is announced for it."""
        ...

    @property
    def closes_unknown(self) -> bool:
        """Whether to close a session that is not open is a success."""
        ...

    @property
    def may_begin_again(self) -> bool:
        """Whether `initialize` may be repeated before any other request."""
        ...

    @property
    def lists_always(self) -> bool:
        """Whether sessions can be listed and opened where none are stored."""
        ...

    def check_request(self, identity: RequestId, params: Params, *, is_newer: bool) -> None:
        """Check what the version alone requires of `initialize`. Raises `InvalidParams` and `RequestError`.

        Args:
            identity: Of the request.
            params: Its parameters.
            is_newer: Whether the client asks for a version that is newer than this one, whose form may differ.
        """
        ...

    def abilities(self, params: Params) -> Abilities:
        """Read what the client of an `initialize` understands."""
        ...

    def description(self, offer: Offer) -> Json:
        """Return the result of `initialize`."""
        ...

    def shows_history(self, method: str, params: Params) -> bool:
        """Return whether a request to open a session asks for all that it has shown. Raises `InvalidParams`."""
        ...

    def opened(self, session: OpenedSession) -> Json:
        """Return the result that describes a session."""
        ...

    def options(self, reported: Sequence[Json]) -> Sequence[Json]:
        """Return the options of a session."""
        ...

    def check_option(self, params: Params) -> None:
        """Check what the version alone requires of a request to set an option. Raises `InvalidParams`."""
        ...

    def updates(self, cwd: str, abilities: Abilities) -> UpdatesOf:
        """Return the updates of a session in a folder."""
        ...

    def lifecycle(self, replies: Replies, emit: Emit, abilities: Abilities) -> Lifecycle:
        """Return the lifecycle of a session, whose updates go to `emit`."""
        ...

    def permission(self, question: Question, cwd: str) -> Json:
        """Return the parameters of `session/request_permission`, but for the session."""
        ...


class Client(NamedTuple):
    """The client of a connection."""

    translation: Translation
    """Of the version that it speaks."""
    abilities: Abilities
