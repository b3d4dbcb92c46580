"""A to-do list that the model keeps, and that follows the conversation.

    pinnace --mode rpc -e examples/extensions/todo.py

The state is stored in the `details` of the tool's results, in the session's branch: going back in the tree restores the
older list, and a reload or a restart keeps it. `pi.tool_state` reads it again whenever the session moves.
"""

from typing import Annotated, Literal

from pydantic import BaseModel

from pinnace.extensions import CommandContext, ExtensionAPI, ToolContext, ToolError, ToolResult


class Todo(BaseModel):
    """One item."""

    id: int
    text: str
    done: bool = False


class Todos(BaseModel):
    """The list, as a model, because `details` must be JSON."""

    items: list[Todo] = []

    def text(self) -> str:
        """Return the list as text."""
        lines = [f"[{'x' if each.done else ' '}] #{each.id} {each.text}" for each in self.items]
        return "\n".join(lines) or "Nothing to do."


def extension(pi: ExtensionAPI) -> None:
    state = pi.tool_state("todo", Todos)

    # Sequential: two calls in one turn must not both start from the same list.
    @pi.tool(
        label="Todo",
        prompt_snippet="Keep a list of things to do",
        prompt_guidelines=["Use todo for work of more than two steps, and toggle each item when it is done."],
        sequential=True,
    )
    def todo(
        ctx: ToolContext,
        action: Literal["list", "add", "toggle", "clear"],
        text: Annotated[str | None, "What is to be done, for add"] = None,
        id: Annotated[int | None, "Which item, for toggle"] = None,
    ) -> ToolResult:
        """Keep a list of things to do: list, add, toggle or clear them."""
        todos = state.value.model_copy(deep=True)  # the old list belongs to the former result
        if action == "add":
            if not text:
                raise ToolError("add needs a text")  # the model reads this and retries
            todos.items.append(Todo(id=len(todos.items) + 1, text=text))
        elif action == "toggle":
            item = next((each for each in todos.items if each.id == id), None)
            if item is None:
                raise ToolError(f"there is no item #{id}")
            item.done = not item.done
        elif action == "clear":
            todos.items.clear()
        state.value = todos
        return ToolResult(todos.text(), details=state.details)

    @pi.command("todos", description="Show the list of things to do")
    def show(ctx: CommandContext, args: str) -> None:
        ctx.ui.notify(state.value.text())
