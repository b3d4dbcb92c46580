"""The socket between a host and those that attach: frames, and control messages as values.

A stream of frames goes in both directions: one byte for the kind, four for the length (big-endian), the payload. `d`
frames hold bytes of an RPC stream, divided anywhere; `j` frames hold one control message each. What a peer sends is
checked completely before it becomes a value. Pure; the standard library alone. Must not know sockets or records.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, cast

PROTOCOL_VERSIONS: Final = (1,)
"""The versions that this release speaks, the preferred one first."""
MAX_FRAME_BYTES: Final = 1024 * 1024
"""Of one payload."""
MAX_NAME_CHARACTERS: Final = 64
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNAVAILABLE: Final = 69
"""No host, or no version that both sides speak (EX_UNAVAILABLE)."""
EXIT_LOST: Final = 75
"""The connection is lost, or the agent's process was replaced: attach again (EX_TEMPFAIL)."""

_HEADER_BYTES: Final = 5
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
_CURSOR: Final = re.compile(r"([A-Za-z0-9]{1,64})\.([0-9]{1,15}):([0-9]{1,15})")
_MAX_UMASK: Final = 0o777
_MAX_WORDS: Final = 100_000
_MAX_CLIENT_CHARACTERS: Final = 128

Kind: TypeAlias = Literal["j", "d"]
OnEof: TypeAlias = Literal["detach", "end"]
AgentActionName: TypeAlias = Literal["stop", "restart", "remove"]


class HostProtocolError(Exception):
    """A peer sent what is no frame or no control message. The text names the fault; the connection is of no use."""


class Frame(NamedTuple):
    """A piece of the stream between an attached client and the host."""

    kind: Kind
    payload: bytes


class Cursor(NamedTuple):
    """A place in the journal of an agent, after the record `seq` of `epoch`. Its text: `JOURNAL.EPOCH:SEQ`."""

    journal: str
    epoch: int
    seq: int

    def __str__(self) -> str:
        """Return the text that clients keep."""
        return f"{self.journal}.{self.epoch}:{self.seq}"


class Attach(NamedTuple):
    """The request to be connected to an agent, with all that its start may need."""

    versions: tuple[int, ...]
    release: str
    is_new: bool
    """Whether a new agent is started; with `agent`, under this name."""
    agent: str | None
    session: str | None
    """The id or the path of a session, instead of a name."""
    since: Cursor | None
    has_cursors: bool
    client: str | None
    """The name of this run of a client program, across its reconnects."""
    on_eof: OnEof
    start: tuple[str, ...]
    """The agent's command line after the options of attach."""
    cwd: str
    environment: Mapping[str, str]
    umask: int
    profile: str | None
    takes_options: bool = False
    """Whether a running agent is taken with the options that it was started with, instead of a refusal of others."""


class ListAgents(NamedTuple):
    """The question which agents there are."""

    watches: bool
    """Whether one more answer follows each change."""


class AgentAction(NamedTuple):
    """An order about one agent."""

    action: AgentActionName
    agent: str


class StopHost(NamedTuple):
    """The order to end the host and all its agents."""


class AskStatus(NamedTuple):
    """The question what the host is and does."""


Request: TypeAlias = Attach | ListAgents | AgentAction | StopHost | AskStatus
"""What a connection begins with."""


class Detach(NamedTuple):
    """The client leaves; the agent continues."""

    at_once: bool = False
    """Whether by a signal, else by the end of stdin: then the client's commands are answered before."""


class EndAgent(NamedTuple):
    """The client leaves and ends the agent."""

    at_once: bool
    """Whether by a signal, else by the end of stdin."""


ClientControl: TypeAlias = Detach | EndAgent
"""What an attached client may send beside data."""


class Accepted(NamedTuple):
    """The connection has its agent; data follows."""

    version: int
    release: str
    agent: str
    other_options: tuple[str, ...] = ()
    """The names of the options that differ from those that the running agent was started with."""


class Refused(NamedTuple):
    """The request is refused; the connection ends."""

    exit_code: int
    error: str
    subagent: Mapping[str, object] | None = None
    """Of an attach to a sub-agent: what the list of agents has of it, with its agent as `agent`, so that the client can
    attach to that and show this one alone. A release that does not know it has the error."""


