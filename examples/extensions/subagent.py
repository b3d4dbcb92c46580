"""A tool that hands a task to another agent: a process of its own, with a context of its own.

    pinnace --mode rpc -e examples/extensions/subagent.py

The other agent is this program, spoken to by its own protocol. Several calls in one turn work side by side; an abort
ends them all, since leaving `async with` ends the process with everything that it has started.
"""

import sys
from typing import Annotated

from pinnace import Client
from pinnace.extensions import ExtensionAPI, ToolContext, ToolError, ToolResult

# Without extensions: a subagent that had this tool could go on for ever.
COMMAND = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--no-session", "--no-extensions"]


def extension(pi: ExtensionAPI) -> None:
    @pi.tool(label="Subagent", prompt_snippet="Hand a task to another agent with an empty context")
    async def subagent(
        ctx: ToolContext, task: Annotated[str, "Everything that the other agent has to know"]
    ) -> ToolResult:
        """Let another agent do a task, and return its answer. It knows nothing but the task."""
        model = ctx.model
        if model is None:
            raise ToolError("there is no model for a subagent")
        chosen = ["--provider", model["provider"], "--model", model["id"]]
        async with Client([*COMMAND, *chosen], cwd=ctx.cwd) as agent:
            said = ""
            async with agent.stream_text(task) as pieces:
                async for piece in pieces:
                    said += piece
                    # Everything so far, not the piece: an update replaces the one before. Awaiting it waits for a
                    # client that reads slowly.
                    await ctx.update(said)
            stats = await agent.get_session_stats()
            last = (await agent.get_last_assistant_text())["text"]
        tokens = stats["tokens"]
        return ToolResult(last or said, details={"task": task, "tokens": tokens, "cost": stats["cost"]})
