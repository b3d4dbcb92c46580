"""Asks before the model runs a command that looks dangerous.

    pinnace --mode rpc -e examples/extensions/permission_gate.py

Whatever goes wrong, the command is not run: without a user, without an answer in time, and also if this code fails,
since a handler of `tool_call` that raises blocks the call.
"""

import re

from pinnace.extensions import Block, Context, ExtensionAPI, visible_lines
from pinnace.extensions import events as ev

DANGEROUS = re.compile(r"\brm\s+(-\w*[rf]|--(recursive|force))|\bsudo\b|\b(chmod|chown)\b.*\b777\b")
TIMEOUT_S = 60.0


def extension(pi: ExtensionAPI) -> None:
    # The class of the event says two things: which event, and that only calls of `bash` are of interest.
    @pi.on(ev.BashCall)
    async def ask(ctx: Context, event: ev.BashCall) -> Block | None:
        command = event.input["command"]
        if not DANGEROUS.search(command):
            return None  # no objection; the next handler decides
        if not ctx.has_ui:
            return Block("This command looks dangerous, and there is nobody to ask.")
        # Invisible letters could hide a part of it from the user.
        shown = "\n".join(visible_lines(command))
        # The id lets a client show the question beside the call. None: cancelled, or no answer in time.
        answer = await ctx.ui.select(
            f"Run this command?\n\n{shown}", ["Yes", "No"], TIMEOUT_S, tool_call_id=event.tool_call_id
        )
        return None if answer == "Yes" else Block("The user has not allowed this command.")
