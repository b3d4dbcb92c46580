"""The progress of one run, from its records: whether it has begun, whether it is over, its result.

Pure. A run is over with `agent_settled`. Agents of generations without that record end it with `agent_end`, after which
a retry, a compaction or a queued text may still follow: there `may_be_over` means that the caller requests the state.
Whether an agent has `agent_settled` is detected: those that answer a prompt with its disposition do (1.5.2 and
pinnace), and any that has ever written one. Of a host's own records `agent_restarted` ends a run, and `truncated` may
hide its end. Has no access to the transport.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from pinnace_rpc.client.records.events import Record
from pinnace_spec.records.messages import AssistantMessage, Message, StopReason


class Run(NamedTuple):
    """The result of a prompt."""

    text: str
    """The last text of the model."""
    messages: Sequence[Message]
    """Everything that was added to the conversation, the prompt included."""
    stop_reason: StopReason | None
    """Of the last answer; None if there was none."""
    is_aborted: bool
    error: str | None
    """Why the last answer has failed, or None."""
    limit: str | None
    """Which of the agent's limits has ended it, for instance the number of turns; None if none has."""


# These records are followed by others: a run that ended before them is not over.
_OPENING: Final = frozenset({"agent_start", "auto_retry_start", "compaction_start"})
_ENDING: Final = frozenset({"agent_end", "auto_retry_end", "compaction_end"})


class Progress:
    """Follows one run, from the prompt on: `see` every record since it was written, in order."""

    def __init__(self, *, writes_settled: bool) -> None:
        """Begin before anything was seen; `writes_settled`: the agent is known to write `agent_settled`."""
        self._messages: list[Message] = []
        self._has_begun = False
        self._has_ended = False  # an agent_end, and no record that continues the run
        self._settled: Record = {}
        self._has_gap = False
        self._interruption: str | None = None
        self.is_over = False
        self.is_accepted = False
        self.writes_settled = writes_settled

    @property
    def may_be_over(self) -> bool:
        """The run has ended as far as the records show; the agent's state has the rest."""
        is_unclear = self._has_gap or (self._has_ended and not self.writes_settled)
        return is_unclear and self.is_accepted and not self.is_over

    def accept(self, answer: Record) -> None:
        """Take the answer to the prompt, at its place among the records; it is a success."""
        self.is_accepted = True
        data = answer.get("data")
        disposition = cast("Record", data).get("disposition") if isinstance(data, dict) else None
        self.writes_settled = self.writes_settled or disposition is not None
        # A command of an extension, carried out: no run.
        self.is_over = self.is_over or disposition == "handled"

    def see(self, record: Record) -> None:
        """Take the next record."""
        kind = record["type"]
        if kind == "agent_start":
            self._has_begun, self._has_ended = True, False
        elif kind in _OPENING:
            self._has_ended = False
        elif kind in _ENDING:
            self._has_ended = self._has_begun and record.get("willRetry") is not True
        elif kind == "agent_settled":
            self._see_settled(record)
        elif kind == "truncated":
            self._has_gap = True  # its end may be in there
        elif kind == "agent_restarted":
            self._see_restart(record)
        elif kind == "message_end" and self._has_begun:
            self._messages.append(cast("Message", record.get("message")))  # as the protocol guarantees

    def end(self) -> None:
        """Take the agent's state, which reports no work: the run is over."""
        self.is_over = True

    def result(self) -> Run:
        """Return the result of the run so far."""
        answers = [each for each in self._messages if each["role"] == "assistant"]
        last: AssistantMessage | None = answers[-1] if answers else None
        stop_reason = last["stopReason"] if last else None
        # Older generations don't report it: an abort is detected only if an answer was cut.
        aborted = self._settled.get("aborted")
        is_aborted = aborted if isinstance(aborted, bool) else stop_reason == "aborted"
        limit = self._settled.get("limit")
        error = (last.get("errorMessage") or "the model has failed") if last and stop_reason == "error" else None
        error = self._interruption or error
        return Run(
            _text_of(last) if last else "",
            tuple(self._messages),
            stop_reason,
            is_aborted,
            error,
            limit if isinstance(limit, str) else None,
        )

    def _see_restart(self, record: Record) -> None:
        """A run that a crash cut is not repeated; a prompt that was not answered is written again."""
        if self.is_accepted and not self.is_over:
            self._interruption = f"the agent's process has ended, and another one has begun ({record.get('reason')})"
            self.is_over = True

    def _see_settled(self, record: Record) -> None:
        self.writes_settled = True
        # One that comes before the prompt was accepted, and without a run, ends what was before it.
        if self.is_accepted or self._has_begun:
            self._settled, self.is_over = record, True


def text_delta_of(record: Record) -> str | None:
    """Return the piece of text that a record adds to an answer, if it does."""
    if record["type"] != "message_update":
        return None
    step = record.get("assistantMessageEvent")
    if not isinstance(step, dict):
        return None
    members = cast("Record", step)
    delta = members.get("delta")
    return delta if members.get("type") == "text_delta" and isinstance(delta, str) else None


def _text_of(message: AssistantMessage) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")
