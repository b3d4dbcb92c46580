"""Asks for approval of commands of the model that look dangerous.

    pinnace --mode rpc -e examples/extensions/permission_gate.py

Fails closed: without a user, without an answer in time, and after an error in this code the command does not run,
because a handler of `tool_call` that raises denies the call.
"""

import re

from pinnace.extensions import Block, Context, ExtensionAPI, visible_lines
from pinnace.extensions import events as ev

DANGEROUS = re.compile(r"\brm\s+(-\w*[rf]|--(recursive|force))|\bsudo\b|\b(chmod|chown)\b.*\b777\b")
TIMEOUT_S = 60.0


def extension(pi: ExtensionAPI) -> None:
    # The class subscribes to `tool_call` events of `bash` only.
    @pi.on(ev.BashCall)
    async def ask(ctx: Context, event: ev.BashCall) -> Block | None:
        command = event.input["command"]
        if not DANGEROUS.search(command):
            return None  # allowed here; the next handler decides
        if not ctx.has_ui:
            return Block("This command looks dangerous, and there is no user to ask.")
        # Invisible characters could hide a part of the command.
        shown = "\n".join(visible_lines(command))
        # The id lets a client show the question beside the call. None: cancelled, or no answer in time.
        answer = await ctx.ui.select(
            f"Run this command?\n\n{shown}", ["Yes", "No"], TIMEOUT_S, tool_call_id=event.tool_call_id
        )
        return None if answer == "Yes" else Block("The user did not allow this command.")
