"""State of a tool that follows the branch: it is stored in the details of the tool's results.

Read again whenever the session moves to another entry, so that going back in the tree restores the former state.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from pinnace_agent.core.json_values import is_object

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pinnace_agent.extensions.api.contexts import Context
    from pinnace_agent.extensions.api.subscribing import Subscribing

StateT = TypeVar("StateT", bound="BaseModel")


class ToolState(Generic[StateT]):
    """The state of one tool on the current branch."""

    def __init__(self, tool: str, model: type[StateT], default: Callable[[], StateT] | None) -> None:
        """Start with the default; without one, with the model's own defaults."""
        self._tool = tool
        self._model = model
        self._default: Callable[[], StateT] = default or model
        self._value: StateT | None = None

    @property
    def value(self) -> StateT:
        """The state in the last result on the branch, or the value set since."""
        if self._value is None:
            self._value = self._default()
        return self._value

    @value.setter
    def value(self, value: StateT) -> None:
        self._value = value

    @property
    def details(self) -> dict[str, object]:
        """The value as the details of a result: return them with every result, because they store the state."""
        details: dict[str, object] = self.value.model_dump(mode="json")
        return details

    def read(self, ctx: "Context", _event: object = None) -> None:
        """Read the branch again; without a result on it, use the default.

        Raises:
            pydantic.ValidationError: The details don't fit the model; the default is used.
        """
        self._value = None
        details = _last_details(ctx.session_manager.get_branch(), self._tool)
        if details is not None:
            self._value = self._model.model_validate(details)


def tool_state(
    pi: "Subscribing", tool: str, model: type[StateT], default: Callable[[], StateT] | None = None
) -> ToolState[StateT]:
    """Create the state of a tool, read again when the session starts or moves to another entry."""
    state = ToolState(tool, model, default)
    pi.on("session_start", state.read)
    pi.on("session_tree", state.read)
    return state


def _last_details(branch: Sequence[object], tool: str) -> object:
    for entry in reversed(branch):
        message = entry.get("message") if is_object(entry) else None
        if not is_object(message) or message.get("role") != "toolResult" or message.get("toolName") != tool:
            continue
        details = message.get("details")
        # A call that failed before the tool ran has no state.
        if details:
            return details
    return None
