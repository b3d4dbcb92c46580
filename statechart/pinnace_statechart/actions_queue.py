"""Actions of texts, queues, aborts and the line behind a barrier.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. Rules R-PRM, R-QUE, R-ABT, C-1 to C-9.
"""

from collections.abc import Collection
from typing import Final

from pinnace_spec.statechart.names import COMPACTING, INSTANT, VETOABLE
from pinnace_statechart.actions_extensions import is_settle_hook_due, withdraw_reading
from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import (
    Accept,
    AgentSettled,
    Answer,
    AnswerShell,
    Deliver,
    QueueUpdate,
    Refuse,
    ReturnQueued,
    ReturnReason,
    StartJob,
    View,
)
from pinnace_statechart.queues import Item, MessageQueue
from pinnace_statechart.state import PendingAbort, SavingAfter
from pinnace_statechart.triggers import NO_REPLY, AbortQueue, Command

TEXT_COMMANDS = ("prompt", "steer", "follow_up")
_AFTER_ABORT: Final[dict[AbortQueue, SavingAfter]] = {"hold": "hold", "clear": "withdraw", "continue": "accept"}


def _item(command: Command) -> Item:
    return Item(command.ref, command.text, command.blocks, command.unread, command.custom, command.message_id)


def take_prompt(context: StepContext) -> None:
    """Take a prompt into preflight."""
    context.state.pending_prompt = _item(context.command)


def begin_streaming(context: StepContext) -> None:
    """Begin to be streaming, unless already so (C-8).

    It looks for itself, since every text that is accepted does this, in whatever state, and only the first one begins.
    """
    if not context.state.streaming:
        context.state.streaming = True
        context.state.cancelled, context.state.limit = False, None


def settle(context: StepContext) -> None:
    """Stop streaming once nothing more will happen by itself (C-8).

    It looks for itself, since its place is in the midst of what every end of a job does: before the answers of aborts.
    """
    state = context.state
    if state.streaming and not state.is_owed and not is_settle_hook_due(state):
        state.streaming = state.settle_hook_due = False
        context.emit(AgentSettled(state.cancelled, state.limit))
        state.cancelled, state.limit = False, None


def enqueue(context: StepContext) -> None:
    """Put a text at the end of its queue."""
    _enqueue(context, context.command)


def _enqueue(context: StepContext, command: Command) -> None:
    (context.state.steering if command.is_steering else context.state.follow_up).put(_item(command))


def start_saving(context: StepContext) -> None:
    """Start to save a text, before it is queued and accepted."""
    state = context.state
    state.saving, state.saving_after = context.command, "accept"
    state.saving_job = state.next_job()
    context.emit(StartJob("save", state.saving_job, context.command.ref))


def _taken_saving(context: StepContext) -> Command:
    state = context.state
    assert state.saving is not None
    command, state.saving, state.saving_job, state.saving_after = state.saving, None, 0, "accept"
    return command


def start_saved(context: StepContext) -> None:
    """Put a text that is saved at the end of its queue while nothing runs, and answer whether it starts a run (C-4)."""
    _accept_started(context, _enqueue_saved(context))


def queue_saved(context: StepContext) -> None:
    """Put a text that is saved at the end of its queue, and answer that it waits there."""
    context.emit(Accept(_enqueue_saved(context), disposition="queued"))


def _enqueue_saved(context: StepContext) -> int:
    command = _taken_saving(context)
    _enqueue(context, command)
    _report_queues(context)
    return command.ref


def return_saved(context: StepContext) -> None:
    """Queue a text that is saved, and return it to the abort that waits for it."""
    state = context.state
    is_steering = state.saving is not None and state.saving.is_steering
    queue_saved(context)
    item = (state.steering if is_steering else state.follow_up).take_newest()
    _report_queues(context)
    for at, (ref, cleared) in enumerate(state.aborts):
        if cleared is not None:
            steering, follow_up = cleared
            both = (*steering, item.text), follow_up
            state.aborts[at] = PendingAbort(ref, both if is_steering else (steering, (*follow_up, item.text)))
            context.emit(ReturnQueued(ref, (item,), "abort"))
            return


def refuse_unsaved(context: StepContext) -> None:
    """Refuse a text that could not be saved."""
    event = context.internal_event
    context.emit(Refuse(_taken_saving(context).ref, "job", event.text, event.code))


def hold_saving(context: StepContext) -> None:
    """Let a text that is being saved join the paused queue: the process ends.

    It looks for itself: a text is saved beside every state, and one that an abort returns stays returned.
    """
    state = context.state
    if state.saving is not None and state.saving_after == "accept":
        state.saving_after = "hold"


def restore_queue(context: StepContext) -> None:
    """Take queued texts of the session file, which were not delivered (R-QUE-13)."""
    for command in context.internal_event.texts:
        _enqueue(context, command)


def pause_queue(context: StepContext) -> None:
    """Park what is queued."""
    context.state.queue_paused = True


def resume_queue(context: StepContext) -> None:
    """Let queued texts be delivered again: new work was accepted (C-1)."""
    context.state.queue_paused = False


