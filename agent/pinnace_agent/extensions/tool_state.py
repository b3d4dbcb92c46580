"""State of a tool that follows the branch: it lives in the details of the tool's results (2.4).

Read again whenever the session is at another place, so that going back in the tree brings back what was there. Made of
what every extension can use: `on`, and the session to read.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from pinnace_agent.extensions.result_shapes import is_object

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pinnace_agent.extensions.contexts import Context
    from pinnace_agent.extensions.subscribing import Subscribing

StateT = TypeVar("StateT", bound="BaseModel")


class ToolState(Generic[StateT]):
    """The state of one tool on the branch in force."""

    def __init__(self, tool: str, model: type[StateT], default: Callable[[], StateT] | None) -> None:
        """Begin with the default; without one, with the model's own."""
        self._tool = tool
        self._model = model
        self._default: Callable[[], StateT] = default or model
        self._value: StateT | None = None

    @property
    def value(self) -> StateT:
        """What the last result on the branch says, or was set since."""
        if self._value is None:
            self._value = self._default()
        return self._value

    @value.setter
    def value(self, value: StateT) -> None:
        self._value = value

    @property
    def details(self) -> dict[str, object]:
        """The value as the details of a result, which is where it is kept: return them with every result."""
        details: dict[str, object] = self.value.model_dump(mode="json")
        return details

    def read(self, ctx: "Context", _event: object = None) -> None:
        """Read the branch again; without a result on it, it is the default.

        Raises:
            pydantic.ValidationError: The details are not of the model; it is the default then.
        """
        self._value = None
        details = _last_details(ctx.session_manager.get_branch(), self._tool)
        if details is not None:
            self._value = self._model.model_validate(details)


def tool_state(
    pi: "Subscribing", tool: str, model: type[StateT], default: Callable[[], StateT] | None = None
) -> ToolState[StateT]:
    """Make the state of a tool, read again whenever the session begins or is at another place."""
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
        # A call that failed before the tool ran says nothing of its state.
        if details:
            return details
    return None
