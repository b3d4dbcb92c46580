"""Reloads settings and extensions: with a command, and with a tool that sends the command.

    pinnace --mode rpc -e examples/extensions/reload_command.py

A tool can't reload: the session would wait for the run, the run for the tool, and the tool for the session. So the
tool sends the command as a user message when the agent has settled.
"""

from pinnace.extensions import CommandContext, Context, ExtensionAPI, ToolContext
from pinnace.extensions import events as ev


def extension(pi: ExtensionAPI) -> None:
    is_wanted = False

    @pi.command("reload-runtime", description="Load settings, resources and extensions again")
    async def reload(ctx: CommandContext, args: str) -> None:
        await ctx.reload()
        # This context and `pi` are stale now: return.

    @pi.tool(label="Reload", prompt_snippet="Load extensions again when you have changed one")
    def reload_runtime(ctx: ToolContext) -> str:
        """Load settings, resources and extensions again, as soon as this answer is complete."""
        nonlocal is_wanted
        is_wanted = True
        return "Everything is loaded again when you have finished."

    @pi.on("agent_settled")
    def settled(ctx: Context, event: ev.AgentSettled) -> None:
        nonlocal is_wanted
        if is_wanted:
            is_wanted = False
            pi.send_user_message("/reload-runtime", expand=True)  # starts when all handlers of this event are done
