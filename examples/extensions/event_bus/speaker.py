"""Sends data to other extensions over the event bus.

The folder has two modules, and both are loaded:

pinnace --mode rpc -e examples/extensions/event_bus
"""

from pinnace.extensions import CommandContext, ExtensionAPI


def extension(pi: ExtensionAPI) -> None:
    @pi.command("announce", description="Send a text to all extensions")
    def announce(ctx: CommandContext, args: str) -> None:
        # Does not wait for async listeners; a failing listener does not affect others.
        pi.events.emit("announcement", {"text": args, "from": "speaker"})