class Ended(NamedTuple):
    """The last frame of an attached connection; all output came before it."""

    exit_code: int
    error: str | None


class Answer(NamedTuple):
    """The answer to a request that attaches nothing."""

    record: Mapping[str, object]


HostControl: TypeAlias = Accepted | Refused | Ended | Answer


def encode_frame(kind: Kind, payload: bytes) -> bytes:
    """Return one frame.

    Raises:
        ValueError: The payload is longer than `MAX_FRAME_BYTES`.
    """
    if len(payload) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame holds at most {MAX_FRAME_BYTES} bytes, not {len(payload)}")
    return kind.encode("ascii") + len(payload).to_bytes(4, "big") + payload


def encode_data(data: bytes) -> Iterator[bytes]:
    """Divide bytes of an RPC stream into frames."""
    for start in range(0, len(data), MAX_FRAME_BYTES):
        yield encode_frame("d", data[start : start + MAX_FRAME_BYTES])


def data_frames(data: bytes) -> list[memoryview]:
    """Divide bytes of an RPC stream into frames, as buffers that share the bytes."""
    buffers: list[memoryview] = []
    for start in range(0, len(data), MAX_FRAME_BYTES):
        payload = memoryview(data)[start : start + MAX_FRAME_BYTES]
        buffers += memoryview(b"d" + len(payload).to_bytes(4, "big")), payload
    return buffers


class FrameDecoder:
    """Divides the bytes of a peer into frames. Memory: one frame and one chunk."""

    def __init__(self) -> None:
        """Start at the beginning of a frame."""
        self._buffer = bytearray()

    def receive_data(self, data: bytes) -> list[Frame]:
        """Take the next bytes and return the frames that are complete.

        Raises:
            HostProtocolError: No frame begins so; nothing more can be read.
        """
        self._buffer += data
        frames: list[Frame] = []
        start = 0
        while len(self._buffer) - start >= _HEADER_BYTES:
            kind = self._buffer[start : start + 1].decode("latin-1")
            length = int.from_bytes(self._buffer[start + 1 : start + _HEADER_BYTES], "big")
            if kind not in ("j", "d"):
                raise HostProtocolError(f"a frame of the unknown kind {kind!r}")
            if length > MAX_FRAME_BYTES:
                raise HostProtocolError(f"a frame of {length} bytes; at most {MAX_FRAME_BYTES} are allowed")
            end = start + _HEADER_BYTES + length
            if len(self._buffer) < end:
                break
            frames.append(Frame("j" if kind == "j" else "d", bytes(self._buffer[start + _HEADER_BYTES : end])))
            start = end
        del self._buffer[:start]
        return frames

    def close(self) -> None:
        """Take the end of the stream.

        Raises:
            HostProtocolError: It ends inside a frame.
        """
        if self._buffer:
            raise HostProtocolError("the connection ends inside a frame")


def is_agent_name(text: str) -> bool:
    """Return whether a text may be the name of an agent: letters, digits, `.`, `_`, `-`; it becomes a folder's."""
    return _NAME.fullmatch(text) is not None


def parse_cursor(text: str) -> Cursor:
    """Read `JOURNAL.EPOCH:SEQ`.

    Raises:
        HostProtocolError: It is none.
    """
    if (match := _CURSOR.fullmatch(text)) is None:
        raise HostProtocolError(f"a cursor (since) is JOURNAL.EPOCH:SEQ, not {text[:80]!r}")
    return Cursor(match[1], int(match[2]), int(match[3]))


