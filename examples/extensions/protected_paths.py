"""Denies `write` and `edit` of files that must not be changed by accident.

    pinnace --mode rpc -e examples/extensions/protected_paths.py

This prevents accidents only: `bash` can still change these files. For that, see permission_gate.py and --tool-approval.
"""

import os
from pathlib import Path

from pinnace.extensions import Block, Context, ExtensionAPI, resolve_path, visible_line
from pinnace.extensions import events as ev

PROTECTED = {".env", ".git", "node_modules"}


def extension(pi: ExtensionAPI) -> None:
    def gate(ctx: Context, event: ev.ToolCall) -> Block | None:
        # Resolved as the tools do: a leading `@`, `~`, and relative to the working folder. An invalid path raises,
        # which denies the call as well.
        path = resolve_path(str(event.input["path"]), str(ctx.cwd))
        # A link with a harmless name may lead into a protected folder.
        real = os.path.realpath(path)
        if not (hit := PROTECTED & {*Path(path).parts, *Path(real).parts}):
            # A link may be created before the tool runs: only this file is changed, or this handler is called again.
            event.bound_path = real
            return None
        name = ", ".join(sorted(hit))
        ctx.ui.notify(f"Kept the model from changing {visible_line(path)}", "warning")
        return Block(f"{event.input['path']} is protected ({name}), so nothing was changed.")

    # One function for two tools; `tool=` restricts the subscription.
    pi.on("tool_call", gate, tool="write")
    pi.on("tool_call", gate, tool="edit")
