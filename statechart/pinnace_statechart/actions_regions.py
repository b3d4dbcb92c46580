"""Actions of session commands, shells, dialogs and the end of the process.

An action is a small function of the step's context: it may change the extended state and ask for effects, in the order
in which they are written. Rules R-BSH, R-UI, R-EOF, C-10, C-16, C-17.
"""

from pinnace_statechart.actions_queue import withdraw_queues
from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import (
    Accept,
    AnswerShell,
    CancelAsk,
    Close,
    DefaultDialogs,
    KeepShell,
    KillShells,
    RecordShell,
    Refuse,
    ResolveDialog,
    StartJob,
    StartShell,
)
from pinnace_statechart.triggers import Command, Happening


def start_ask(context: StepContext) -> None:
    """Validate a session command and ask extensions; RUN goes on meanwhile (C-10)."""
    state = context.state
    state.asking = context.command
    state.asking_job = state.next_job()
    context.emit(StartJob("ask", state.asking_job, context.command.ref))


def _asked(context: StepContext) -> Command:
    state = context.state
    assert state.asking is not None
    command, state.asking, state.asking_job = state.asking, None, 0
    return command


def approve_session(context: StepContext) -> None:
    """Stop RUN; the session is replaced when it is idle."""
    context.state.approved = _asked(context)
    context.raised.append(Happening("session_approved"))


def veto_session(context: StepContext) -> None:
    """Answer that an extension said no; nothing has changed."""
    context.emit(Accept(_asked(context).ref, cancelled=True))


def refuse_asked(context: StepContext) -> None:
    """Answer that the command is not valid; nothing has changed."""
    context.emit(Refuse(_asked(context).ref, "job", context.happening.text, context.happening.code))


def withdraw_asking(context: StepContext) -> None:
    """Stop asking: the command is answered as cancelled."""
    context.emit(CancelAsk(context.state.asking_job))
    veto_session(context)


def start_switch(context: StepContext) -> None:
    """Start to replace the session."""
    state = context.state
    assert state.approved is not None
    state.job = state.next_job()
    context.emit(StartJob("switch", state.job, state.approved.ref))


def replace_session(context: StepContext) -> None:
    """Withdraw what was queued for the former session."""
    context.state.held = False
    withdraw_queues(context)


def accept_session(context: StepContext) -> None:
    """Answer that the session was replaced, and what was withdrawn with the former one."""
    state = context.state
    assert state.approved is not None
    context.emit(Accept(state.approved.ref, cancelled=False, cleared=state.cleared))
    state.approved = None


def refuse_session(context: StepContext) -> None:
    """Answer that the session could not be replaced; the former one is in force."""
    state = context.state
    assert state.approved is not None
    context.emit(Refuse(state.approved.ref, "job", context.happening.text, context.happening.code))
    state.approved = None


def start_shell(context: StepContext) -> None:
    """Start a shell command beside everything."""
    context.state.shells.append(context.command.ref)
    context.emit(StartShell(context.command.ref))


def kill_shells(context: StepContext) -> None:
    """Kill all running shell commands of the client, and only them."""
    context.emit(KillShells())


def end_shell(context: StepContext) -> None:
    """Answer a shell command; its record must not come between a tool call and its result."""
    state = context.state
    ref = context.happening.ref
    state.shells.remove(ref)
    context.emit(AnswerShell(ref))
    if context.configuration["run"] in {"idle", "compacting.manual"}:
        context.emit(RecordShell(ref))
    else:
        state.finished_shells.append(ref)
        context.emit(KeepShell(ref))


def flush_shells(context: StepContext) -> None:
    """Append the records that waited for the run to end."""
    for ref in context.state.finished_shells:
        context.emit(RecordShell(ref))
    context.state.finished_shells.clear()


def note_instance(context: StepContext) -> None:
    """Remember whether the session instance that begins has extensions."""
    context.state.has_extensions = context.happening.enabled


def default_dialogs(context: StepContext) -> None:
    """Resolve open dialogs with their defaults: what they belong to is being ended."""
    context.emit(DefaultDialogs())


def close_dialogs(context: StepContext) -> None:
    """Resolve open dialogs with their defaults, and those that will come."""
    context.emit(DefaultDialogs(for_good=True))


def resolve_dialog(context: StepContext) -> None:
    """Hand an answer to its dialog."""
    context.emit(ResolveDialog(context.command.ref))


def close(context: StepContext) -> None:
    """Leave."""
    context.emit(Close())
