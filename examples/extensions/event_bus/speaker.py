"""Tells other extensions what happens here.

The folder has two modules, and both are loaded:

pinnace --mode rpc -e examples/extensions/event_bus
"""

from pinnace.extensions import CommandContext, ExtensionAPI


def extension(pi: ExtensionAPI) -> None:
    @pi.command("announce", description="Tell all extensions a text")
    def announce(ctx: CommandContext, args: str) -> None:
        # Any number of listeners, or none: nobody is waited for, and a listener that fails disturbs nobody.
        pi.events.emit("announcement", {"text": args, "from": "speaker"})
