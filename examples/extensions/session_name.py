"""Names the session: `/name-session some words`, and without words tells the name.

    pinnace --mode rpc -e examples/extensions/session_name.py

The name is in the session's file, so it is there again after a restart.
"""

from pinnace.extensions import CommandContext, Context, ExtensionAPI
from pinnace.extensions import events as ev


def extension(pi: ExtensionAPI) -> None:
    @pi.command("name-session", description="Name this session, or tell its name")
    def name(ctx: CommandContext, args: str) -> None:
        if args.strip():
            pi.session_name = args.strip()
        else:
            ctx.ui.notify(f"This session is called {pi.session_name}" if pi.session_name else "It has no name yet")

    # Also when somebody else has named it: the client by `set_session_name`, or another extension.
    @pi.on("session_info_changed")
    def told(ctx: Context, event: ev.SessionInfoChanged) -> None:
        ctx.ui.set_title(event.name or "pinnace")
