"""The tool that has another agent do a task, with an empty context of its own, and returns its last answer.

Exists where a flag or a setting names it. Several calls of one answer run side by side. Has no knowledge of processes:
`core/ports/children.py` is what starts and ends them. Rules R-SUB-01 to R-SUB-05.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.core.json_access import as_array
from pinnace_agent.core.ports.children import ChildRefused, ChildReport, ChildRequest
from pinnace_agent.shell.truncation import MAX_BYTES, MAX_LINES, truncate_head
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, number_argument, text_argument, text_result
from pinnace_agent.tools.parameters import fields, items, number, text
from pinnace_agent.tools.validation import number_text

if TYPE_CHECKING:
    from pinnace_agent.core.ports.children import ChildAgents

PARAMETERS: Final = fields(
    {"task": text("Everything that the other agent has to know: it does not see this conversation")},
    {
        "model": text("Its model, as provider/id; by default this agent's"),
        "tools": items(text("The name of a tool"), "Its tools, some of this agent's; by default all of them"),
        "cwd": text("The folder that it works in, within the working folder; by default the working folder"),
        "maxTurns": number("The most answers that it may give; by default as many as this agent"),
        "timeout": number("Timeout in seconds; by default none"),
    },
)


class SubagentTool:
    """Have another agent do a task."""

    name: str = "subagent"
    label: str = "subagent"
    description: str = (
        "Have another agent do a task, and return its last answer. It begins with an empty context and knows only the "
        "task. It has no more rights than this agent. Several calls in one answer run side by side. Use it for work "
        "whose details are not needed here, such as a wide search."
    )
    snippet: str = "Have another agent do a task with an empty context"
    guidelines: tuple[str, ...] = ()
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False
    checks_itself = False

    def __init__(self, children: "ChildAgents") -> None:
        """Start agents by `children`."""
        self._children = children

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments unchanged."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Have an agent do the task, and return its answer. Cancelling ends the agent.

        Raises:
            ToolError: It could not be started.
        """
        timeout_s = number_argument(args, "timeout")
        if timeout_s is not None and timeout_s <= 0:
            raise ToolError("timeout: expected a number of seconds above 0")
        last: ChildReport | None = None

        def report(state: ChildReport) -> None:
            nonlocal last
            last = state
            if state.outcome is None:
                ctx.on_update(text_result("\n\n".join(filter(None, (state.text, state.activity))), state.details()))

        try:
            with trio.CancelScope() as limit:
                if timeout_s is not None:
                    ctx.time_limit.deadline = math.inf
                    limit.deadline = trio.current_time() + timeout_s
                return _result(await self._children.run(_request(args, ctx), report))
        except ChildRefused as error:
            raise ToolError(str(error)) from None
        finally:
            if last is not None and last.outcome == "cancelled":
                ctx.aborted_result = _result(last)
        late = f"it did not end within {number_text(timeout_s or 0)} seconds"
        if last is None:  # it had not begun
            raise ToolError(f"The agent did not complete its task: {late}")
        return _result(last._replace(error=late))


def _request(args: Mapping[str, object], ctx: ToolContext) -> ChildRequest:
    """Return what a call asks for.

    Raises:
        ToolError: An argument is invalid.
    """
    task = text_argument(args, "task")
    if not task.strip():
        raise ToolError("task: expected a text that is not empty")
    turns = number_argument(args, "maxTurns")
    if turns is not None and (turns < 1 or turns != int(turns)):
        raise ToolError("maxTurns: expected a whole number above 0")
    tools = args.get("tools")
    return ChildRequest(
        task,
        ctx.call_id,
        model=None if args.get("model") is None else text_argument(args, "model"),
        tools=None if tools is None else [str(each) for each in as_array(tools)],
        folder=None if args.get("cwd") is None else text_argument(args, "cwd"),
        max_turns=None if turns is None else int(turns),
    )


def _result(report: ChildReport) -> ToolResult:
    """Return the result of a call whose agent has ended."""
    shown = truncate_head(report.text)
    parts = [shown.content]
    if shown.truncated_by is not None:
        whole = "" if report.session_file is None else f" The whole answer is in {report.session_file}."
        parts.append(f"[The answer is longer than {MAX_LINES} lines or {MAX_BYTES // 1024}KB.{whole}]")
    if report.outcome != "completed":
        parts.append(f"The agent did not complete its task: {report.error or report.outcome}")
    elif not report.text:
        parts.append("(no answer)")
    text = "\n\n".join(filter(None, parts))
    return text_result(text, report.details(), is_error=report.outcome != "completed")
