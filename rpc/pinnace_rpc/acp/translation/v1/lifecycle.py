"""The lifecycle of version 1: the response to a prompt is the end of its turn.

Work that no prompt has begun has no response; a detail of the session says that it runs.
"""

from typing import TYPE_CHECKING

from pinnace_rpc.acp.translation.jsonrpc import RequestError
from pinnace_rpc.acp.translation.parts import details, spent
from pinnace_rpc.acp.translation.stop_reasons import TurnResult
from pinnace_rpc.acp.translation.version import Emit, Outcome, Replies

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.acp.turns import PromptTurn


class Turns:
    """The lifecycle of one session."""

    def __init__(self, replies: Replies, emit: Emit, *, shows_usage: bool) -> None:
        """Begin idle.

        Args:
            replies: Takes responses.
            emit: Takes updates.
            shows_usage: Whether the client knows what a turn has used, which is a field of the unstable schema.
        """
        self._shows_usage = shows_usage
        self._replies = replies
        self._emit = emit
        self._is_at_work = False

    def begin(self, turn: "PromptTurn") -> None:
        """Do nothing: the client shows the prompt itself."""

    def accept(self, turn: "PromptTurn") -> None:
        """Do nothing: likewise."""

    def end(self, turn: "PromptTurn", outcome: Outcome, *, continues: bool, lost: RequestError | None = None) -> None:
        """Respond to the prompt: how its turn has ended, which says nothing of its message."""
        self.work(is_at_work=continues, outcome=None)  # behind its run, or in the place of it
        self._respond(turn, outcome)

    def _respond(self, turn: "PromptTurn", outcome: Outcome) -> None:
        turn.is_answered = True
        if isinstance(outcome, RequestError):
            self._replies.refuse(turn.request, outcome)
            return
        result: dict[str, object] = {"stopReason": outcome.reason}
        if self._shows_usage and turn.spent is not None:
            result["usage"] = spent(turn.spent)
        found = dict(outcome.details)
        if turn.entry is not None:
            found["entryId"] = turn.entry
        if turn.returned:
            found["returned"] = turn.returned
        if found:
            result["_meta"] = {"pinnace": found}
        self._replies.respond(turn.request, result)

    def withdraw(self, turn: "PromptTurn") -> None:
        """Respond to the prompt: it was cancelled."""
        self._respond(turn, TurnResult("cancelled", {"started": False}))

    def work(self, *, is_at_work: bool, outcome: Outcome | None) -> None:
        """Show where work without a prompt begins and ends."""
        if self._is_at_work != is_at_work:
            self._is_at_work = is_at_work
            self._emit(details({"running": is_at_work}))

    def wait_for_user(self, *, is_waiting: bool) -> None:
        """Do nothing: the question itself shows it."""

    def stop(self, outcome: Outcome) -> None:
        """Show the end of work that no prompt has begun; the others have their responses."""
        self.work(is_at_work=False, outcome=None)

    def report(self) -> None:
        """Do nothing: no state of this version is one."""
