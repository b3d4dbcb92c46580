"""Actions of session commands, shells, dialogs and the end of the process.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. Rules R-BSH, R-UI, R-EOF, C-10, C-16, C-17.
"""

from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import (
    Accept,
    AnswerShell,
    CancelAsk,
    KeepShell,
    RecordShell,
    Refuse,
    StartJob,
    StartShell,
)
from pinnace_statechart.triggers import Command, InternalEvent


def start_confirmation(context: StepContext) -> None:
    """Validate a session command and ask extensions; RUN goes on meanwhile (C-10)."""
    state = context.state
    state.confirming = context.command
    state.confirming_job = state.next_job()
    context.emit(StartJob("ask", state.confirming_job, context.command.ref))


def _asked(context: StepContext) -> Command:
    state = context.state
    assert state.confirming is not None
    command, state.confirming, state.confirming_job = state.confirming, None, 0
    return command


def confirm_switch(context: StepContext) -> None:
    """Stop RUN; the session is replaced when it is idle."""
    context.state.confirmed_switch = _asked(context)
    context.raised.append(InternalEvent("switch_confirmed"))


def veto_switch(context: StepContext) -> None:
    """Answer that an extension said no; nothing has changed."""
    context.emit(Accept(_asked(context).ref, cancelled=True))


def refuse_unconfirmed(context: StepContext) -> None:
    """Answer that the command is not valid; nothing has changed."""
    context.emit(Refuse(_asked(context).ref, "job", context.internal_event.text, context.internal_event.code))


def withdraw_confirmation(context: StepContext) -> None:
    """Stop asking: the command is answered as cancelled."""
    context.emit(CancelAsk(context.state.confirming_job))
    veto_switch(context)


def start_switch(context: StepContext) -> None:
    """Start to replace the session."""
    state = context.state
    assert state.confirmed_switch is not None
    state.switching_ref, state.confirmed_switch = state.confirmed_switch.ref, None
    state.job = state.next_job()
    context.emit(StartJob("switch", state.job, state.switching_ref))


def accept_session(context: StepContext) -> None:
    """Answer that the session was replaced, and what was withdrawn with the former one."""
    context.emit(Accept(_switched(context), cancelled=False, cleared=context.state.cleared))


def refuse_session(context: StepContext) -> None:
    """Answer that the session could not be replaced; the former one is in force."""
    context.emit(Refuse(_switched(context), "job", context.internal_event.text, context.internal_event.code))


def _switched(context: StepContext) -> int:
    ref, context.state.switching_ref = context.state.switching_ref, 0
    assert ref
    return ref


def start_shell(context: StepContext) -> None:
    """Start a shell command beside everything."""
    context.state.shells.append(context.command.ref)
    context.emit(StartShell(context.command.ref))


def end_shell(context: StepContext) -> None:
    """Answer a shell command."""
    ref = context.internal_event.ref
    context.state.shells.remove(ref)
    context.emit(AnswerShell(ref))


def keep_shell(context: StepContext) -> None:
    """Keep the record of a shell command for the end of what works: it must not come between a call and its result."""
    ref = context.internal_event.ref
    context.state.finished_shells.append(ref)
    context.emit(KeepShell(ref))


def flush_shells(context: StepContext) -> None:
    """Append the records that waited for the run to end."""
    for ref in context.state.finished_shells:
        context.emit(RecordShell(ref))
    context.state.finished_shells.clear()


def note_instance(context: StepContext) -> None:
    """Remember whether the session instance that begins has extensions."""
    context.state.has_extensions = context.internal_event.enabled
