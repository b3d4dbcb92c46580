"""What a row asks for, by the names that the rows use.

A name stands for an effect, where nothing is to be decided or remembered: as it is, with the number of the command or
of the job that the trigger is about, or with the number of the job behind RUN. Else it stands for an action: every
public function of the action modules that takes nothing but the context is an action of its own name.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import Final, cast

from pinnace_statechart import actions_extensions, actions_queue, actions_regions, actions_run
from pinnace_statechart import effects as fx
from pinnace_statechart.context import StepContext

Action = Callable[[StepContext], None]

_EFFECTS: Final[Mapping[str, fx.Effect]] = {
    "start_turn": fx.TurnStart(),
    "end_message": fx.EndMessage(),
    "fail_calls": fx.FailCalls(),
    "end_tools": fx.EndTools(),
    "end_turn": fx.TurnEnd(),
    "close_run": fx.CloseRun(),
    "leave_failed": fx.LeaveFailed(),
    "kill_shells": fx.KillShells(),
    "default_dialogs": fx.DefaultDialogs(),
    "close_dialogs": fx.DefaultDialogs(for_good=True),
    "cut_start": fx.CutStart(),
    "close": fx.Close(),
}
_OF_TRIGGER: Final[Mapping[str, Callable[[int], fx.Effect]]] = {
    "accept": fx.Accept,
    "accept_queued": partial(fx.Accept, disposition="queued"),
    "perform": fx.Perform,
    "refuse_busy": partial(fx.Refuse, reason="busy"),
    "refuse_full": partial(fx.Refuse, reason="queue_full"),
    "refuse_compacting": partial(fx.Refuse, reason="compacting"),
    "refuse_compaction_in_progress": partial(fx.Refuse, reason="compaction_in_progress"),
    "refuse_navigation_busy": partial(fx.Refuse, reason="navigation_busy"),
    "refuse_navigation_compacting": partial(fx.Refuse, reason="navigation_compacting"),
    "refuse_reload_busy": partial(fx.Refuse, reason="reload_busy"),
    "refuse_reload_compacting": partial(fx.Refuse, reason="reload_compacting"),
    "record_shell": fx.RecordShell,
    "resolve_dialog": fx.ResolveDialog,
    "resolve_request": fx.ResolveRequest,
}
_OF_JOB: Final[Mapping[str, Callable[[int], fx.Effect]]] = {
    "call_model": fx.CallModel,
    "call_tools": fx.CallTools,
    "move_leaf": fx.MoveLeaf,
}
_NOT_ACTIONS: Final = {"deliver", "is_settle_hook_due", "withdraw_reading"}  # their arguments are others


def _emit(effect: fx.Effect, context: StepContext) -> None:
    context.effects.append(effect)


def _emit_of_trigger(make: Callable[[int], fx.Effect], context: StepContext) -> None:
    context.effects.append(make(context.trigger.ref))


def _emit_of_job(make: Callable[[int], fx.Effect], context: StepContext) -> None:
    context.effects.append(make(context.state.job))


def _public(module: ModuleType) -> dict[str, Action]:
    """Return the module's own public functions: what it only imports belongs to others."""
    return {
        name: cast(Action, value)  # a test calls every one of them through the rows
        for name, value in vars(module).items()
        if isinstance(value, FunctionType)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and name not in _NOT_ACTIONS
    }


ACTIONS: Final[dict[str, Action]] = {
    **{name: partial(_emit, effect) for name, effect in _EFFECTS.items()},
    **{name: partial(_emit_of_trigger, make) for name, make in _OF_TRIGGER.items()},
    **{name: partial(_emit_of_job, make) for name, make in _OF_JOB.items()},
    **_public(actions_queue),
    **_public(actions_run),
    **_public(actions_regions),
    **_public(actions_extensions),
}