def queue_update(context: StepContext) -> None:
    """Report both queues, unless it is a message of an extension that has changed them: those are not shown."""
    trigger = context.trigger
    if not (isinstance(trigger, Command) and trigger.custom is not None):
        _report_queues(context)


def _report_queues(context: StepContext) -> None:
    context.emit(QueueUpdate(context.state.steering.texts(), context.state.follow_up.texts()))


def deliver(context: StepContext, item: Item, *, is_appended: bool = False) -> None:
    """Deliver one text; a user's text gives failures their whole budget again (C-14)."""
    context.state.attempt = 0
    context.state.overflow_tried = False
    context.emit(Deliver(item, is_appended))


def deliver_steering(context: StepContext) -> None:
    """Deliver steering texts as their mode says."""
    _poll(context, context.state.steering)


def deliver_follow_up(context: StepContext) -> None:
    """Deliver follow-ups as their mode says."""
    _poll(context, context.state.follow_up)


def deliver_continuation(context: StepContext) -> None:
    """Deliver steering texts, or follow-ups if there are none; at least one, or nothing would ever end (C-3)."""
    state = context.state
    _poll(context, state.steering if len(state.steering) else state.follow_up)


def _poll(context: StepContext, queue: MessageQueue) -> None:
    count = len(queue) if queue.mode == "all" else min(1, len(queue))
    for _ in range(count):
        item = queue.take()
        assert item is not None
        if item.custom is None:
            _report_queues(context)
        deliver(context, item)


def _withdraw(context: StepContext, ref: int, reason: ReturnReason) -> tuple[tuple[str, ...], tuple[str, ...]]:
    steering, follow_up = context.state.steering.clear(), context.state.follow_up.clear()
    if steering or follow_up:
        _report_queues(context)
        context.emit(ReturnQueued(ref, steering + follow_up, reason))
    return tuple(item.text for item in steering), tuple(item.text for item in follow_up)


def withdraw_queues(context: StepContext) -> None:
    """Empty both queues, and report it if they were not."""
    context.state.cleared = _withdraw(context, context.command.ref, "clear_queue")


def replace_session(context: StepContext) -> None:
    """Withdraw what was queued for the former session."""
    context.state.queue_paused = False
    context.state.cleared = _withdraw(context, context.state.switching_ref, "session_replaced")


def accept_cleared(context: StepContext) -> None:
    """Answer with what was withdrawn."""
    context.emit(Accept(context.command.ref, cleared=context.state.cleared))


def announce_queue(context: StepContext) -> None:
    """Report what is queued, if anything is: it was restored, or the process ends and keeps it."""
    if context.state.steering.texts() or context.state.follow_up.texts():
        _report_queues(context)


def accept_started(context: StepContext) -> None:
    """Answer that the text starts a run, or that texts which were queued before it go first (C-4)."""
    _accept_started(context, context.command.ref)


def _accept_started(context: StepContext, ref: int) -> None:
    state = context.state
    queue = state.steering if len(state.steering) else state.follow_up
    delivered = list(queue)[: len(queue) if queue.mode == "all" else 1]
    is_delivered = any(item.ref == ref for item in delivered)
    context.emit(Accept(ref, disposition="started" if is_delivered else "queued"))


def accept_prompt(context: StepContext) -> None:
    """Answer the prompt that passed preflight."""
    assert context.state.pending_prompt is not None
    context.emit(Accept(context.state.pending_prompt.ref, disposition="started"))


def handle_prompt(context: StepContext) -> None:
    """Answer a prompt that needs no run."""
    context.emit(Accept(_taken_own(context).ref, disposition="handled"))


def refuse_prompt(context: StepContext) -> None:
    """Refuse the prompt in preflight with the job's reason."""
    context.emit(Refuse(_taken_own(context).ref, "job", context.internal_event.text, context.internal_event.code))


def refuse_prompt_aborted(context: StepContext) -> None:
    """Refuse the prompt in preflight: it was aborted."""
    context.emit(Refuse(_taken_own(context).ref, "aborted"))


def refuse_prompt_shutdown(context: StepContext) -> None:
    """Refuse the prompt in preflight: the process ends."""
    context.emit(Refuse(_taken_own(context).ref, "shutdown"))


def _taken_own(context: StepContext) -> Item:
    own = context.state.pending_prompt
    assert own is not None
    context.state.pending_prompt = None
    return own


def refuse_line(context: StepContext) -> None:
    """Refuse a line that is no command."""
    context.emit(Refuse(context.command.ref, "line", context.command.text))


def admit_abort(context: StepContext) -> None:
    """Apply the abort's queue option now; it is answered when RUN has ended (C-6, C-7, R-LIM-01)."""
    state = context.state
    command = context.command
    state.cancelled = True
    state.limit = command.limit or state.limit
    cleared = _withdraw(context, command.ref, "abort") if command.queue == "clear" else None
    # DEVIATION D-17: paused, not started and not stranded.
    state.queue_paused = command.queue != "continue"
    if state.saving is not None and state.saving_after != "withdraw":
        state.saving_after = _AFTER_ABORT[command.queue]
    if command.ref != NO_REPLY:
        state.aborts.append(PendingAbort(command.ref, cleared))


