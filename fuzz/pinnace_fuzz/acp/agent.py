"""An agent of the Agent Client Protocol under test: its process, requests, and everything that it has written.

Each message, in both directions, is held to the schema and to the observer. A rule that is broken fails whatever waits,
or is kept for the judge.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias, cast

from pinnace_fuzz.acp.connection_observer import Fault
from pinnace_fuzz.acp.observer import Observer
from pinnace_fuzz.acp.observer_v2 import ObserverV2
from pinnace_fuzz.acp.schema import NotOfTheSchema, check_call, check_result
from pinnace_fuzz.harness.agent_process import AgentGone, AgentProcess, DriverTimeout
from pinnace_spec.observers.verdicts import Direction

TIMEOUT_S = 60.0
LINE_RULE: Final = "R-ACP-01"
SCHEMA_RULE: Final = "R-ACP-02"
Message: TypeAlias = dict[str, Any]  # Any: JSON


class BrokenRule(AssertionError):
    """The agent has broken a rule. The text begins with its id."""


class AgentEnded(AssertionError):
    """The agent has ended before what was waited for."""


class NothingCame(AssertionError):
    """What was waited for did not come in time."""


class AcpLine(NamedTuple):
    """A line, in one direction."""

    direction: Direction
    text: str
    """Without its LF. Bytes that are no UTF-8 are surrogate escapes."""
    at_s: float
    """By the monotonic clock."""
    group: int
    """Lines of one write share it."""


class Breach(NamedTuple):
    """A rule that was broken, and the number of the line that proves it, from 1."""

    fault: Fault
    line: int


class Observing(Protocol):
    """What must hold for the messages of one connection, in their order. Gets those that the schema allows."""

    def sent(self, message: Mapping[str, Any]) -> None:
        """Take a message that was written to the agent."""
        ...

    def received(self, message: Mapping[str, Any]) -> Sequence[Fault]:
        """Take a message of the agent, and return the rules that it breaks."""
        ...

    def forget(self, identity: object) -> None:
        """Take a response that the schema does not allow."""
        ...

    def closed(self) -> Sequence[Fault]:
        """Take the end of the connection, and return the rules that are broken."""
        ...


OBSERVERS: Final[Mapping[int, Callable[[], Observing]]] = {1: Observer, 2: ObserverV2}
"""What observes a connection of each version."""


class AcpAgent:
    """One agent and its client."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        answer: Callable[[Message], Mapping[str, object] | None] | None = None,
        is_strict: bool = True,
        timeout_s: float = TIMEOUT_S,
        version: int = 1,
    ) -> None:
        """Start the agent.

        Args:
            command: The agent with its arguments.
            cwd: Its folder.
            env: Its whole environment; None: ours.
            answer: Returns the result for a request of the agent, or None to leave it open.
            is_strict: A broken rule fails whatever waits; otherwise it is only in `breaches`.
            timeout_s: The longest wait for anything.
            version: Of the protocol that is spoken.
        """
        self.lines: list[AcpLine] = []
        """What was written, in both directions."""
        self.breaches: list[Breach] = []
        """The rules that were broken."""
        self.messages: list[Message] = []
        """What the agent has written, in its order."""
        self._stderr = b""
        self._answer: Callable[[Message], Mapping[str, object] | None] = answer or _leave_open
        self._is_strict = is_strict
        self._timeout_s = timeout_s
        self._version = version
        self._observer = OBSERVERS[version]()
        self._arrived_s: dict[object, float] = {}
        self._times_s: list[float] = []
        """When each of `messages` came."""
        self._groups = 0
        self._methods: dict[object, str] = {}
        self._count = 0
        self._rest = b""
        self._failure: BaseException | None = None
        self._is_over = False
        self._more = threading.Condition()
        self.process = AgentProcess(command, self._take, self._take_stderr, cwd=cwd, env=env)

    def __enter__(self) -> Self:
        """Do nothing more: the agent runs."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.close()
        if error is None and self._failure is not None:
            raise self._failure

    # Writing.

    def request(self, method: str, params: Mapping[str, object] | None = None, **more: object) -> int:
        """Send a request and return its id."""
        self._count += 1
        self.send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": {**(params or {}), **more}})
        return self._count

    def notify(self, method: str, **params: object) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, *messages: Message) -> None:
        """Send requests and notifications in one write."""
        for message in messages:
            check_call(message, "agent", self._version)
            if "id" in message:
                self._methods[message["id"]] = message["method"]
            with self._more:
                self._observer.sent(message)
        self._write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def respond(self, request: Message, result: Mapping[str, object]) -> None:
        """Answer a request of the agent."""
        message = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        check_result(message, request["method"], "client", self._version)
        self._write(json.dumps(message).encode() + b"\n")

    def decline(self, request: Message) -> None:
        """Answer a request of the agent that the client does not know."""
        self.refuse(request, -32601, f"{request['method']} is not offered")

    def refuse(self, request: Message, code: int, text: str) -> None:
        """Answer a request of the agent with an error."""
        error = {"code": code, "message": text}
        self._write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n")

    def write(self, data: bytes, *, piece_bytes: int | None = None) -> None:
        """Write bytes as they are, at once or in pieces. What looks like a request may be answered."""
        for line in data.split(b"\n"):
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict):
                self._may_be_answered(cast("Message", message))
        self._write(data, piece_bytes)

    def _may_be_answered(self, message: Message) -> None:
        if isinstance(message.get("id"), str | int) and "result" not in message:
            params: Any = message.get("params")
            method = str(message.get("method", "_"))
            self._methods[message["id"]] = method
            sent: Message = {"id": message["id"], "method": method}
            if isinstance(params, dict):
                sent["params"] = params
            with self._more:
                self._observer.sent(sent)

    def _write(self, data: bytes, piece_bytes: int | None = None) -> None:
        with self._more:
            self._groups += 1
            self.lines += [
                AcpLine("in", line.decode("utf-8", "surrogateescape"), time.monotonic(), self._groups)
                for line in data.removesuffix(b"\n").split(b"\n")
            ]
        step = piece_bytes or len(data)
        for start in range(0, len(data), step):
            self.process.write(data[start : start + step], self._timeout_s)

    # Reading.

    def call(self, method: str, params: Mapping[str, object] | None = None, **more: object) -> Message:
        """Send a request and return its result.

        Raises:
            AssertionError: It was refused.
        """
        response = self.response(self.request(method, params, **more))
        assert "error" not in response, response
        result: Message = response["result"]
        return result

    def error(self, method: str, params: Mapping[str, object] | None = None, **more: object) -> Message:
        """Send a request that is refused, and return the error."""
        response = self.response(self.request(method, params, **more))
        assert "error" in response, response
        error: Message = response["error"]
        return error

    def response(self, identity: object) -> Message:
        """Wait for a response."""
        return self.until(lambda message: "method" not in message and message.get("id") == identity)

    def until(self, is_it: Callable[[Message], bool], after: int = 0) -> Message:
        """Wait for a message and return it.

        Args:
            is_it: Says whether it is the one.
            after: Only messages from this place on.

        Raises:
            AgentEnded: The agent has ended.
            NothingCame: It has not come in time.
            BrokenRule: The agent has broken a rule, and is held to all.
        """
        end_s = time.monotonic() + self._timeout_s
        with self._more:
            seen = after
            while True:
                for message in self.messages[seen:]:
                    if is_it(message):
                        return message
                seen = len(self.messages)
                if self._failure is not None:
                    raise self._failure
                if self._is_over:
                    raise AgentEnded(f"the agent has ended: {self.stderr.decode(errors='replace')[-2000:]}")
                if not self._more.wait(max(0.0, end_s - time.monotonic())):
                    raise NothingCame(f"nothing came: {self.messages[-5:]}")

    @property
    def stderr(self) -> bytes:
        """What it wrote to stderr: all that it wrote before the last message that was waited for."""
        # Each pipe is read in a thread of its own, so a message may be known before the complaint that came before it.
        self.process.take_stderr()
        return self._stderr

    def update(self, kind: str, after: int = 0, **fields: object) -> Message:
        """Wait for an update of a kind with some fields, and return it."""

        def is_it(message: Message) -> bool:
            update: Message = message["params"]["update"] if message.get("method") == "session/update" else {}
            return update.get("sessionUpdate") == kind and fields.items() <= update.items()

        found: Message = self.until(is_it, after)["params"]["update"]
        return found

    def updates(self, session_id: str | None = None, after: int = 0) -> list[Message]:
        """Return the updates that have come."""
        return [
            message["params"]["update"]
            for message in self.messages[after:]
            if message.get("method") == "session/update" and session_id in (None, message["params"]["sessionId"])
        ]

    def text(self, after: int = 0) -> str:
        """Return the text of the answers that have come."""
        chunks = [each for each in self.updates(after=after) if each["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    def end(self, *, is_whole: bool = True) -> int | None:
        """End the agent's stdin, and return its exit code.

        Args:
            is_whole: Every request must have its response then.

        Raises:
            NothingCame: The agent does not exit.
            BrokenRule: It has broken a rule, and is held to all.
        """
        self.process.close_stdin()
        if not self.process.await_exit(self._timeout_s):
            raise NothingCame("the agent does not exit")
        with self._more:
            while not self._is_over and self._failure is None:
                if not self._more.wait(self._timeout_s):
                    raise NothingCame("stdout is still open")
            if is_whole:
                self._report(self._observer.closed())
            if self._failure is not None:
                raise self._failure
        return self.process.exit_code

    def arrived_s(self, identity: object) -> float:
        """Return when the response with an id came, by the monotonic clock."""
        return self._arrived_s[identity]

    def came_s(self, place: int) -> float:
        """Return when the message at a place of `messages` came, by the monotonic clock."""
        return self._times_s[place]

    # The agent's pipes, in threads.

    def _take(self, data: bytes, at_s: float) -> None:
        with self._more:
            if not data:
                self._is_over = True
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._groups += 1
            for line in lines:
                self.lines.append(AcpLine("out", line.decode("utf-8", "surrogateescape"), at_s, self._groups))
                if self._failure is None:
                    self._take_line(line, at_s)
            self._more.notify_all()

    def _take_line(self, line: bytes, at_s: float) -> None:
        try:
            message = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            self._report([Fault(LINE_RULE, f"no JSON: {error}: {line[:200]!r}")])
            return
        if not isinstance(message, dict):
            self._report([Fault(LINE_RULE, f"no message: {line[:200]!r}")])
            return
        message = cast("Message", message)
        is_call = isinstance(message.get("method"), str)
        try:
            if is_call:
                check_call(message, "client", self._version)
            else:
                method = self._methods.get(_hashable(message.get("id")), "_")
                check_result(message, method, "agent", self._version)
        except NotOfTheSchema as error:
            self._report([Fault(SCHEMA_RULE, str(error))])
            if is_call and not self._is_strict:
                return  # nothing may be assumed of it
            self._observer.forget(_hashable(message.get("id")))
        else:
            self._report(self._observer.received(message))
        self.messages.append(message)
        self._times_s.append(at_s)
        if not is_call:
            self._arrived_s[_hashable(message.get("id"))] = at_s
        elif "id" in message:
            threading.Thread(target=self._answer_request, args=(message,), daemon=True).start()

    def _answer_request(self, message: Message) -> None:
        # One that has ended meanwhile, or reads nothing, is found by what it does.
        with suppress(AgentGone, DriverTimeout):
            if (result := self._answer(message)) is not None:
                self.respond(message, result)

    def _report(self, faults: Sequence[Fault]) -> None:
        self.breaches += [Breach(fault, len(self.lines)) for fault in faults]
        if faults and self._is_strict and self._failure is None:
            self._failure = BrokenRule(str(faults[0]))

    def _take_stderr(self, data: bytes, _at_s: float) -> None:
        self._stderr += data


def _leave_open(_message: Message) -> None:
    """Answer no request."""


def _hashable(identity: object) -> object:
    """Return an id, or of one that can't be an id its text."""
    return identity if isinstance(identity, str | int | float | None) else str(identity)
