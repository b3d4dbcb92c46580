"""Actions of what extensions read, run and decide.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. Rules R-EXT.
"""

from typing import Literal

from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import Accept, CancelAsk, CancelCommands, Refuse, StartCommand, StartJob
from pinnace_statechart.state import ExtendedState, RetryPolicy
from pinnace_statechart.triggers import Command


def start_reading(context: StepContext) -> None:
    """Let extensions read a text before it is queued."""
    state = context.state
    state.reading = context.command
    state.reading_job = state.next_job()
    context.emit(StartJob("read", state.reading_job, context.command.ref))


def _read(state: ExtendedState) -> Command:
    assert state.reading is not None
    command, state.reading, state.reading_job = state.reading, None, 0
    return command


def admit_read(context: StepContext) -> None:
    """Admit a text as extensions have left it."""
    context.raised.append(_as_left(context))


def defer_first(context: StepContext) -> None:
    """Let a text, as extensions have left it, wait before the commands that have come after it."""
    context.state.deferred_commands.appendleft(_as_left(context))


def _as_left(context: StepContext) -> Command:
    command = _read(context.state)
    assert context.internal_event.content is not None
    text, blocks = context.internal_event.content
    return command._replace(text=text, blocks=blocks, unread=False)


def accept_handled(context: StepContext) -> None:
    """Answer a text that an extension has dealt with."""
    context.emit(Accept(_read(context.state).ref, disposition="handled"))


def refuse_reading(context: StepContext) -> None:
    """Refuse a text that could not be read."""
    context.emit(Refuse(_read(context.state).ref, "job", context.internal_event.text, context.internal_event.code))


def withdraw_reading(context: StepContext, reason: Literal["aborted", "shutdown"]) -> None:
    """Stop reading a text, and refuse it."""
    state = context.state
    if state.reading is not None:
        context.emit(CancelAsk(state.reading_job))
        context.emit(Refuse(_read(state).ref, reason))


def replace_prompt(context: StepContext) -> None:
    """Take what extensions have made of the prompt in preflight."""
    state = context.state
    assert state.pending_prompt is not None
    assert context.internal_event.content is not None
    text, blocks = context.internal_event.content
    state.pending_prompt = state.pending_prompt._replace(text=text, blocks=blocks, unread=False)


def start_command(context: StepContext) -> None:
    """Start the command of an extension that a prompt calls, beside everything."""
    context.state.running_extension_commands.append(context.command.ref)
    context.emit(StartCommand(context.command.ref))


def accept_command(context: StepContext) -> None:
    """Answer the prompt that called a command, which has ended."""
    context.state.running_extension_commands.remove(context.internal_event.ref)
    context.emit(Accept(context.internal_event.ref, disposition="handled"))


def refuse_command(context: StepContext) -> None:
    """Refuse the prompt that called a command, which has ended because the process ends."""
    context.state.running_extension_commands.remove(context.internal_event.ref)
    context.emit(Refuse(context.internal_event.ref, "shutdown"))


def cancel_commands(context: StepContext) -> None:
    """End the commands of extensions; each still answers when it has ended.

    They run beside every state of RUN, so no state says whether there are any: the action asks.
    """
    if context.state.running_extension_commands:
        context.emit(CancelCommands())


def reread_deferred(context: StepContext) -> None:
    """Take the texts that wait as they are understood by the extensions that are there now."""
    anew = {command.ref: command for command in context.internal_event.texts}
    line = context.state.deferred_commands
    kept = [anew.get(command.ref, command) for command in line]
    line.clear()
    line.extend(kept)


def start_instance(context: StepContext) -> None:
    """Let the extensions of the session in force be loaded and begin."""
    state = context.state
    state.job = state.next_job()
    context.emit(StartJob("instance", state.job))


def take_reload(context: StepContext) -> None:
    """Remember whom to answer when the user's files were read."""
    context.state.reload_ref = context.command.ref


def start_reload(context: StepContext) -> None:
    """Start to read the user's files again, and to replace the extensions."""
    state = context.state
    state.job = state.next_job()
    context.emit(StartJob("reload", state.job, state.reload_ref))


def take_settings(context: StepContext) -> None:
    """Use the delays of retries that the settings name now; whether to retry at all is the client's choice."""
    state, retry = context.state, context.internal_event.retry
    if retry is not None:
        state.retry = RetryPolicy(state.retry.enabled, *retry)


def accept_reload(context: StepContext) -> None:
    """Answer that what was read is current."""
    context.emit(Accept(_reloading(context.state)))


def refuse_reload(context: StepContext) -> None:
    """Answer why nothing was reloaded."""
    event = context.internal_event
    context.emit(Refuse(_reloading(context.state), "job", event.text, event.code))


def _reloading(state: ExtendedState) -> int:
    ref, state.reload_ref = state.reload_ref, 0
    assert ref
    return ref


def is_settle_hook_due(state: ExtendedState) -> bool:
    """Return whether extensions are to be asked before the agent settles; what was cut short is not up to them."""
    return state.settle_hook_due and state.streaming and not state.is_owed and not state.cancelled


def start_settle_hook(context: StepContext) -> None:
    """Ask extensions whether the agent may settle."""
    state = context.state
    state.job = state.next_job()
    context.emit(StartJob("settle_hook", state.job))


def skip_settle_hook(context: StepContext) -> None:
    """Let the agent settle: extensions were asked, or have no say."""
    context.state.settle_hook_due = False
