"""`--tool-approval`: a person, or a rule, stands between the model and what changes something.

    never      every call is carried out: there is no gate
    ask        calls of tools that change things are carried out if the user says so
    read-only  only tools that change nothing are carried out

Fails closed: with nobody to ask, without an answer, and whenever anything goes wrong here, a call is not carried out.
Loaded after all other extensions, so it decides about the arguments that will be executed. Is about the model's calls
alone: what the user's client runs by `bash` is the user's own.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from pinnace_agent.extensions.api import ExtensionAPI
from pinnace_agent.extensions.events import ToolCall
from pinnace_agent.extensions.handler_context import Context
from pinnace_agent.extensions.results import Block
from pinnace_agent.tools import READ_ONLY_TOOLS

ApprovalMode = Literal["never", "ask", "read-only"]
APPROVAL_MODES: Final[tuple[ApprovalMode, ...]] = get_args(ApprovalMode)

YES: Final = "Yes"
YES_FOR_SESSION: Final = "Yes for this session"
NO: Final = "No"

_SHOWN_CHARS: Final = 4000
"""Of the arguments: nobody reads more in a dialog, and clients have the call itself, by its id. What is left out is in
the middle: a command must not hide its end."""


def tool_approval(mode: ApprovalMode, timeout_s: float | None = None) -> Callable[[ExtensionAPI], None]:
    """Return the extension that applies a mode.

    Args:
        mode: One of `APPROVAL_MODES`.
        timeout_s: How long the user has to answer; None: as long as it takes.

    Raises:
        ValueError: There is no such mode.
    """
    if mode not in APPROVAL_MODES:
        raise ValueError(f"there is no tool approval {mode!r}; there are {', '.join(APPROVAL_MODES)}")

    def extension(pi: ExtensionAPI) -> None:
        if mode == "never":
            return
        # Ends with this instance: a new session, and a reload, ask anew.
        allowed: set[str] = set()

        @pi.on("tool_call")
        async def gate(ctx: Context, event: ToolCall) -> Block | None:
            tool = event.tool_name
            if _is_read_only(pi, tool):
                return None
            if mode == "read-only":
                return Block(
                    f"{tool} was not run: this session is read-only (--tool-approval read-only), so only tools that "
                    "change nothing may be used, such as read, grep, find and ls. Do not look for a way around this; "
                    "say what should be changed, and the user will do it."
                )
            if tool in allowed:
                return None
            if not ctx.has_ui:
                return Block(
                    f"{tool} was not run: it needs the user's approval (--tool-approval ask), and nobody can be asked "
                    "here. Go on without it, or say what the user should do."
                )
            options = [YES, YES_FOR_SESSION, NO]
            answer = await ctx.ui.select(
                _question(tool, event.input), options, timeout_s, tool_call_id=event.tool_call_id
            )
            if answer == YES_FOR_SESSION:
                allowed.add(tool)
            if answer in (YES, YES_FOR_SESSION):
                return None
            return Block(
                f"{tool} was not run: the user has not approved this call. Do not try the same in another way; ask the "
                "user how to go on."
            )

    return extension


def _is_read_only(pi: ExtensionAPI, name: str) -> bool:
    """Tell whether a tool changes nothing. One that bears a built-in one's name has to say so itself."""
    for tool in pi.get_all_tools():
        if tool.name == name:
            return tool.is_read_only or (name in READ_ONLY_TOOLS and tool.source_info.get("source") == "builtin")
    return False


def _question(tool: str, arguments: Mapping[str, object]) -> str:
    if tool == "bash" and isinstance(command := arguments.get("command"), str):
        what = command
    else:
        path = arguments.get("path")
        shown = arguments if not isinstance(path, str) else {"path": path, **arguments}
        what = "\n".join(f"{name}: {_text(value)}" for name, value in shown.items())
    what = "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in what)
    if len(what) > _SHOWN_CHARS:
        half = _SHOWN_CHARS // 2
        what = f"{what[:half]}\n[... {len(what) - _SHOWN_CHARS} characters are not shown ...]\n{what[-half:]}"
    return f"Let the model use {tool}?\n\n{what}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