def encode_request(request: Request) -> bytes:
    """Return the first frame of a connection.

    Raises:
        ValueError: It does not fit into a frame: the environment and the command line are too long.
    """
    match request:
        case Attach():
            return _encode(
                {
                    "type": "attach",
                    "versions": list(request.versions),
                    "release": request.release,
                    "new": request.is_new,
                    "agent": request.agent,
                    "session": request.session,
                    "since": None if request.since is None else str(request.since),
                    "cursors": request.has_cursors,
                    "client": request.client,
                    "onEof": request.on_eof,
                    "start": list(request.start),
                    "cwd": request.cwd,
                    "environment": dict(request.environment),
                    "umask": request.umask,
                    "profile": request.profile,
                    **({"takesOptions": True} if request.takes_options else {}),
                }
            )
        case ListAgents():
            return _encode({"type": "agents", "watch": request.watches})
        case AgentAction():
            return _encode({"type": request.action, "agent": request.agent})
        case StopHost():
            return _encode({"type": "stop_host"})
        case AskStatus():
            return _encode({"type": "status"})


def parse_request(payload: bytes) -> Request:
    """Read the first control message of a connection.

    Raises:
        HostProtocolError: It is none, or a field is missing, of another type or out of its range.
    """
    fields = _Fields(payload)
    match kind := fields.text("type"):
        case "attach":
            return _parse_attach(fields)
        case "agents":
            return ListAgents(fields.flag("watch", absent=False))
        case "stop" | "restart" | "remove":
            return AgentAction(kind, fields.name("agent"))
        case "stop_host":
            return StopHost()
        case "status":
            return AskStatus()
        case _:
            raise HostProtocolError(f"a request of the unknown type {kind[:80]!r}")


def encode_client_control(control: ClientControl) -> bytes:
    """Return the frame of what an attached client sends beside data."""
    if isinstance(control, EndAgent):
        return _encode({"type": "end", "atOnce": control.at_once})
    return _encode({"type": "detach", "atOnce": control.at_once})


def parse_client_control(payload: bytes) -> ClientControl:
    """Read a control message of an attached client.

    Raises:
        HostProtocolError: It is none.
    """
    fields = _Fields(payload)
    match kind := fields.text("type"):
        case "detach":
            return Detach(fields.flag("atOnce", absent=False))
        case "end":
            return EndAgent(fields.flag("atOnce", absent=False))
        case _:
            raise HostProtocolError(f"a control message of the unknown type {kind[:80]!r}")


def encode_host_control(control: HostControl) -> bytes:
    """Return the frame of what a host sends beside data."""
    match control:
        case Accepted():
            record: Mapping[str, object] = {
                "type": "accepted",
                "version": control.version,
                "release": control.release,
                "agent": control.agent,
                "process": "running",
            }
            if control.other_options:
                record = {**record, "otherOptions": list(control.other_options)}
        case Refused():
            record = {"type": "refused", "exitCode": control.exit_code, "error": control.error}
            if control.subagent is not None:
                record = {**record, "subagent": control.subagent}
        case Ended():
            record = {"type": "ended", "exitCode": control.exit_code, "error": control.error}
        case Answer():
            record = control.record
    return _encode(record)


def parse_host_control(payload: bytes) -> HostControl:
    """Read a control message of a host; one of a type that is not its own is the answer to a request.

    Raises:
        HostProtocolError: It is none.
    """
    fields = _Fields(payload)
    match fields.text("type"):
        case "accepted":
            other = () if fields.is_absent("otherOptions") else fields.words("otherOptions")
            return Accepted(fields.number("version"), fields.text("release"), fields.name("agent"), other)
        case "refused":
            subagent = None if fields.is_absent("subagent") else fields.mapping("subagent")
            return Refused(fields.number("exitCode", most=255), fields.text("error"), subagent)
        case "ended":
            return Ended(fields.number("exitCode", most=255), fields.optional_text("error"))
        case _:
            return Answer(fields.record)


def common_version(versions: Sequence[int]) -> int | None:
    """Return the version to speak with a peer that speaks these, if there is one."""
    return next((version for version in PROTOCOL_VERSIONS if version in versions), None)


