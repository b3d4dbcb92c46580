"""Names the session: `/name-session some words`; without words it shows the name.

    pinnace --mode rpc -e examples/extensions/session_name.py

The name is stored in the session file, so it survives a restart.
"""

from pinnace.extensions import CommandContext, Context, ExtensionAPI
from pinnace.extensions import events as ev


def extension(pi: ExtensionAPI) -> None:
    @pi.command("name-session", description="Name this session, or show its name")
    def name(ctx: CommandContext, args: str) -> None:
        if args.strip():
            pi.session_name = args.strip()
        else:
            ctx.ui.notify(f"This session is called {pi.session_name}" if pi.session_name else "It has no name yet")

    # Also fired when the client (`set_session_name`) or another extension renames the session.
    @pi.on("session_info_changed")
    def told(ctx: Context, event: ev.SessionInfoChanged) -> None:
        ctx.ui.set_title(event.name or "pinnace")
