"""Actions of what extensions read, run and decide.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. Rules R-EXT.
"""

from typing import Literal

from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import Accept, CancelAsk, CancelCommands, CutStart, Refuse, StartCommand, StartJob
from pinnace_statechart.state import ExtendedState
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


def lead_line(context: StepContext) -> None:
    """Let a text, as extensions have left it, wait before the commands that have come after it."""
    context.state.line.appendleft(_as_left(context))


def _as_left(context: StepContext) -> Command:
    command = _read(context.state)
    assert context.happening.content is not None
    text, images = context.happening.content
    return command._replace(text=text, images=images, unread=False)


def accept_handled(context: StepContext) -> None:
    """Answer a text that an extension has dealt with."""
    context.emit(Accept(_read(context.state).ref, disposition="handled"))


def refuse_reading(context: StepContext) -> None:
    """Refuse a text that could not be read."""
    context.emit(Refuse(_read(context.state).ref, "job", context.happening.text, context.happening.code))


def withdraw_reading(context: StepContext, reason: Literal["aborted", "shutdown"]) -> None:
    """Stop reading a text, and refuse it."""
    state = context.state
    if state.reading is not None:
        context.emit(CancelAsk(state.reading_job))
        context.emit(Refuse(_read(state).ref, reason))


def replace_own(context: StepContext) -> None:
    """Take what extensions have made of the prompt in preflight."""
    state = context.state
    assert state.own is not None
    assert context.happening.content is not None
    text, images = context.happening.content
    state.own = state.own._replace(text=text, images=images, unread=False)


def start_command(context: StepContext) -> None:
    """Start the command of an extension that a prompt calls, beside everything."""
    context.state.commands.append(context.command.ref)
    context.emit(StartCommand(context.command.ref))


def end_command(context: StepContext) -> None:
    """Answer the prompt that called a command."""
    ref = context.happening.ref
    context.state.commands.remove(ref)
    if context.configuration["io"] == "closing":
        context.emit(Refuse(ref, "shutdown"))
    else:
        context.emit(Accept(ref, disposition="handled"))


def cancel_commands(context: StepContext) -> None:
    """End the commands of extensions; each still answers when it has."""
    if context.state.commands:
        context.emit(CancelCommands())


def reread_line(context: StepContext) -> None:
    """Take the texts that wait as they are understood by the extensions that are there now."""
    anew = {command.ref: command for command in context.happening.texts}
    line = context.state.line
    kept = [anew.get(command.ref, command) for command in line]
    line.clear()
    line.extend(kept)


def start_instance(context: StepContext) -> None:
    """Let the extensions of the session in force be loaded and begin."""
    state = context.state
    state.job = state.next_job()
    context.emit(StartJob("instance", state.job))


def is_boundary_due(state: ExtendedState) -> bool:
    """Tell whether extensions are to be asked before the period ends; what was cut short is not up to them."""
    return state.boundary_due and state.period and not state.owed and not state.cancelled


def cut_start(context: StepContext) -> None:
    """End the handlers that let the session begin: everything waits for them."""
    context.emit(CutStart())


def start_boundary(context: StepContext) -> None:
    """Ask extensions whether the agent may settle."""
    state = context.state
    state.job = state.next_job()
    context.emit(StartJob("boundary", state.job))


def skip_boundary(context: StepContext) -> None:
    """Let the agent settle: extensions were asked, or have no say."""
    context.state.boundary_due = False
