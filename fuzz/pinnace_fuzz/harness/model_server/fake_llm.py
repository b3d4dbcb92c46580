"""A language model made of a script: a loopback server that tests put an agent in front of.

Real HTTP and real server-sent events, so that the agent's own client is under test. Gates, not sleeps, decide
what happens before what. See `short_form` for how responses are written.
"""

import socket
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from pinnace_fuzz.harness.model_server.ledger import HARNESS_NAME, Departure, Ledger, ReceivedRequest
from pinnace_fuzz.harness.model_server.server import LOOPBACK, LlmServer
from pinnace_fuzz.harness.model_server.short_form import read_response
from pinnace_fuzz.script import Scripted

# As of the driver: only a hang waits so long.
DEFAULT_TIMEOUT_S = 60.0


class FakeLlm:
    """A scripted LLM; listens between `__enter__` and `__exit__`.

    Leaving ends every answer, also one that hangs, and raises HarnessFault if the harness itself failed.
    Methods may be called from any thread. Those that wait raise LlmTimeout, which shows what did happen.
    """

    def __init__(self, script: Iterable[Scripted] = (), *, asides: Mapping[str, str] | None = None) -> None:
        """Make it.

        Args:
            script: The answers.
            asides: Regular expressions over the text of requests that are none of the script's -> their answers.
        """
        answers = (asides or {}).items()
        self._ledger = Ledger(
            [read_response({"text": text, "match": match, "repeat": -1}, 0) for match, text in answers]
        )
        self._server: LlmServer | None = None
        self._added = 0
        self._placeholder: socket.socket | None = None
        self._away_from: int | None = None
        for response in script:
            self.add(response)

    def __enter__(self) -> Self:
        self._server = LlmServer(self._ledger)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        if self._placeholder is not None:
            self._placeholder.close()
        else:
            self._server.close()
        if self._ledger.faults and error is None:
            raise HarnessFault("\n".join(self._ledger.faults))

    def go_away(self) -> None:
        """End the server like a crash: connections break, new ones are refused, the port stays its own."""
        assert self._server is not None, "not entered"
        port = self._server.port
        if self._placeholder is None:
            # Bound and not listening: no other process gets the port, and connections are refused.
            self._placeholder = socket.socket()
            self._placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.close()
        self._placeholder.bind((LOOPBACK, port))
        self._away_from = port

    def come_back(self) -> None:
        """Listen again, at the same port, with what is left of the script."""
        assert self._away_from is not None, "not away"
        self._ledger.resume()
        self._server = LlmServer(self._ledger, self._away_from)
        self._away_from = None
        assert self._placeholder is not None
        self._placeholder.close()
        self._placeholder = None

    @property
    def is_away(self) -> bool:
        """Whether the server is stopped."""
        return self._away_from is not None

    @property
    def waiting(self) -> set[str]:
        """The gates at which an answer waits now."""
        return self._ledger.waiting()

    def clear(self) -> None:
        """Forget requests, departures and reached gates."""
        self._ledger.clear()

    @property
    def base_url(self) -> str:
        """The server's address without a path."""
        assert self._server is not None, "not entered"
        return f"http://{LOOPBACK}:{self._server.port}"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests so far, in order of arrival."""
        return list(self._ledger.requests)

    @property
    def disconnects(self) -> list[Departure]:
        """The clients that went away before their answer was complete."""
        return list(self._ledger.departures)

    @property
    def unscripted(self) -> list[int]:
        """The numbers of the requests for which the script had nothing left."""
        return list(self._ledger.unscripted)

    @property
    def strays(self) -> list[str]:
        """Requests for anything that is not an answer, as `METHOD path`."""
        return list(self._ledger.strays)

    def add(self, response: Scripted) -> None:
        """Put a response at the end of the script.

        Raises:
            ScriptError: It is not written as `short_form` says.
        """
        self._ledger.add(read_response(response, self._added))
        self._added += 1

    def forget(self) -> None:
        """Drop the responses that no request has taken."""
        self._ledger.forget()

    def release(self, *gates: str) -> None:
        """Open gates for good, reached or not."""
        self._ledger.release(*gates)

    def wait_reached(self, gate: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until an answer has come to a gate."""
        self._ledger.wait_until(f"answer at gate {gate}", lambda: gate in self._ledger.reached, timeout_s)

    def wait_requests(self, count: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[ReceivedRequest]:
        """Wait until so many requests have arrived in all; return them all."""
        ledger = self._ledger
        ledger.wait_until(f"request number {count}", lambda: len(ledger.requests) >= count, timeout_s)
        return self.requests

    def wait_disconnects(self, count: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[Departure]:
        """Wait until so many clients in all have disconnected; return them all."""
        ledger = self._ledger
        ledger.wait_until(f"departure number {count}", lambda: len(ledger.departures) >= count, timeout_s)
        return self.disconnects


class HarnessFault(RuntimeError):
    """The harness failed, not what it tests."""

    def __str__(self) -> str:
        return f"{HARNESS_NAME}: {super().__str__()}"
