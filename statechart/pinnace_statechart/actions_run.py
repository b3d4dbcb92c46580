"""Actions of a run, its retries and its compactions.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. It must not look at the configuration to decide what a row already decided. Rules R-RUN,
R-RTY, R-CMP, C-13 to C-15.
"""

from pinnace_spec import errors
from pinnace_statechart.actions_queue import deliver
from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import (
    AcceptCompact,
    AgentEnd,
    AgentStart,
    AppendOwn,
    CallModel,
    CallTools,
    CancelJob,
    CancelTimer,
    CloseRun,
    CompactionEnd,
    CompactionReason,
    CompactionStart,
    DropOwn,
    EndMessage,
    EndTools,
    FailCalls,
    LeaveFailed,
    Refuse,
    RetryEnd,
    RetryStart,
    StartJob,
    StartTimer,
    TurnEnd,
    TurnStart,
)
from pinnace_statechart.retry import delay_s


def start_preflight(context: StepContext) -> None:
    """Start to check the prompt that waits."""
    state = context.state
    assert state.own is not None
    state.job = state.next_job()
    context.emit(StartJob("preflight", state.job, state.own.ref, check_threshold=not state.threshold_checked))


def append_own(context: StepContext) -> None:
    """Append the text of the prompt that passed preflight."""
    state = context.state
    assert state.own is not None
    state.own_appended = True
    context.emit(AppendOwn(state.own))


def start_sync(context: StepContext) -> None:
    """Start to wait until what was appended can't be lost any more."""
    state = context.state
    assert state.own is not None
    state.job = state.next_job()
    context.emit(StartJob("sync", state.job, state.own.ref))


def drop_own(context: StepContext) -> None:
    """Take the text of a prompt that is refused out of the branch, if it is there."""
    state = context.state
    if state.own_appended:
        assert state.own is not None
        state.own_appended = False
        context.emit(DropOwn(state.own.ref))


def start_run(context: StepContext) -> None:
    """Open a run and start its job."""
    state = context.state
    state.job = state.next_job()
    state.run_open = True
    state.cancelled, state.limit = False, None
    state.boundary_due = state.has_extensions
    context.emit(AgentStart(), StartJob("run", state.job))


def start_turn(context: StepContext) -> None:
    """Open a turn."""
    context.emit(TurnStart())


def deliver_own(context: StepContext) -> None:
    """Deliver the prompt that preflight accepted."""
    state = context.state
    assert state.own is not None
    own, state.own = state.own, None
    state.own_appended = False
    deliver(context, own, is_appended=True)


def call_model(context: StepContext) -> None:
    """Let the run's job send a request."""
    context.emit(CallModel(context.state.job))


def call_tools(context: StepContext) -> None:
    """Let the run's job execute the calls of its last message."""
    context.emit(CallTools(context.state.job))


def end_message(context: StepContext) -> None:
    """End the assistant's message."""
    context.emit(EndMessage())


def fail_calls(context: StepContext) -> None:
    """Answer calls that were cut at the token limit without executing them."""
    context.emit(FailCalls())


def end_tools(context: StepContext) -> None:
    """Append the tool results."""
    context.emit(EndTools())


def end_turn(context: StepContext) -> None:
    """Close the turn."""
    context.emit(TurnEnd())


def end_run(context: StepContext) -> None:
    """Close the run; nothing retries it."""
    _close(context, will_retry=False)


def end_run_retrying(context: StepContext) -> None:
    """Close the run and say that it will be tried again."""
    _close(context, will_retry=True)


def _close(context: StepContext, *, will_retry: bool) -> None:
    context.state.run_open = False
    context.state.job = 0
    context.emit(AgentEnd(will_retry))


def close_run(context: StepContext) -> None:
    """Close what a cancelled run has left open."""
    if context.state.run_open:
        context.state.run_open = False
        context.emit(CloseRun())


def fail_run(context: StepContext) -> None:
    """Close what a defect in the run's job has left open."""
    context.state.run_open = False
    context.emit(CloseRun(context.happening.text))


def end_job(context: StepContext) -> None:
    """Forget the job; counters belong to one run of work (C-14)."""
    state = context.state
    state.job = 0
    state.threshold_checked = False
    reset_counters(context)


def reset_counters(context: StepContext) -> None:
    """Give the next failure its whole budget again (C-14)."""
    context.state.attempt = 0
    context.state.overflow_tried = False


def cancel_job(context: StepContext) -> None:
    """Cancel RUN's job; its end is a trigger of its own."""
    context.state.cancelled = True
    context.emit(CancelJob(context.state.job))


def note_cancel(context: StepContext) -> None:
    """Remember that what worked was cut short."""
    context.state.cancelled = True


