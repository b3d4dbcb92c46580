"""Keeps `write` and `edit` away from files that nobody should change by accident.

    pinnace --mode rpc -e examples/extensions/protected_paths.py

This is a railing and no wall: `bash` can still reach these files. For that, see permission_gate.py and --tool-approval.
"""

import os
from pathlib import Path

from pinnace.extensions import Block, Context, ExtensionAPI, resolve_path, visible_line
from pinnace.extensions import events as ev

PROTECTED = {".env", ".git", "node_modules"}


def extension(pi: ExtensionAPI) -> None:
    def gate(ctx: Context, event: ev.ToolCall) -> Block | None:
        # As the tools read it: `@` in front, `~`, and relative to where they work. A path that means nothing raises,
        # and then the call is blocked as well.
        path = resolve_path(str(event.input["path"]), str(ctx.cwd))
        # A link may have a harmless name, and lead into a protected folder.
        real = os.path.realpath(path)
        if not (hit := PROTECTED & {*Path(path).parts, *Path(real).parts}):
            # And a link may be put there before the tool runs: this file is changed, or this gate is asked again.
            event.bound_path = real
            return None
        name = ", ".join(sorted(hit))
        ctx.ui.notify(f"Kept the model from changing {visible_line(path)}", "warning")
        return Block(f"{event.input['path']} is protected ({name}), so nothing was changed.")

    # One function for two tools; `tool=` spares it the calls of all others.
    pi.on("tool_call", gate, tool="write")
    pi.on("tool_call", gate, tool="edit")
