"""Actions of a run, its retries and its compactions, and of moves in the session.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. Whether it applies is the row's to say; one that looks for itself says why. Rules R-RUN,
R-RTY, R-CMP, R-SES-13, C-13 to C-15.
"""

from pinnace_spec.rules import errors
from pinnace_statechart.actions_queue import deliver
from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import (
    AcceptCompact,
    AgentEnd,
    AgentStart,
    AnswerNavigation,
    AppendPrompt,
    CancelJob,
    CancelTimer,
    CloseRun,
    CompactionEnd,
    CompactionReason,
    CompactionStart,
    DropPrompt,
    Refuse,
    RetryEnd,
    RetryStart,
    StartJob,
    StartTimer,
)
from pinnace_statechart.retry import delay_s


def start_preflight(context: StepContext) -> None:
    """Start to check the prompt that waits."""
    state = context.state
    assert state.pending_prompt is not None
    state.job = state.next_job()
    prompt, is_checked = state.pending_prompt, state.threshold_checked
    context.emit(StartJob("preflight", state.job, prompt.ref, check_threshold=not is_checked))


def append_prompt(context: StepContext) -> None:
    """Append the text of the prompt that passed preflight."""
    assert context.state.pending_prompt is not None
    context.emit(AppendPrompt(context.state.pending_prompt))


def start_sync(context: StepContext) -> None:
    """Start to wait until what was appended can't be lost any more."""
    state = context.state
    assert state.pending_prompt is not None
    state.job = state.next_job()
    context.emit(StartJob("sync", state.job, state.pending_prompt.ref))


def drop_prompt(context: StepContext) -> None:
    """Take the text of a prompt that is refused out of the branch."""
    assert context.state.pending_prompt is not None
    context.emit(DropPrompt(context.state.pending_prompt.ref))


def start_run(context: StepContext) -> None:
    """Open a run and start its job."""
    state = context.state
    state.job = state.next_job()
    state.cancelled, state.limit = False, None
    state.settle_hook_due = state.has_extensions
    context.emit(AgentStart(), StartJob("run", state.job))


def deliver_prompt(context: StepContext) -> None:
    """Deliver the prompt that preflight accepted."""
    state = context.state
    assert state.pending_prompt is not None
    own, state.pending_prompt = state.pending_prompt, None
    deliver(context, own, is_appended=True)


def end_run(context: StepContext) -> None:
    """Close the run; nothing retries it."""
    _close(context, will_retry=False)


def end_run_retrying(context: StepContext) -> None:
    """Close the run and say that it will be tried again."""
    _close(context, will_retry=True)


def _close(context: StepContext, *, will_retry: bool) -> None:
    context.state.job = 0
    context.emit(AgentEnd(will_retry))


def fail_run(context: StepContext) -> None:
    """Close what a defect in the run's job has left open."""
    context.emit(CloseRun(context.internal_event.text))


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


def start_retry(context: StepContext) -> None:
    """Announce the next attempt and start its delay."""
    state = context.state
    state.attempt += 1
    state.retry_open = state.attempt
    state.job = state.next_job()
    delay = delay_s(state.retry, state.attempt, context.internal_event.retry_after_s)
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
    # It looks for itself: a run is the first attempt or a further one in every state, and its records are the same.
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
    """Report that compacting once has not helped; both records, so that brackets nest (C-14)."""
    context.emit(CompactionStart("overflow"), CompactionEnd("overflow", "failed", text=errors.OVERFLOW_AGAIN))


def compaction_done(context: StepContext) -> None:
    """Close the compaction bracket with its result."""
    context.emit(CompactionEnd(_compacted(context), "ok"))


def compaction_done_retrying(context: StepContext) -> None:
    """Close the compaction bracket with its result; the request that was refused is sent again."""
    context.emit(CompactionEnd(_compacted(context), "ok", will_retry=True))


def compaction_fail(context: StepContext) -> None:
    """Close the compaction bracket with the job's error."""
    reason = _compacted(context)
    text = errors.compaction_failed(reason, context.internal_event.text)
    context.emit(CompactionEnd(reason, "failed", text=text))


def close_compaction(context: StepContext) -> None:
    """Close the bracket of a cancelled compaction."""
    context.emit(CompactionEnd(_compacted(context), "aborted"))


def _compacted(context: StepContext) -> CompactionReason:
    state = context.state
    assert state.compaction is not None
    reason, state.compaction = state.compaction, None
    return reason


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
    """Answer the compact that asked for this compaction."""
    context.emit(AcceptCompact(_asked(context)))


def refuse_compact(context: StepContext) -> None:
    """Answer the compact that asked for this compaction with the job's error."""
    context.emit(Refuse(_asked(context), "job", context.internal_event.text, context.internal_event.code))


def refuse_compact_aborted(context: StepContext) -> None:
    """Answer the compact that asked for this compaction: it was aborted."""
    context.emit(Refuse(_asked(context), "compaction_cancelled"))


def refuse_compact_shutdown(context: StepContext) -> None:
    """Answer the compact that asked for this compaction: the process ends."""
    context.emit(Refuse(_asked(context), "shutdown"))


def _asked(context: StepContext) -> int:
    ref, context.state.compact_ref = context.state.compact_ref, 0
    assert ref
    return ref


def take_navigation(context: StepContext) -> None:
    """Remember whom to answer when the session has moved."""
    context.state.navigation_ref = context.command.ref


def start_navigation(context: StepContext) -> None:
    """Start to move the session to another entry."""
    state = context.state
    state.job = state.next_job()
    context.emit(StartJob("navigation", state.job, state.navigation_ref))


def answer_navigation(context: StepContext) -> None:
    """Answer with what has become of the move."""
    context.emit(AnswerNavigation(_navigating(context)))


def refuse_navigation(context: StepContext) -> None:
    """Refuse a move that its job could not make."""
    context.emit(Refuse(_navigating(context), "job", context.internal_event.text, context.internal_event.code))


def _navigating(context: StepContext) -> int:
    ref, context.state.navigation_ref = context.state.navigation_ref, 0
    assert ref
    return ref