def leave_failed(context: StepContext) -> None:
    """Take the failed message out of the context."""
    context.emit(LeaveFailed())


def start_retry(context: StepContext) -> None:
    """Announce the next attempt and start its delay."""
    state = context.state
    state.attempt += 1
    state.retry_open = state.attempt
    state.job = state.next_job()
    delay = delay_s(state.retry, state.attempt, context.happening.retry_after_s)
    context.emit(RetryStart(state.attempt, state.retry.max_attempts, delay), StartTimer(state.job, delay))


def cancel_timer(context: StepContext) -> None:
    """End the retry delay at once."""
    context.emit(CancelTimer(context.state.job))
    context.state.job = 0


def retry_ok(context: StepContext) -> None:
    """Close an open retry bracket: the attempt worked."""
    _end_retry(context, success=True, cancelled=False)


def retry_failed(context: StepContext) -> None:
    """Close an open retry bracket: the last error is final."""
    _end_retry(context, success=False, cancelled=False)


def retry_cancelled(context: StepContext) -> None:
    """Close an open retry bracket: it was cut short."""
    _end_retry(context, success=False, cancelled=True)


def _end_retry(context: StepContext, *, success: bool, cancelled: bool) -> None:
    if attempt := context.state.retry_open:
        context.state.retry_open = 0
        context.emit(RetryEnd(success, attempt, cancelled))


def check_threshold(context: StepContext) -> None:
    """Remember that this preflight has compacted: afterwards the prompt is sent in any case (C-14)."""
    context.state.threshold_checked = True


def compaction_manual(context: StepContext) -> None:
    """Start the compaction that a client asked for."""
    _start_compaction(context, "manual")


def compaction_threshold(context: StepContext) -> None:
    """Start to compact because the context is nearly full."""
    _start_compaction(context, "threshold")


def compaction_overflow(context: StepContext) -> None:
    """Start to compact because the provider refused the context, once."""
    context.state.attempt = 0
    context.state.overflow_tried = True
    _start_compaction(context, "overflow")


def _start_compaction(context: StepContext, reason: CompactionReason) -> None:
    state = context.state
    state.job = state.next_job()
    state.compaction = reason
    context.emit(CompactionStart(reason), StartJob("compaction", state.job, state.compact_ref, reason=reason))


def compaction_given_up(context: StepContext) -> None:
    """Tell that compacting once has not helped; both records, so that brackets nest (C-14)."""
    context.emit(CompactionStart("overflow"), CompactionEnd("overflow", "failed", text=errors.OVERFLOW_AGAIN))


def compaction_done(context: StepContext) -> None:
    """Close the compaction bracket with its result."""
    state = context.state
    if state.compaction:
        reason, state.compaction = state.compaction, None
        will_retry = reason == "overflow" and context.configuration["run"] != "aborting"
        context.emit(CompactionEnd(reason, "ok", will_retry))


def compaction_fail(context: StepContext) -> None:
    """Close the compaction bracket with the job's error."""
    state = context.state
    if state.compaction:
        reason, state.compaction = state.compaction, None
        context.emit(CompactionEnd(reason, "failed", text=errors.compaction_failed(reason, context.happening.text)))


def close_compaction(context: StepContext) -> None:
    """Close the bracket of a cancelled compaction."""
    state = context.state
    if state.compaction:
        reason, state.compaction = state.compaction, None
        context.emit(CompactionEnd(reason, "aborted"))


def take_compact(context: StepContext) -> None:
    """Remember whom to answer when the compaction ends."""
    context.state.compact_ref = context.command.ref


def pend_compact(context: StepContext) -> None:
    """Let a compact wait for RUN to end; it is a barrier until then."""
    context.state.pending_compact = context.command


def take_pending_compact(context: StepContext) -> None:
    """Take the compact that waited."""
    state = context.state
    assert state.pending_compact is not None
    state.compact_ref, state.pending_compact = state.pending_compact.ref, None


def accept_compact(context: StepContext) -> None:
    """Answer the compact, if a client asked for this compaction."""
    if ref := context.state.compact_ref:
        context.state.compact_ref = 0
        context.emit(AcceptCompact(ref))


def refuse_compact(context: StepContext) -> None:
    """Answer the compact with its error, if a client asked for this compaction."""
    if ref := context.state.compact_ref:
        context.state.compact_ref = 0
        if context.configuration["run"] != "aborting":
            context.emit(Refuse(ref, "job", context.happening.text, context.happening.code))
        elif context.configuration["io"] == "open":
            context.emit(Refuse(ref, "compaction_cancelled"))
        else:
            context.emit(Refuse(ref, "shutdown"))


def refuse_compaction_in_progress(context: StepContext) -> None:
    """Refuse a second compact."""
    context.emit(Refuse(context.command.ref, "compaction_in_progress"))
