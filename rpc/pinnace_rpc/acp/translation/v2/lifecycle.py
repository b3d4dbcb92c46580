"""The lifecycle of version 2: a prompt is answered when its message is in the conversation, and work is a state.

`running` begins with a prompt that goes to the agent, or with work of its own; `idle` ends all work, with the reason.
A prompt whose message did not come into the conversation is refused. Each state is sent once.
"""

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pinnace_rpc.acp.translation.jsonrpc import CANCELLED, RequestError
from pinnace_rpc.acp.translation.parts import spent
from pinnace_rpc.acp.translation.shown import Spent, Update
from pinnace_rpc.acp.translation.version import Emit, Outcome, Replies

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.acp.turns import PromptTurn

State: TypeAlias = Literal["idle", "running", "requires_action"]
_NO_MESSAGE: Final = "the prompt has ended without a message"


class States:
    """The lifecycle of one session."""

    def __init__(self, replies: Replies, emit: Emit) -> None:
        """Begin idle."""
        self._replies = replies
        self._emit = emit
        self._state: State = "idle"

    def begin(self, turn: "PromptTurn") -> None:
        """Report that work has begun."""
        self._go("running")

    def accept(self, turn: "PromptTurn") -> None:
        """Respond to the prompt."""
        if not turn.is_answered:
            turn.is_answered = True
            self._replies.respond(turn.request, {"messageId": turn.accepted_as})

    def end(self, turn: "PromptTurn", outcome: Outcome, *, continues: bool, lost: RequestError | None = None) -> None:
        """Report that work has ended, and refuse the prompt if its message is not known to be in the conversation."""
        if not turn.is_answered:
            if lost is not None:  # also of one that was cancelled
                self._refuse(turn, lost)
            elif isinstance(outcome, RequestError):
                self._refuse(turn, outcome)
            elif outcome.reason == "cancelled":
                self._refuse(turn, _cancelled())
            else:  # there is no message, and nothing has failed
                self._refuse(turn, RequestError(CANCELLED, _NO_MESSAGE))
        details: dict[str, object] = {}
        if turn.returned:
            details["returned"] = turn.returned
        if not continues:
            self._rest(outcome, details, turn.spent)

    def withdraw(self, turn: "PromptTurn") -> None:
        """Refuse the prompt."""
        self._refuse(turn, _cancelled())

    def work(self, *, is_at_work: bool, outcome: Outcome | None) -> None:
        """Report where work without a prompt begins and ends."""
        if is_at_work:
            if self._state == "idle":
                self._go("running")
        elif self._state != "idle":
            self._rest(outcome, {})

    def wait_for_user(self, *, is_waiting: bool) -> None:
        """Report that the work waits for the user, or goes on."""
        if self._state != "idle":
            self._go("requires_action" if is_waiting else "running")

    def stop(self, outcome: Outcome) -> None:
        """Report the end of all work."""
        if self._state != "idle":
            self._rest(outcome, {})

    def report(self) -> None:
        """Report the state, whether it has changed or not."""
        self._emit({"sessionUpdate": "state_update", "state": self._state})

    def _refuse(self, turn: "PromptTurn", error: RequestError) -> None:
        turn.is_answered = True
        self._replies.refuse(turn.request, error)

    def _go(self, state: State) -> None:
        if self._state != state:
            self._state = state
            self._emit({"sessionUpdate": "state_update", "state": state})

    def _rest(self, outcome: Outcome | None, details: dict[str, object], used: Spent | None = None) -> None:
        self._state = "idle"
        update: Update = {"sessionUpdate": "state_update", "state": "idle"}
        if isinstance(outcome, RequestError):
            update |= {"stopReason": "error", "error": outcome.record()}
        elif outcome is not None:
            update["stopReason"] = outcome.reason
            details = {**outcome.details, **details}
        if used is not None:
            update["usage"] = spent(used)
        if details:
            update["_meta"] = {"pinnace": details}
        self._emit(update)


def _cancelled() -> RequestError:
    return RequestError(CANCELLED, "the prompt was cancelled before its message was in the conversation")
