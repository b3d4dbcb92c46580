"""What an editor learns of the answers to its requests: about its sessions, and about its messages."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pinnace_fuzz.simulation.editors.prompts import EditorMessage, Messages
from pinnace_fuzz.simulation.editors.views import Message, SessionView, inner

_LOST_CODES: Final = frozenset(
    {"agent_ended", "agent_restarted", "detached", "shutting_down", "outcome_unknown", "session_unavailable"}
)
"""Of errors that do not say what has become of a message."""
_NOT_FOUND: Final = -32002


class Sent(NamedTuple):
    """A request of the editor."""

    method: str
    params: Mapping[str, Any]
    answers: list[dict[str, Any]]
    message: EditorMessage | None


class Answers:
    """Takes the answers on one connection."""

    def __init__(
        self, version: int, views: dict[str, SessionView], messages: Messages, report: Callable[[str, str], None]
    ) -> None:
        """Know none.

        Args:
            version: Of the protocol.
            views: The sessions of the editor, by their ids; new ones are added.
            messages: All messages.
            report: Takes the source and the text of a finding.
        """
        self.cancelled: list[Sent] = []
        """Prompts that were open when a cancellation was carried out."""
        self._version = version
        self._views = views
        self._messages = messages
        self._report = report

    def settle(self, sent: Sent, answer: dict[str, Any]) -> None:
        """Take the answer to a request."""
        sent.answers.append(answer)
        session: str = sent.params.get("sessionId", "")
        view = self._views.get(session)
        result, error = answer.get("result"), inner(answer, "error")
        code = inner(error, "data").get("errorCode")
        if view is not None and (error.get("code") == _NOT_FOUND or code == "agent_ended"):
            view.end()
        for text in inner(answer, "result", "_meta", "pinnace").get("returned", ()):
            self._messages.see_returned(text)
        match sent.method:
            case "session/new" if result is not None:
                identity = result["sessionId"]
                if identity in self._views:
                    self._report("sessions", f"the new session {identity} has the id of an earlier one")
                self._views[identity] = SessionView(identity, self._version, is_open=True, is_whole=True)
            case "session/load" | "session/resume" if view is not None:
                view.is_open = view.is_open or result is not None
                view.is_whole = view.is_whole and result is not None
            case "session/close" if view is not None and result is not None:
                view.end()
            case "session/prompt" | "_session/steering" if view is not None:
                if sent.message is not None:
                    self._settle_message(sent, sent.message, answer, code)
                    view.has_messages = view.has_messages or sent.message.is_accepted
                if sent in self.cancelled and self._version == 1:
                    self._check_cancelled(inner(answer, "result"))
            case _:
                pass

    def _check_cancelled(self, result: Message) -> None:
        if result.get("stopReason", "cancelled") != "cancelled":
            self._report("cancellation", f"a prompt that was cancelled has ended with {result['stopReason']}")

    def _settle_message(self, sent: Sent, message: EditorMessage, answer: Message, code: object) -> None:
        if "result" not in answer:
            # In version 1 the answer is the end of the turn, of which the message may be a part.
            is_end = sent.method == "session/prompt" and self._version == 1
            message.is_rejected = answer["error"]["code"] == _NOT_FOUND if is_end else code not in _LOST_CODES
            return
        result, details = answer["result"], inner(answer, "result", "_meta", "pinnace")
        if sent.method == "_session/steering":
            message.is_accepted = result["outcome"] in ("injected", "startedNewTurn")
        elif self._version == 2:
            message.is_accepted, message.entry = True, result["messageId"]
        elif "entryId" in details:
            message.is_accepted, message.entry = True, details["entryId"]
        elif details.get("started") is False:
            message.is_rejected = True


def is_of(sent: Sent, view: SessionView) -> bool:
    """Return whether a request concerns a session."""
    return sent.params.get("sessionId") == view.identity
