"""A tool that gives a task to another agent, in its own process with its own context.

    pinnace --mode rpc -e examples/extensions/subagent.py

The other agent is this program, used through its RPC protocol. Several calls in one turn run in parallel; an abort ends
them all, because leaving `async with` ends the process and its children.
"""

import sys
from typing import Annotated

from pinnace import Client
from pinnace.extensions import ExtensionAPI, ToolContext, ToolError, ToolResult

# Without extensions: a subagent with this tool could start subagents without end.
COMMAND = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--no-session", "--no-extensions"]


def extension(pi: ExtensionAPI) -> None:
    @pi.tool(label="Subagent", prompt_snippet="Hand a task to another agent with an empty context")
    async def subagent(
        ctx: ToolContext, task: Annotated[str, "Everything that the other agent has to know"]
    ) -> ToolResult:
        """Let another agent do a task, and return its answer. It receives the task only."""
        model = ctx.model
        if model is None:
            raise ToolError("there is no model for a subagent")
        chosen = ["--provider", model["provider"], "--model", model["id"]]
        async with Client([*COMMAND, *chosen], cwd=ctx.cwd) as agent:
            text = ""
            async with agent.stream_text(task) as pieces:
                async for piece in pieces:
                    text += piece
                    # The whole text so far: an update replaces the previous one. Awaiting it waits for a client that
                    # reads slowly.
                    await ctx.update(text)
            stats = await agent.get_session_stats()
            last = (await agent.get_last_assistant_text())["text"]
        tokens = stats["tokens"]
        return ToolResult(last or text, details={"task": task, "tokens": tokens, "cost": stats["cost"]})
