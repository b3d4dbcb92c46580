"""Actions of texts, queues, aborts and the line behind a barrier.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. Rules R-PRM, R-QUE, R-ABT, C-1 to C-9.
"""

from collections.abc import Collection

from pinnace_spec.chart_names import COMPACTING, INSTANT, SESSION_COMMANDS
from pinnace_statechart.actions_extensions import is_boundary_due, withdraw_reading
from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import (
    Accept,
    AgentSettled,
    Answer,
    AnswerShell,
    Deliver,
    Perform,
    QueueUpdate,
    Refuse,
    ReturnQueue,
    View,
)
from pinnace_statechart.queues import Item, MessageQueue
from pinnace_statechart.state import PendingAbort
from pinnace_statechart.triggers import NOBODY, Command

TEXT_COMMANDS = ("prompt", "steer", "follow_up")


def _item(command: Command) -> Item:
    return Item(command.ref, command.text, command.images, command.unread, command.custom)


def take_own(context: StepContext) -> None:
    """Take a prompt into preflight."""
    context.state.own = _item(context.command)


def open_period(context: StepContext) -> None:
    """Begin to be streaming, unless already so (C-8)."""
    if not context.state.period:
        context.state.period = True
        context.state.cancelled, context.state.limit = False, None


def settle(context: StepContext) -> None:
    """End the period once nothing more will happen by itself (C-8)."""
    state = context.state
    if state.period and not state.owed and not is_boundary_due(state):
        state.period = state.boundary_due = False
        context.emit(AgentSettled(state.cancelled, state.limit))
        state.cancelled, state.limit = False, None


def enqueue(context: StepContext) -> None:
    """Put a text at the end of its queue."""
    command = context.command
    steers = command.name == "steer" or command.behavior == "steer"
    (context.state.steering if steers else context.state.follow_up).put(_item(command))


def hold(context: StepContext) -> None:
    """Park what is queued."""
    context.state.held = True


def release_hold(context: StepContext) -> None:
    """Let queued texts be delivered again: new work was accepted (C-1)."""
    context.state.held = False


def queue_update(context: StepContext) -> None:
    """Tell both queues, unless it is a message of an extension that has changed them: those are not shown."""
    trigger = context.trigger
    if not (isinstance(trigger, Command) and trigger.custom is not None):
        _tell_queues(context)


def _tell_queues(context: StepContext) -> None:
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
            _tell_queues(context)
        deliver(context, item)