def _parse_attach(fields: "_Fields") -> Attach:
    agent = None if fields.is_absent("agent") else fields.name("agent")
    session = fields.optional_path("session")
    if agent is not None and session is not None:
        raise HostProtocolError("agent and session exclude each other")
    client = fields.optional_text("client")
    if client is not None and not (0 < len(client) <= _MAX_CLIENT_CHARACTERS and client.isprintable()):
        raise HostProtocolError(f"client must have 1 to {_MAX_CLIENT_CHARACTERS} printable characters")
    since = fields.optional_text("since")
    on_eof = fields.text("onEof")
    if on_eof not in ("detach", "end"):
        raise HostProtocolError("onEof must be detach or end")
    cwd = fields.path("cwd")
    if not cwd.startswith("/"):
        raise HostProtocolError("cwd must be an absolute path")
    return Attach(
        fields.versions("versions"),
        fields.text("release"),
        fields.flag("new"),
        agent,
        session,
        None if since is None else parse_cursor(since),
        fields.flag("cursors") or since is not None,
        client,
        "end" if on_eof == "end" else "detach",
        fields.words("start"),
        cwd,
        fields.environment("environment"),
        fields.number("umask", most=_MAX_UMASK),
        fields.optional_text("profile"),
        fields.flag("takesOptions", absent=False),
    )


def _encode(record: Mapping[str, object]) -> bytes:
    # Escapes keep bytes that are no UTF-8, which Python has as lone surrogates in paths and environments.
    return encode_frame("j", json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii"))


class _Fields:
    """The fields of one control message; each method checks one and raises HostProtocolError."""

    def __init__(self, payload: bytes) -> None:
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
            raise HostProtocolError("a control message that is no JSON") from None
        if not isinstance(value, dict):
            raise HostProtocolError("a control message that is no object")
        self.record = cast("dict[str, object]", value)  # cast: JSON has no other keys

    def is_absent(self, name: str) -> bool:
        return self.record.get(name) is None

    def text(self, name: str) -> str:
        value = self.record.get(name)
        if not isinstance(value, str):
            raise HostProtocolError(f"{name} must be a string")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.is_absent(name) else self.text(name)

    def path(self, name: str) -> str:
        value = self.text(name)
        if not value or "\0" in value:
            raise HostProtocolError(f"{name} must not be empty or have a NUL")
        return value

    def optional_path(self, name: str) -> str | None:
        return None if self.is_absent(name) else self.path(name)

    def name(self, name: str) -> str:
        value = self.text(name)
        if not is_agent_name(value):
            raise HostProtocolError(
                f"{name} must have 1 to {MAX_NAME_CHARACTERS} letters, digits, '.', '_' or '-', and begin with a "
                "letter or a digit"
            )
        return value

    def flag(self, name: str, *, absent: bool | None = None) -> bool:
        value = self.record.get(name, absent)
        if not isinstance(value, bool):
            raise HostProtocolError(f"{name} must be true or false")
        return value

    def number(self, name: str, most: int = 2**31 - 1) -> int:
        value = self.record.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise HostProtocolError(f"{name} must be a whole number from 0 to {most}")
        return value

    def versions(self, name: str) -> tuple[int, ...]:
        values = self._list(name)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise HostProtocolError(f"{name} must be a list of whole numbers")
        return tuple(cast("list[int]", values))  # cast: checked one by one

    def words(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        if not all(isinstance(value, str) and "\0" not in value for value in values):
            raise HostProtocolError(f"{name} must be a list of strings without NUL")
        return tuple(cast("list[str]", values))  # cast: checked one by one

    def environment(self, name: str) -> dict[str, str]:
        members = self.mapping(name)
        for key, each in members.items():
            if not key or "=" in key or "\0" in key or not isinstance(each, str) or "\0" in each:
                raise HostProtocolError(f"{name} must hold names without '=' and NUL, and strings without NUL")
        return cast("dict[str, str]", members)  # cast: checked one by one

    def mapping(self, name: str) -> Mapping[str, object]:
        value = self.record.get(name)
        if not isinstance(value, dict):
            raise HostProtocolError(f"{name} must be an object")
        return cast("dict[str, object]", value)  # cast: JSON has no other keys

    def _list(self, name: str) -> list[object]:
        value = self.record.get(name)
        if not isinstance(value, list):
            raise HostProtocolError(f"{name} must be a list")
        members = cast("list[object]", value)  # cast: its members are checked by the caller
        if len(members) > _MAX_WORDS:
            raise HostProtocolError(f"{name} must have at most {_MAX_WORDS} members")
        return members
