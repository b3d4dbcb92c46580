"""The work of one session: its prompts one after the other, and what no prompt has begun.

A prompt goes to the agent when its turn has come, and its turn ends when the run of it has settled and the last figures
are read. A cancellation ends all that came before it, in every state. Must not know clients, questions or files.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.core.surroundings import random_uuid, wall_time_ns
from pinnace_rpc.acp.core import EditorAgent, Record
from pinnace_rpc.acp.figures import Figures
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation import tool_calls
from pinnace_rpc.acp.translation.jsonrpc import RequestError, RequestId
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.prompts import PromptMessage, read_prompt
from pinnace_rpc.acp.translation.shown import InfoChanged, Json, Noticed, Remarked, Shown, UserMessage
from pinnace_rpc.acp.translation.stop_reasons import TurnResult, ending, failure, is_refusal, refusal
from pinnace_rpc.acp.translation.titles import date_text
from pinnace_rpc.acp.translation.translator import Translator
from pinnace_rpc.acp.translation.version import Lifecycle, Outcome
from pinnace_rpc.acp.turns import PromptTurn, Turns

_COMPACT: Final = "/compact"
_NOTHING_DONE: Final = frozenset({"nothing_to_compact", "already_compacted"})
"""Answers to a compaction that say that none was needed."""


class Work:
    """The work of one session."""

    def __init__(  # noqa: PLR0913 - a line for each part
        self,
        core: EditorAgent,
        outbox: Outbox,
        translator: Translator,
        figures: Figures,
        lifecycle: Lifecycle,
        show: Callable[[Shown], None],
        withdraw: Callable[[], None],
        has_questions: Callable[[], bool],
        *,
        is_at_work: bool,
    ) -> None:
        """Begin without a prompt.

        Args:
            core: The agent.
            outbox: Takes the responses to requests to steer.
            translator: Of the agent's records.
            figures: Of the session.
            lifecycle: Takes where turns and work begin and end.
            show: Takes what the session shows.
            withdraw: Takes back what the client is asked for: an abort is sent.
            has_questions: Returns whether the client is asked something, perhaps by a command of a former connection.
            is_at_work: Whether the agent has a run.
        """
        self._core = core
        self._outbox = outbox
        self._translator = translator
        self._figures = figures
        self._lifecycle = lifecycle
        self._show = show
        self._withdraw = withdraw
        self._has_questions = has_questions
        self._turns = Turns()
        self.is_active = is_at_work
        """A run is active, begun by a prompt or by the agent itself."""
        self._is_asking = False
        """A question is open for which a call was announced."""
        self.returned: list[str] = []
        """What aborts of work that no prompt has begun have kept from the model."""
        self.is_taking_back = False
        """The session is being moved to before a prompt that the model has refused."""
        self._has_new_keys = False
        self._steering: dict[RequestId, None] = {}
        """The requests to steer that the agent has not answered."""
        self._finishing: Callable[[], None] | None = None
        """Ends the turn that is over but for the answers of aborts."""
        self._notices: list[Noticed] = []
        """What is shown with the next turn."""
        lifecycle.work(is_at_work=is_at_work, outcome=None)

    @property
    def has_turn(self) -> bool:
        """Whether a prompt is at work."""
        return self._turns.active is not None

    def show_with_turn(self, notice: Noticed) -> None:
        """Show a notice when the next turn begins."""
        self._notices.append(notice)

    # Requests.

    def prompt(self, request: RequestId, params: Params) -> None:
        """Take a prompt; its response comes when its turn is over.

        Raises:
            RequestError: It can't be taken.
        """
        self._turns.add(request, read_prompt(params))
        self._advance()

    def cancel(self) -> None:
        """Cancel all prompts that have come, and work that no prompt has begun."""
        for turn in self._turns.cancel():
            self._lifecycle.withdraw(turn)
        self._abort()

    def cancel_request(self, request: RequestId) -> None:
        """Cancel one prompt whose request has no response."""
        is_sent = self._turns.is_sent(request)
        if (turn := self._turns.cancel_request(request)) is not None:
            self._lifecycle.withdraw(turn)
        elif is_sent and self._turns.needs_abort:
            self._abort()

    def steer(self, request: RequestId, params: Params) -> None:
        """Take a message for the active run.

        Raises:
            RequestError: It can't be taken.
        """
        message = read_prompt(params)
        said = _inner(params, "_meta")
        is_idle = not self.is_active and self._turns.active is None
        if is_idle:
            idle = _inner(said, "steering").optional_text("idleBehavior")
            if idle == "promptRequired":
                self._outbox.respond(request, {"outcome": "promptRequired", "reason": "noRunningTurn"})
                return
            if idle is not None:
                raise _inner(said, "steering").invalid("idleBehavior", 'must be "promptRequired" or absent')

        outcome = "startedNewTurn" if is_idle else "injected"
        take = self._steered(request, lambda _: {"outcome": outcome})
        if is_idle:
            self._core.send("prompt", {**self._named(message, random_uuid()), "streamingBehavior": "steer"}, take)
        else:
            is_follow_up = _inner(said, "pinnace").optional_text("deliverAs") == "followUp"
            self._core.send("follow_up" if is_follow_up else "steer", self._named(message, random_uuid()), take)

    def message_child(self, request: RequestId, params: Params) -> None:
        """Take a message for a sub-agent that works, which has the id of a session (R-SUB-10).

        Raises:
            RequestError: It can't be taken.
        """
        message = read_prompt(params)
        if message.context or message.images:
            raise params.invalid("prompt", "must have text and links alone: a sub-agent takes nothing else")

        take = self._steered(request, lambda given: {"outcome": "injected", "messageId": given.get("messageId")})
        self._core.send("message_agent", {"agentId": params.text("sessionId"), "message": message.text}, take)

    def _steered(self, request: RequestId, result: Callable[[Record], Json]) -> Callable[[Record], None]:
        """Count a request as not answered; returns what answers it, with a result made of the agent's data."""

        def take(answer: Record) -> None:
            self._steering.pop(request, None)
            if answer.get("success") is not True:
                self._outbox.refuse(request, refusal(answer))
            else:
                self._outbox.respond(request, result(as_object(answer.get("data")) or {}))

        self._steering[request] = None
        return take

    def expect_keys(self) -> None:
        """Have the agent read its keys again before the next prompt: there are others."""
        self._has_new_keys = True

    def _advance(self) -> None:
        turn = self._turns.begin()
        if turn is None:
            return
        self._lifecycle.begin(turn)
        notices, self._notices = self._notices, []
        for each in notices:
            self._show(each)
        if self._has_new_keys:
            self._has_new_keys = False
            self._core.send("reload", {}, self._reloaded)
            self._figures.refresh_models()
        self._translator.answer = None
        text = turn.message.text
        if text == _COMPACT or text.startswith(f"{_COMPACT} "):
            instructions = text.removeprefix(_COMPACT).strip()
            fields: dict[str, object] = {"customInstructions": instructions} if instructions else {}
            self._accept_command(turn)
            self._core.send("compact", fields, lambda answer: self._compacted(turn, answer))
            return
        if self._figures.is_handled(text):
            self._accept_command(turn)
        fields = {**self._named(turn.message, turn.message_id), "streamingBehavior": "followUp"}
        self._core.send("prompt", fields, lambda answer: self._prompted(turn, answer))

    def _reloaded(self, answer: Record) -> None:
        if answer.get("success") is not True:
            self._show(Noticed("warning", "The agent has not read its keys again:", str(answer.get("error"))))

    def _named(self, message: PromptMessage, message_id: str) -> dict[str, object]:
        """Return the fields of a message with an id, by which it is known when it comes back."""
        self._translator.expect(message_id)
        return {**message.fields(), "messageId": message_id}

    def _accept_command(self, turn: PromptTurn) -> None:
        """Take a prompt that no entry will have: the client is shown what it has sent."""
        turn.accepted_as = turn.message_id
        self._show(UserMessage(turn.message_id, turn.message.blocks, is_own=True))
        self._lifecycle.accept(turn)

    def _compacted(self, turn: PromptTurn, answer: Record) -> None:
        if answer.get("success") is True:
            self._settle(turn, TurnResult("end_turn", {}))
        elif answer.get("errorCode") in _NOTHING_DONE:
            self._show(Remarked(str(answer.get("error"))))
            self._settle(turn, TurnResult("end_turn", {}))
        elif answer.get("errorCode") == "compaction_cancelled":
            self._settle(turn, TurnResult("cancelled", {"abortedBy": "agent"}))
        else:
            self._settle(turn, refusal(answer))

    def _prompted(self, turn: PromptTurn, answer: Record) -> None:
        if answer.get("success") is not True:
            self._settle(turn, refusal(answer))
            return
        data = as_object(answer.get("data")) or {}
        if data.get("disposition") == "handled":
            turn.state = "commanding"
            self._translator.forget(turn.message_id)
            if turn.accepted_as is None:
                self._accept_command(turn)
            self._figures.ask("get_state", lambda state: self._commanded(turn, state))
        else:
            turn.state = "running"

    def _commanded(self, turn: PromptTurn, state: Json) -> None:
        if state.get("isStreaming") is True:
            turn.state = "running"
            if turn.is_cancelled:
                self._abort()
        else:
            self._settle(turn, TurnResult("end_turn", {}))

    def _settle(self, turn: PromptTurn, outcome: Outcome) -> None:
        """Read the last figures, which belong to the turn, and end it."""
        turn.state = "settling"
        self._close_calls()
        self._show(InfoChanged(updated_at=date_text(wall_time_ns() / 1e9)))
        self._figures.refresh(lambda: self._finish(turn, outcome))

    def _close_calls(self) -> None:
        """Show the end of calls that have none, unless another run has begun, whose calls they may be."""
        if not self.is_active:
            for shown in self._translator.close():
                self._show(shown)

    def _finish(self, turn: PromptTurn, outcome: Outcome) -> None:
        if self._turns.active is not turn:
            return  # over without its end
        if turn.aborts:
            # What an abort returns is saved before it is answered, which takes longer than the figures.
            self._finishing = partial(self._finish, turn, outcome)
            return
        self._turns.end()
        turn.spent = self._figures.take_spent()
        outcome = TurnResult("cancelled", {}) if turn.is_cancelled else outcome
        # A steered message may have begun work behind the run of the turn.
        self._lifecycle.end(turn, outcome, continues=self._continues)
        self._advance()

    def _abort(self) -> None:
        if self._turns.needs_abort or self.is_active or self._has_questions():
            self._withdraw()
            turn = self._turns.active
            if turn is not None:
                turn.aborts += 1
            self._core.send("abort", {"queue": "clear"}, lambda answer: self._take_returned(turn, answer))

    def _take_returned(self, turn: PromptTurn | None, answer: Record) -> None:
        """Take the steered messages that an abort has kept from the model: the user gets them back."""
        cleared = as_object((as_object(answer.get("data")) or {}).get("cleared")) or {}
        texts = [str(text) for name in ("steering", "followUp") for text in as_array(cleared.get(name))]
        if texts:
            self._show(Noticed("warning", "Not delivered:", "\n".join(texts)))
        if turn is None:
            self.returned += texts
        else:
            turn.returned += texts
            turn.aborts -= 1
            if turn.aborts:
                return
            if (finish := self._finishing) is not None:
                self._finishing = None
                finish()
            elif self._turns.active is turn and turn.state == "running" and not self.is_active:
                # Queued behind work that no prompt had begun, and returned with it: no run of it will settle.
                self._settle(turn, TurnResult("cancelled", {}))

    # Records.

    def begin(self) -> None:
        """Take the beginning of a run; the end of a turn that was cancelled is reported before."""
        turn = self._turns.active
        if turn is not None and turn.is_cancelled and turn.state == "settling" and not turn.aborts:
            self._finish(turn, TurnResult("cancelled", {}))
        if self._turns.active is None:
            self._translator.answer = None
        self._set_active(is_active=True)

    def accept(self, record: Record) -> None:
        """Take a message of the user: perhaps it is that of the prompt."""
        turn = self._turns.active
        if turn is not None and turn.accepted_as is None and record.get("messageId") == turn.message_id:
            turn.entry = turn.accepted_as = str(record.get("entryId", "")) or turn.message_id
            self._lifecycle.accept(turn)

    def settle(self, record: Record) -> None:
        """Take the end of a run."""
        turn = self._turns.active
        if turn is None or turn.state != "running":
            self._set_active(is_active=False, outcome=ending(record, self._translator.answer))
            self._figures.refresh(self._leave_out_of_turns)
            return
        self.is_active = False
        self._close_calls()
        answer = self._translator.answer
        if answer is not None and is_refusal(answer) and turn.entry is not None and not turn.is_cancelled:
            self._take_back(turn, turn.entry, answer)
        else:
            self._settle(turn, ending(record, answer))

    def _leave_out_of_turns(self) -> None:
        """Count what work that no prompt has begun has used for no turn."""
        if self._turns.active is None:
            self._figures.take_spent()

    def _take_back(self, turn: PromptTurn, entry: str, answer: Json) -> None:
        """Continue before a prompt that the model has refused: it is no part of the next request."""

        def take(moved: Record) -> None:
            self.is_taking_back = False
            if moved.get("success") is True:
                self._settle(turn, TurnResult("refusal", {}))
            else:
                self._settle(turn, failure(answer))

        self.is_taking_back = True
        self._core.send("navigate_tree", {"entryId": entry}, take)

    def note_questions(self, asking: frozenset[str], count: int) -> None:
        """Report whether the work as a whole waits for the user: it has an open question, and no other call goes on.

        A question that names no call is of the work if it is asked while a prompt or a command is checked, or while a
        tool of an extension runs.

        Args:
            asking: The agent's ids of the calls that open questions are about.
            count: The number of open questions.
        """
        others = [call for call in self._translator.progressing if call.agent_id not in asking]
        turn = self._turns.active
        is_asked = count > len(asking) and (
            any(not tool_calls.is_builtin(call.tool) for call in others)
            or (turn is not None and turn.state in ("sent", "commanding"))
        )
        goes_on = any(tool_calls.is_builtin(call.tool) for call in others)
        self._lifecycle.wait_for_user(is_waiting=bool(asking or is_asked) and not goes_on)
        if self._is_asking and not count:
            self._is_asking = False
            self._show_work(None)

    def announce_question(self) -> None:
        """Take notice that a call will be announced for a question: outside of a turn there is work around it."""
        self._is_asking = True
        self._show_work(None)

    def end(self, outcome: Outcome, error: RequestError, *, is_in_order: bool) -> None:
        """Take the end of the agent: answer every prompt and every request to steer.

        Args:
            outcome: Of work that goes on.
            error: For what has no answer.
            is_in_order: The agent has reported everything that it has done.
        """
        self.is_active = False
        self.answer_all(error, lost=None if is_in_order else error)
        self._lifecycle.stop(outcome)
        for request in self._steering:
            self._outbox.refuse(request, error)
        self._steering.clear()

    def answer_all(self, error: RequestError, *, lost: RequestError | None) -> None:
        """Answer every prompt without its end; `lost` is as in `Lifecycle.end`."""
        turn = self._turns.active
        if turn is not None:
            outcome = TurnResult("cancelled", {}) if turn.is_cancelled else error
            self._lifecycle.end(turn, outcome, continues=self._continues, lost=lost)
        for waiting in self._turns.cancel():
            self._outbox.refuse(waiting.request, error)
        self._turns.end()

    def _set_active(self, *, is_active: bool, outcome: Outcome | None = None) -> None:
        self.is_active = is_active
        self._show_work(outcome)

    def _show_work(self, outcome: Outcome | None) -> None:
        if self._turns.active is None:
            self._lifecycle.work(is_at_work=self._continues, outcome=outcome)

    @property
    def _continues(self) -> bool:
        """Whether there is work beside that of a turn."""
        return self.is_active or self._is_asking


def _inner(params: Params, name: str) -> Params:
    return Params(as_object(params.fields.get(name)) or {}, f"{params.path}.{name}")
