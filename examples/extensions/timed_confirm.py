"""A dialog with a time limit: `/timed` uses the dialog's timeout, `/timed scope` a cancel scope.

pinnace --mode rpc -e examples/extensions/timed_confirm.py
"""

import trio

from pinnace.extensions import CommandContext, ExtensionAPI

TIMEOUT_S = 5.0


def extension(pi: ExtensionAPI) -> None:
    @pi.command("timed", description="Ask with a time limit")
    async def timed(ctx: CommandContext, args: str) -> None:
        if args != "scope":
            # The client receives the timeout and can show it. Denied, cancelled and timed out are all False.
            is_sure = await ctx.ui.confirm("Go on?", "You have some seconds.", timeout=TIMEOUT_S)
            ctx.ui.notify("yes" if is_sure else "no, or too late")
            return
        # With a scope, a denial and a timeout differ.
        is_sure = False
        with trio.move_on_after(TIMEOUT_S) as scope:
            is_sure = await ctx.ui.confirm("Go on?", "You have some seconds.")
        ctx.ui.notify("too late" if scope.cancelled_caught else "yes" if is_sure else "no")