def answer_aborts(context: StepContext) -> None:
    """Answer the aborts that waited, unless a text is being saved: what becomes of it is reported before.

    It looks for itself: a text is saved beside every state, and its end answers them (R-QUE-12).
    """
    if context.state.saving is None:
        answer_aborts_now(context)


def answer_aborts_now(context: StepContext) -> None:
    """Answer the aborts that waited, in order of arrival: another run begins."""
    for pending in context.state.aborts:
        context.emit(Accept(pending.ref, cleared=pending.cleared))
    context.state.aborts.clear()


def defer_command(context: StepContext) -> None:
    """Let a command wait behind the barrier."""
    context.state.deferred_commands.append(context.command)


def admit_deferred(context: StepContext) -> None:
    """Admit the head of the line."""
    context.raised.append(context.state.deferred_commands.popleft())


def withdraw_waiting(context: StepContext) -> None:
    """Answer what waits and would work on RUN; the rest of the line stays (C-9)."""
    state = context.state
    kept = [command for command in state.deferred_commands if not _withdraw_one(context, command)]
    state.deferred_commands.clear()
    state.deferred_commands.extend(kept)
    _withdraw_pending(context, shutdown=False)
    withdraw_reading(context, "aborted")


def _withdraw_one(context: StepContext, command: Command) -> bool:
    if command.name in TEXT_COMMANDS or command.name == "extension_command":
        context.emit(Refuse(command.ref, "aborted"))
    elif command.name == "compact":
        context.emit(Refuse(command.ref, "compaction_cancelled"))
    elif command.name in VETOABLE:
        context.emit(Accept(command.ref, cancelled=True))
    else:
        return False
    return True


def withdraw_all(context: StepContext) -> None:
    """Answer everything that waits: the process ends (C-16)."""
    _withdraw_at_end(context, but=())


def withdraw_work(context: StepContext) -> None:
    """Answer what waits and needs more than a step: the process ends when the rest has been answered (C-16)."""
    _withdraw_at_end(context, but=INSTANT)


def _withdraw_at_end(context: StepContext, *, but: Collection[str]) -> None:
    state = context.state
    withdraw_reading(context, "shutdown")
    kept = [command for command in state.deferred_commands if command.name in but]
    for command in state.deferred_commands:
        if command.name in but:
            continue
        if command.name in VETOABLE:
            context.emit(Accept(command.ref, cancelled=True))
        elif command.name == "bash":
            context.emit(AnswerShell(command.ref))
        elif command.name == "abort":
            context.emit(Accept(command.ref))
        else:
            context.emit(Refuse(command.ref, "shutdown"))
    state.deferred_commands.clear()
    state.deferred_commands.extend(kept)
    _withdraw_pending(context, shutdown=True)


def _withdraw_pending(context: StepContext, *, shutdown: bool) -> None:
    state = context.state
    if state.confirmed_switch is not None:
        context.emit(Accept(state.confirmed_switch.ref, cancelled=True))
        state.confirmed_switch = None
    if state.pending_compact is not None:
        context.emit(Refuse(state.pending_compact.ref, "shutdown" if shutdown else "compaction_cancelled"))
        state.pending_compact = None


def withdraw_bash(context: StepContext) -> None:
    """Answer shell commands that wait in the line as cancelled."""
    state = context.state
    kept: list[Command] = []
    for command in state.deferred_commands:
        if command.name == "bash":
            context.emit(AnswerShell(command.ref))
        else:
            kept.append(command)
    state.deferred_commands.clear()
    state.deferred_commands.extend(kept)


def set_mode(context: StepContext) -> None:
    """Set how many texts a delivery takes; the oldest generation's command sets both queues."""
    command = context.command
    assert command.mode is not None
    if command.name != "set_follow_up_mode":
        context.state.steering.mode = command.mode
    if command.name != "set_steering_mode":
        context.state.follow_up.mode = command.mode


def set_flag(context: StepContext) -> None:
    """Turn automatic compaction or retry on or off, for the next decision."""
    state, command = context.state, context.command
    if command.name == "set_auto_retry":
        state.retry = state.retry._replace(enabled=command.enabled)
    else:
        state.auto_compaction = command.enabled


def answer(context: StepContext) -> None:
    """Answer a read."""
    state, run = context.state, context.configuration["run"]
    # What extensions say themselves is not the user's.
    waiting = (state.steering.items(), state.follow_up.items())
    queued = len(waiting[0] + waiting[1])
    view = View(
        # A text that extensions still read has its place.
        queued + (state.reading is not None),
        state.streaming,
        run in COMPACTING or run == "navigating",  # as in the original
        bool(state.shells),
        state.steering.mode,
        state.follow_up.mode,
        state.auto_compaction,
        state.queue_paused and queued > 0,
        waiting,
    )
    context.emit(Answer(context.command.ref, view))
