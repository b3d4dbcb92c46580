"""Files that the client serves to one agent: its requests passed on, and each answered at most once.

A read that the agent needs no more is withdrawn; a write is not, since the client may have begun it. Must not know
which files are the client's: the agent decides that.
"""

from collections.abc import Callable
from typing import Final

from pinnace_agent.core.json_access import as_object
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation.jsonrpc import METHOD_NOT_FOUND, Reply
from pinnace_rpc.acp.translation.tool_calls import Json

_READ: Final = "read_text_file"


class ClientFiles:
    """The open requests for files of one session."""

    def __init__(self, session_id: str, outbox: Outbox, answer: Callable[[Json], None]) -> None:
        """Begin without any.

        Args:
            session_id: Of the session.
            outbox: Takes requests to the client.
            answer: Takes answers for the agent.
        """
        self._session_id = session_id
        self._outbox = outbox
        self._answer = answer
        self._reads: dict[str, set[int]] = {}
        """The open reads of each call, by the agent's id of the call."""

    def ask(self, record: Json) -> None:
        """Pass a request of the agent on to the client."""
        method, call_id = str(record["method"]), str(record["toolCallId"])
        params: dict[str, object] = {"sessionId": self._session_id, "path": record["path"]}
        if method != _READ:
            params["content"] = record["content"]
        reads: set[int] = self._reads.setdefault(call_id, set()) if method == _READ else set()

        def take(reply: Reply) -> None:
            reads.discard(request)
            self._answer({"type": "client_response", "id": record["id"], **_outcome(reply)})

        request = self._outbox.ask(f"fs/{method}", params, take)
        reads.add(request)

    def end_call(self, call_id: str) -> None:
        """Withdraw the reads of a call that has ended.

        Args:
            call_id: The agent's id of the call.
        """
        for request in self._reads.pop(call_id, ()):
            self._outbox.withdraw(request)

    def withdraw_all(self) -> None:
        """Withdraw every read: who has asked does not wait any more."""
        for call_id in list(self._reads):
            self.end_call(call_id)


def _outcome(reply: Reply) -> Json:
    """Return the fields of the answer for the agent, which judges what was read."""
    if reply.error is None:
        return {"success": True, "content": (as_object(reply.result) or {}).get("content")}
    error = as_object(reply.error) or {}
    refusal: dict[str, object] = {"success": False, "error": error.get("message")}
    return refusal | ({"errorCode": "unsupported"} if error.get("code") == METHOD_NOT_FOUND else {})
