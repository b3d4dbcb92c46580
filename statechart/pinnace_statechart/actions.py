"""Actions by the names that the rows use.

Every public function of the action modules that takes nothing but the context is an action of its own name.
"""

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Final, cast

from pinnace_statechart import actions_extensions, actions_queue, actions_regions, actions_run
from pinnace_statechart.context import StepContext

Action = Callable[[StepContext], None]

_NOT_ACTIONS: Final = {"deliver", "is_settle_hook_due", "withdraw_reading"}  # their arguments are others


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
    **_public(actions_queue),
    **_public(actions_run),
    **_public(actions_regions),
    **_public(actions_extensions),
}
