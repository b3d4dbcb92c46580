"""What the fake LLM's threads and the test share: the rest of the script, requests, gates, disconnects.

One condition guards everything. Waiting for a change is by notification, never by polling. Independent of HTTP;
connections register a waker, so that one that waits on its socket notices a released gate at once.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from pinnace_fuzz.records import Record
from pinnace_fuzz.script import HttpError, Response

HARNESS_NAME = "pinnace_fuzz fake LLM"


class LlmTimeout(AssertionError):
    """Something that a test waited for did not happen in time. The text shows what did."""


ASIDE: Final = -1
"""The number of a request that is none of the script's."""


class ReceivedRequest(NamedTuple):
    """One request that the client made."""

    number: int
    """From 0, in order of arrival; `ASIDE`: it is not counted."""
    time_s: float
    """By the monotonic clock."""
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Record
    """The parsed JSON object; empty if it was not one."""
    text: str


class Departure(NamedTuple):
    """A client that went away before its answer was complete."""

    request_number: int
    time_s: float
    """By the monotonic clock."""
    during: str
    """What the answer was doing: `gate NAME`, `hang`, `delay` or `write`."""


class _Scripted:
    __slots__ = ("left", "response")

    def __init__(self, response: Response) -> None:
        self.response = response
        self.left = response.repeat


class Ledger:
    """Shared state of one fake LLM; every method may be called from any thread.

    Requests that an agent makes for itself, such as for the title of a session, would take the answers of the script.
    They are recognised by their text, answered aside, and recorded nowhere.
    """

    def __init__(self, asides: Sequence[Response] = ()) -> None:
        self._asides = asides
        self.requests: list[ReceivedRequest] = []
        self.departures: list[Departure] = []
        self.reached: list[str] = []
        self.unscripted: list[int] = []
        self.strays: list[str] = []
        self.faults: list[str] = []
        self.is_stopping = False
        self._released: set[str] = set()
        self._script: list[_Scripted] = []
        self._wakers: set[socket.socket] = set()
        self._condition = threading.Condition()

    def add(self, response: Response) -> None:
        """Put a response at the end of the script."""
        with self._condition:
            self._script.append(_Scripted(response))

    def forget(self) -> None:
        """Drop what is left of the script."""
        with self._condition:
            self._script.clear()

    def admit(self, path: str, headers: Mapping[str, str], data: bytes) -> tuple[ReceivedRequest, Response]:
        """Record a request and take the first response of the script that it matches."""
        text = data.decode("utf-8", "replace")
        body = _body(text)
        for aside in self._asides:
            if aside.match is not None and aside.match.search(text):
                return ReceivedRequest(ASIDE, time.monotonic(), path, headers, body, text), aside
        with self._condition:
            request = ReceivedRequest(len(self.requests), time.monotonic(), path, headers, body, text)
            self.requests.append(request)
            response = self._take(text)
            if response is None:
                self.unscripted.append(request.number)
            self._condition.notify_all()
        return request, response or _exhausted(request.number)

    def _take(self, text: str) -> Response | None:
        for index, scripted in enumerate(self._script):
            pattern = scripted.response.match
            if pattern is None or pattern.search(text):
                scripted.left -= 1
                if scripted.left == 0:  # a negative count never gets here
                    del self._script[index]
                return scripted.response
        return None

    def note_departure(self, request_number: int, during: str) -> None:
        """Record that the client of a request went away."""
        if request_number == ASIDE:
            return
        with self._condition:
            self.departures.append(Departure(request_number, time.monotonic(), during))
            self._condition.notify_all()

    def note_stray(self, what: str) -> None:
        """Record a request that asks for something else than an answer."""
        with self._condition:
            self.strays.append(what)

    def note_fault(self, what: str) -> None:
        """Record a fault of the harness itself."""
        with self._condition:
            self.faults.append(what)

    def reach(self, gate: str) -> None:
        """Record that an answer has come to a gate."""
        with self._condition:
            self.reached.append(gate)
            self._condition.notify_all()

    def is_released(self, gate: str) -> bool:
        """Say whether a gate is open."""
        with self._condition:
            return gate in self._released

    def release(self, *gates: str) -> None:
        """Open gates for good."""
        with self._condition:
            self._released.update(gates)
            self._wake()

    def stop(self) -> None:
        """Ask every waiting connection to end."""
        with self._condition:
            self.is_stopping = True
            self._wake()

    def resume(self) -> None:
        """Take back `stop`: a server has returned. What waited at a gate was cut off."""
        with self._condition:
            self.is_stopping = False
            self.reached.clear()

    def waiting(self) -> set[str]:
        """Name the gates at which an answer waits: reached, not open, its client still there."""
        with self._condition:
            if self.is_stopping:
                return set()
            gone = {each.during.removeprefix("gate ") for each in self.departures}
            return set(self.reached) - self._released - gone

    def clear(self) -> None:
        """Forget what has happened, so that a run of hours does not grow; the script and the gates stay."""
        with self._condition:
            self.requests.clear()
            self.departures.clear()
            self.reached.clear()

    def lend_waker(self, waker: socket.socket) -> None:
        """Take a non-blocking socket that gets a byte when a gate opens or everything ends."""
        with self._condition:
            self._wakers.add(waker)

    def return_waker(self, waker: socket.socket) -> None:
        """Stop using a waker."""
        with self._condition:
            self._wakers.discard(waker)

    def _wake(self) -> None:
        self._condition.notify_all()
        for waker in self._wakers:
            with contextlib.suppress(BlockingIOError):  # full of wake-ups already
                waker.send(b"!")

    def wait_until(self, what: str, is_true: Callable[[], bool], timeout_s: float) -> None:
        """Wait until a condition over this ledger holds.

        Raises:
            LlmTimeout: It does not hold after `timeout_s`.
        """
        with self._condition:
            if not self._condition.wait_for(is_true, timeout_s):
                raise LlmTimeout(f"{HARNESS_NAME}: no {what} within {timeout_s} s\n{self._summary()}")

    def _summary(self) -> str:
        lines = [f"  request {each.number}: {each.path} {each.text[-300:]}" for each in self.requests[-5:]]
        lines.append(f"  requests: {len(self.requests)}, without a script: {self.unscripted}")
        lines.append(f"  gates reached: {self.reached}, released: {sorted(self._released)}")
        lines.append(f"  went away: {self.departures}, strays: {self.strays}, faults: {self.faults}")
        return "\n".join(lines)


def _body(text: str) -> Record:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("Record", value) if isinstance(value, dict) else {}


def _exhausted(request_number: int) -> Response:
    message = f"{HARNESS_NAME}: the script has no response left for request {request_number}"
    return Response(error=HttpError(400, {}, {"error": {"message": message, "type": "script_exhausted"}}))
