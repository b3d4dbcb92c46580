"""Registers tools during a session: one when it starts, others by a command.

    pinnace --mode rpc -e examples/extensions/dynamic_tools.py

A tool registered later is active from the next model request on, with its line in the system prompt.
`/echo-tool NAME PREFIX` adds one, `/quiet NAME` deactivates it.
"""

from collections.abc import Mapping

from pinnace.extensions import CommandContext, Context, ExtensionAPI, ToolContext, ToolDefinition
from pinnace.extensions import events as ev

SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What to say"}},
    "required": ["message"],
    "additionalProperties": False,
}


def extension(pi: ExtensionAPI) -> None:
    def register(name: str, prefix: str) -> None:
        def execute(ctx: ToolContext, params: Mapping[str, object]) -> str:
            return f"{prefix}{params['message']}"

        # The definition that `@pi.tool` would make, written by hand because the name is known only now.
        pi.register_tool(
            ToolDefinition(
                name,
                f"Say a message after {prefix!r}",
                SCHEMA,
                execute,
                prompt_snippet=f"Say a message after {prefix!r}",
                prompt_guidelines=(f"Use {name} whenever the user wants to hear {prefix!r}.",),
                is_read_only=True,
            )
        )

    @pi.on("session_start")
    def start(ctx: Context, event: ev.SessionStart) -> None:
        register("echo_session", "[session] ")

    @pi.command("echo-tool", description="Add a tool: NAME PREFIX")
    def add(ctx: CommandContext, args: str) -> None:
        name, _, prefix = args.partition(" ")
        register(name, f"{prefix or name}: ")
        ctx.ui.notify(f"There are {len(pi.get_all_tools())} tools; active: {', '.join(pi.get_active_tools())}")

    @pi.command("quiet", description="Take a tool away from the model: NAME")
    def quiet(ctx: CommandContext, args: str) -> None:
        pi.set_active_tools([name for name in pi.get_active_tools() if name != args.strip()])
