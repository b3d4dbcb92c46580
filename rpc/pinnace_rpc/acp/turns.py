"""The prompts of one session: one turn at a time, in the order of their arrival.

A turn goes from `waiting` over `sent` (the agent checks the prompt) and `running` (or `commanding`: a command of an
extension has handled it, and may have started work) to `settling` (the last figures are being read), and is then
over. A cancellation ends all that came before it and nothing else.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pinnace_agent.core.surroundings import random_uuid
from pinnace_rpc.acp.translation.jsonrpc import INVALID_REQUEST, RequestError, RequestId
from pinnace_rpc.acp.translation.prompts import PromptMessage
from pinnace_rpc.acp.translation.shown import Spent

MAX_WAITING: Final = 64
State: TypeAlias = Literal["waiting", "sent", "commanding", "running", "settling"]


@dataclass(slots=True, eq=False)
class PromptTurn:
    """A prompt of an editor from its request to the response."""

    request: RequestId
    message: PromptMessage
    state: State = "waiting"
    is_cancelled: bool = False
    entry: str | None = None
    """The entry of the prompt's message, once it is known."""
    message_id: str = field(default_factory=random_uuid)
    """By which the agent's records name the message."""
    accepted_as: str | None = None
    """The id of the message that is in the conversation: its entry, or of a command one of its own."""
    is_answered: bool = False
    """The request has its response."""
    aborts: int = 0
    """Orders to abort it that have no answer."""
    returned: list[str] = field(default_factory=list[str])
    """Messages that were steered into it and did not reach the model."""
    spent: Spent | None = None
    """What it has used, once it is over; None: not known."""


class Turns:
    """The turns of one session that are not over."""

    def __init__(self) -> None:
        """Begin without any."""
        self.active: PromptTurn | None = None
        self._waiting: deque[PromptTurn] = deque()

    def add(self, request: RequestId, message: PromptMessage) -> None:
        """Take a prompt.

        Raises:
            RequestError: Too many are waiting.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise RequestError(INVALID_REQUEST, f"{MAX_WAITING} prompts of this session are waiting already")
        self._waiting.append(PromptTurn(request, message))

    def begin(self) -> PromptTurn | None:
        """Return the turn that begins now; None: one is active, or none is waiting."""
        if self.active is not None or not self._waiting:
            return None
        self.active = self._waiting.popleft()
        self.active.state = "sent"
        return self.active

    def end(self) -> None:
        """End the active turn."""
        self.active = None

    def cancel(self) -> Iterator[PromptTurn]:
        """Cancel all turns; yield those that have not begun, which are over."""
        if self.active is not None:
            self.active.is_cancelled = True
        while self._waiting:
            yield self._waiting.popleft()

    def is_sent(self, request: RequestId) -> bool:
        """Return whether a prompt is at work that has no response."""
        return self.active is not None and self.active.request == request and not self.active.is_answered

    def cancel_request(self, request: RequestId) -> PromptTurn | None:
        """Cancel one turn and return it, if it has not begun and is over; the active one is marked.

        A request that has its response can't be cancelled any more.
        """
        if self.active is not None and self.is_sent(request):
            self.active.is_cancelled = True
            return None
        for turn in self._waiting:
            if turn.request == request:
                self._waiting.remove(turn)
                return turn
        return None

    @property
    def needs_abort(self) -> bool:
        """Whether the active turn is cancelled and its work still runs."""
        return self.active is not None and self.active.is_cancelled and self.active.state != "settling"