def _withdraw(context: StepContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    cleared = (context.state.steering.clear(), context.state.follow_up.clear())
    if cleared != ((), ()):
        _tell_queues(context)
    return cleared


def withdraw_queues(context: StepContext) -> None:
    """Empty both queues, and say so if they were not."""
    context.state.cleared = _withdraw(context)


def accept_cleared(context: StepContext) -> None:
    """Answer with what was withdrawn."""
    context.emit(Accept(context.command.ref, cleared=context.state.cleared))


def announce_queue(context: StepContext) -> None:
    """Tell a last time what is queued and will not be delivered by this process."""
    if context.state.steering.texts() or context.state.follow_up.texts():
        _tell_queues(context)


def return_queue(context: StepContext) -> None:
    """Hand back what is still queued (C-16)."""
    if context.configuration["io"] == "draining":
        announce_queue(context)
    cleared = _withdraw(context)
    if cleared != ((), ()):
        context.emit(ReturnQueue(*cleared))


def accept(context: StepContext) -> None:
    """Answer with success."""
    context.emit(Accept(context.command.ref))


def accept_queued(context: StepContext) -> None:
    """Answer that the text waits in its queue."""
    context.emit(Accept(context.command.ref, disposition="queued"))


def accept_started(context: StepContext) -> None:
    """Answer that the text starts a run, or that texts which were held before it go first (C-4)."""
    state = context.state
    queue = state.steering if len(state.steering) else state.follow_up
    delivered = list(queue)[: len(queue) if queue.mode == "all" else 1]
    is_delivered = any(item.ref == context.command.ref for item in delivered)
    context.emit(Accept(context.command.ref, disposition="started" if is_delivered else "queued"))


def accept_own(context: StepContext) -> None:
    """Answer the prompt that passed preflight."""
    assert context.state.own is not None
    context.emit(Accept(context.state.own.ref, disposition="started"))


def handle_own(context: StepContext) -> None:
    """Answer a prompt that needs no run."""
    assert context.state.own is not None
    context.emit(Accept(context.state.own.ref, disposition="handled"))
    context.state.own = None


def refuse_own(context: StepContext) -> None:
    """Refuse the prompt in preflight, if there is one: with the job's reason, or because it was aborted."""
    own = context.state.own
    if own is None:
        return
    context.state.own = None
    if context.configuration["run"] != "aborting":
        context.emit(Refuse(own.ref, "job", context.happening.text, context.happening.code))
    elif context.configuration["io"] == "open":
        context.emit(Refuse(own.ref, "aborted"))
    else:
        context.emit(Refuse(own.ref, "shutdown"))


def refuse_busy(context: StepContext) -> None:
    """Refuse a prompt that does not say how to be queued."""
    context.emit(Refuse(context.command.ref, "busy"))


def refuse_full(context: StepContext) -> None:
    """Refuse a text for which the queues have no room."""
    context.emit(Refuse(context.command.ref, "queue_full"))


def refuse_compacting(context: StepContext) -> None:
    """Refuse a prompt during a compaction that a client asked for."""
    context.emit(Refuse(context.command.ref, "compacting"))


def refuse_line(context: StepContext) -> None:
    """Refuse a line that is no command."""
    context.emit(Refuse(context.command.ref, "line", context.command.text))


def admit_abort(context: StepContext) -> None:
    """Apply the abort's queue option now; it is answered when RUN has ended (C-6, C-7, R-LIM-01)."""
    state = context.state
    command = context.command
    state.cancelled = True
    state.limit = command.limit or state.limit
    cleared = _withdraw(context) if command.queue == "clear" else None
    # DEVIATION D-17: held, not started and not stranded.
    state.held = command.queue != "continue"
    if command.ref != NOBODY:
        state.aborts.append(PendingAbort(command.ref, cleared))


def answer_aborts(context: StepContext) -> None:
    """Answer the aborts that waited, in order of arrival."""
    for pending in context.state.aborts:
        context.emit(Accept(pending.ref, cleared=pending.cleared))
    context.state.aborts.clear()


def join_line(context: StepContext) -> None:
    """Let a command wait behind the barrier."""
    context.state.line.append(context.command)


def take_line(context: StepContext) -> None:
    """Admit the head of the line."""
    context.raised.append(context.state.line.popleft())


def withdraw_waiting(context: StepContext) -> None:
    """Answer what waits and would work on RUN; the rest of the line stays (C-9)."""
    state = context.state
    kept = [command for command in state.line if not _withdraw_one(context, command)]
    state.line.clear()
    state.line.extend(kept)
    _withdraw_pending(context, shutdown=False)
    withdraw_reading(context, "aborted")


def _withdraw_one(context: StepContext, command: Command) -> bool:
    if command.name in TEXT_COMMANDS or command.name == "extension_command":
        context.emit(Refuse(command.ref, "aborted"))
    elif command.name == "compact":
        context.emit(Refuse(command.ref, "compaction_cancelled"))
    elif command.name in SESSION_COMMANDS:
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
    kept = [command for command in state.line if command.name in but]
    for command in state.line:
        if command.name in but:
            continue
        if command.name in SESSION_COMMANDS:
            context.emit(Accept(command.ref, cancelled=True))
        elif command.name == "bash":
            context.emit(AnswerShell(command.ref))
        elif command.name == "abort":
            context.emit(Accept(command.ref))
        else:
            context.emit(Refuse(command.ref, "shutdown"))
    state.line.clear()
    state.line.extend(kept)
    _withdraw_pending(context, shutdown=True)


def _withdraw_pending(context: StepContext, *, shutdown: bool) -> None:
    state = context.state
    if state.approved is not None and context.configuration["run"] != "switching":
        context.emit(Accept(state.approved.ref, cancelled=True))
        state.approved = None
    if state.pending_compact is not None:
        context.emit(Refuse(state.pending_compact.ref, "shutdown" if shutdown else "compaction_cancelled"))
        state.pending_compact = None


def withdraw_bash(context: StepContext) -> None:
    """Answer shell commands that wait in the line as cancelled."""
    state = context.state
    kept: list[Command] = []
    for command in state.line:
        if command.name == "bash":
            context.emit(AnswerShell(command.ref))
        else:
            kept.append(command)
    state.line.clear()
    state.line.extend(kept)


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
    view = View(
        # A text that extensions still read has its place; what they say themselves is not the user's.
        state.steering.count() + state.follow_up.count() + (state.reading is not None),
        state.period,
        run in COMPACTING,
        bool(state.shells),
        state.steering.mode,
        state.follow_up.mode,
        state.auto_compaction,
    )
    context.emit(Answer(context.command.ref, view))


def perform(context: StepContext) -> None:
    """Carry out a settings command."""
    context.emit(Perform(context.command.ref))
