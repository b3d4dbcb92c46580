"""Files that the client serves to one agent: its requests passed on, and each answered at most once.

A read that the agent needs no more is withdrawn; a write is not, since the client may have begun it. Agents of several
sessions know nothing of each other: a call that writes what it has made of a text that another session has changed
since is refused here, or that change would be lost. Must not know which files are the client's: the agent decides that.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pinnace_agent.core.json_access import as_object
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation.jsonrpc import METHOD_NOT_FOUND, Reply
from pinnace_rpc.acp.translation.shown import Json

_READ: Final = "read_text_file"
_OUTDATED: Final = "Another session has changed the file meanwhile, so nothing was written; try again"


@dataclass(slots=True)
class _Call:
    """A call that has read files of the client."""

    requests: set[int] = field(default_factory=set[int])
    """Its open reads."""
    read: set[str] = field(default_factory=set[str])
    """The paths of all of them."""
    outdated: set[str] = field(default_factory=set[str])
    """Those that another session has changed since."""


class ClientFiles:
    """The open requests for files of one session."""

    def __init__(
        self, session_id: str, outbox: Outbox, answer: Callable[[Json], None], siblings: "set[ClientFiles]"
    ) -> None:
        """Begin without any.

        Args:
            session_id: Of the session.
            outbox: Takes requests to the client.
            answer: Takes answers for the agent.
            siblings: Those of all sessions of the client; this one is added, and removed by `close`.
        """
        self._session_id = session_id
        self._outbox = outbox
        self._answer = answer
        self._siblings = siblings
        siblings.add(self)
        self._calls: dict[str, _Call] = {}
        """By the agent's id of the call."""

    def ask(self, record: Json) -> None:
        """Pass a request of the agent on to the client."""
        method, call_id, path = str(record["method"]), str(record["toolCallId"]), str(record["path"])
        params: dict[str, object] = {"sessionId": self._session_id, "path": path}
        if method == _READ:
            call = self._calls.setdefault(call_id, _Call())
            call.read.add(path)
            call.outdated.discard(path)
            requests = call.requests
        else:
            if (known := self._calls.get(call_id)) is not None and path in known.outdated:
                self._respond(record, {"success": False, "error": _OUTDATED})
                return
            params["content"] = record["content"]
            requests = set[int]()
            self._outdate(path)

        def take(reply: Reply) -> None:
            requests.discard(request)
            if method != _READ:
                # A read between the request and this may have returned the text before or after it.
                self._outdate(path)
            self._respond(record, _outcome(reply))

        request = self._outbox.ask(f"fs/{method}", params, take)
        requests.add(request)

    def end_call(self, call_id: str) -> None:
        """Withdraw the reads of a call that has ended.

        Args:
            call_id: The agent's id of the call.
        """
        call = self._calls.pop(call_id, None)
        for request in () if call is None else call.requests:
            self._outbox.withdraw(request)

    def withdraw_all(self) -> None:
        """Withdraw every read: the agent does not wait for them any more."""
        for call_id in list(self._calls):
            self.end_call(call_id)

    def close(self) -> None:
        """Take the end of the session. Idempotent."""
        self.withdraw_all()
        self._siblings.discard(self)

    def _outdate(self, path: str) -> None:
        for other in self._siblings - {self}:
            for call in other._calls.values():
                if path in call.read:
                    call.outdated.add(path)

    def _respond(self, record: Json, outcome: Json) -> None:
        self._answer({"type": "client_response", "id": record["id"], **outcome})


def _outcome(reply: Reply) -> Json:
    """Return the fields of the answer for the agent, which judges what was read."""
    if reply.error is None:
        return {"success": True, "content": (as_object(reply.result) or {}).get("content")}
    error = as_object(reply.error) or {}
    refusal: dict[str, object] = {"success": False, "error": error.get("message")}
    return refusal | ({"errorCode": "unsupported"} if error.get("code") == METHOD_NOT_FOUND else {})
