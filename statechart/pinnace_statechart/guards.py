"""Guards: one small pure predicate for each guard that a transition names.

A guard reads the state and changes nothing.
"""

from collections.abc import Callable
from typing import Final

from pinnace_spec.statechart.names import INSTANT, STOPPING
from pinnace_statechart.actions_extensions import is_settle_hook_due
from pinnace_statechart.context import StepContext

_STOPPING: Final = frozenset(STOPPING)


def barrier(context: StepContext) -> bool:
    """Whether commands that wait must wait now (C-9).

    A barrier is a session command from its admission to its answer, a compact that waits for a run to end, a text that
    extensions read or that is being saved, or, while a job unwinds, a plain prompt that waits for idle.
    """
    state = context.state
    run = context.configuration["run"]
    return (
        state.confirming is not None
        or state.confirmed_switch is not None
        or state.pending_compact is not None
        or state.reading is not None
        or state.saving is not None
        or run == "switching"
        or (run in _STOPPING and bool(state.deferred_commands))
    )


def queue_full(context: StepContext) -> bool:
    """Whether the text would be queued, and as many wait as may (R-QUE-11)."""
    command, state = context.command, context.state
    is_queued = command.name != "prompt" or command.behavior is not None
    return is_queued and len(state.steering) + len(state.follow_up) >= state.max_queued


def unread(context: StepContext) -> bool:
    """Whether extensions are to read the text before it is queued; a prompt that is not to be queued never is."""
    command = context.command
    return command.unread and (command.name != "prompt" or command.behavior is not None)


def unsaved(context: StepContext) -> bool:
    """Whether the text is to be saved before it is queued (R-QUE-12); a prompt that is not to be queued never is."""
    command = context.command
    is_queued = command.name != "prompt" or command.behavior is not None
    return is_queued and not command.saved and command.custom is None


def held(context: StepContext) -> bool:
    """Whether an abort has come while the text was being saved: it joins the paused queue (C-1)."""
    return context.state.saving_after == "hold"


def withdrawn(context: StepContext) -> bool:
    """Whether an abort that clears the queues has come while the text was being saved (C-7)."""
    return context.state.saving_after == "withdraw"


def continues(context: StepContext) -> bool:
    """Whether queued texts of the session file are to be delivered without a further command (R-QUE-18)."""
    return context.internal_event.enabled


def settle_hook_due(context: StepContext) -> bool:
    """Whether extensions have to be asked before the agent settles (R-EXT-05)."""
    return is_settle_hook_due(context.state)


def goes_on(context: StepContext) -> bool:
    """Whether an extension wants a further turn (R-EXT-07)."""
    return context.internal_event.requested == "go_on"


def ends_at_once(context: StepContext) -> bool:
    """Whether all calls of the turn want the run to end with them, and no text steers it on (R-EXT-07)."""
    return context.internal_event.requested == "end" and not len(context.state.steering)


def input_open(context: StepContext) -> bool:
    """Whether commands may still come; what is refused while they may was aborted."""
    return context.configuration["io"] == "open"


def closing(context: StepContext) -> bool:
    """Whether the process is on its way to its end, and waits for no work."""
    return context.configuration["io"] == "closing"


def has_steering(context: StepContext) -> bool:
    """Whether a steering text waits."""
    return len(context.state.steering) > 0


def has_follow_up(context: StepContext) -> bool:
    """Whether a follow-up waits."""
    return len(context.state.follow_up) > 0


def has_deliverable(context: StepContext) -> bool:
    """Whether queued texts may be delivered without a further command (C-2)."""
    return context.state.has_deliverable


def unsettled(context: StepContext) -> bool:
    """Whether the agent is streaming and has nothing to deliver."""
    return context.state.streaming and not context.state.is_owed


def threshold_due(context: StepContext) -> bool:
    """Whether the context has grown over the threshold and compaction is on."""
    return context.internal_event.threshold_due and context.state.auto_compaction


def threshold_unchecked(context: StepContext) -> bool:
    """Whether this preflight has not compacted yet (C-14)."""
    return not context.state.threshold_checked


def can_retry(context: StepContext) -> bool:
    """Whether a transient error may be tried again."""
    state = context.state
    return state.retry.enabled and state.attempt < state.retry.max_attempts


def can_recover_overflow(context: StepContext) -> bool:
    """Whether an overflow may be answered by compacting, once (C-14)."""
    return context.state.auto_compaction and not context.state.overflow_tried


def overflow_again(context: StepContext) -> bool:
    """Whether the context was compacted for an overflow, and that was not enough (C-14)."""
    return context.state.auto_compaction and context.state.overflow_tried


def session_ready(context: StepContext) -> bool:
    """Whether an approved session command may begin."""
    return context.state.confirmed_switch is not None


def compact_ready(context: StepContext) -> bool:
    """Whether a compact waited for RUN to be idle."""
    return context.state.pending_compact is not None


def deferred_ready(context: StepContext) -> bool:
    """Whether the head of the line may be taken."""
    return bool(context.state.deferred_commands) and not barrier(context)


def has_deferred(context: StepContext) -> bool:
    """Whether commands wait behind a barrier."""
    return bool(context.state.deferred_commands)


def instant_waits(context: StepContext) -> bool:
    """Whether something waits that is carried out in one step once a session has begun (C-16)."""
    return any(command.name in INSTANT for command in context.state.deferred_commands)


def last_shell(context: StepContext) -> bool:
    """Whether the shell that ended was the only one."""
    return len(context.state.shells) == 1


def quiescent(context: StepContext) -> bool:
    """Whether nothing works, waits or is to be delivered in any region, so that the process may leave."""
    configuration = context.configuration
    state = context.state
    return (
        configuration["run"] == "idle"
        and configuration["session"] == "quiet"
        and configuration["shell"] == "quiet"
        and state.pending_compact is None
        and state.confirmed_switch is None
        and state.reading is None
        and state.saving is None
        and not state.running_extension_commands
        and not state.deferred_commands
        and not state.has_deliverable
    )


Guard = Callable[[StepContext], bool]

GUARDS: Final[dict[str, Guard]] = {
    guard.__name__: guard
    for guard in (
        barrier,
        queue_full,
        unread,
        unsaved,
        held,
        withdrawn,
        continues,
        settle_hook_due,
        goes_on,
        ends_at_once,
        input_open,
        closing,
        has_steering,
        has_follow_up,
        has_deliverable,
        unsettled,
        threshold_due,
        threshold_unchecked,
        can_retry,
        can_recover_overflow,
        overflow_again,
        session_ready,
        compact_ready,
        deferred_ready,
        has_deferred,
        instant_waits,
        last_shell,
        quiescent,
    )
}
