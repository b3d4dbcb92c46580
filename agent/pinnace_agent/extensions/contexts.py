"""What a function of an extension knows and can do: `ctx`.

One class a situation: handlers, commands, tools, what goes on in a new session, and what happens before there is one.
"""

from pinnace_agent.extensions.command_context import CommandContext, CommandWork, ControlError, ReplacedContext
from pinnace_agent.extensions.handler_context import Binding, Context, RunScope, StartTask, TrustContext
from pinnace_agent.extensions.tool_context import Room, ToolContext

__all__ = [
    "Binding",
    "CommandContext",
    "CommandWork",
    "Context",
    "ControlError",
    "ReplacedContext",
    "Room",
    "RunScope",
    "StartTask",
    "ToolContext",
    "TrustContext",
]
