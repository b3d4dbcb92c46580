"""`--tool-approval`: a person, or a rule, stands between the model and what changes something.

    never      every call is carried out: there is no gate
    ask        calls of tools that change things are carried out if the user says so
    read-only  only tools that change nothing are carried out

Fails closed: with nobody to ask, without an answer, and whenever anything goes wrong here, a call is not carried out.
Loaded after all other extensions, so it decides about the arguments that will be executed, and what it has shown is
what is executed: the same arguments, the same file. If either is another one by then, it asks again.

"Yes for this session" is about the further calls of one tool, but for those that could be a way to more: files that run
or grant rights later, and files outside of the session's folder, are asked about each time. Is about the model's calls
alone: what the user's client runs by `bash` is the user's own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, get_args

from pinnace_agent.extensions.api import ExtensionAPI
from pinnace_agent.extensions.events import ToolCall
from pinnace_agent.extensions.handler_context import Context
from pinnace_agent.extensions.host_view import ToolInfo
from pinnace_agent.extensions.json_values import NotJsonError, same_json
from pinnace_agent.extensions.results import Block
from pinnace_agent.files.protected import Places
from pinnace_agent.tools import READ_ONLY_TOOLS
from pinnace_agent.tools.base import ToolError

if TYPE_CHECKING:  # loaded when the first call is asked about
    from pinnace_agent.extensions.builtin.approval_question import Examined

ApprovalMode = Literal["never", "ask", "read-only"]
APPROVAL_MODES: Final[tuple[ApprovalMode, ...]] = get_args(ApprovalMode)

YES: Final = "Yes"
YES_FOR_SESSION: Final = "Yes for this session"
NO: Final = "No"

_MOST_ASKED: Final = 3
"""How often one call is asked about, if it is another one each time the user has answered."""


def tool_approval(
    mode: ApprovalMode, timeout_s: float | None = None, places: Callable[[], Places] = Places
) -> Callable[[ExtensionAPI], None]:
    """Return the extension that applies a mode.

    Args:
        mode: One of `APPROVAL_MODES`.
        timeout_s: How long the user has to answer; None: as long as it takes.
        places: Returns the user's protected places; asked for each call.

    Raises:
        ValueError: There is no such mode.
    """
    if mode not in APPROVAL_MODES:
        raise ValueError(f"there is no tool approval {mode!r}; there are {', '.join(APPROVAL_MODES)}")

    def extension(pi: ExtensionAPI) -> None:
        if mode == "never":
            return
        # Ends with this instance: a new session, and a reload, ask anew.
        gate = _Asking(timeout_s, places)

        @pi.on("tool_call")
        async def check(ctx: Context, event: ToolCall) -> Block | None:
            tool = next((each for each in pi.get_all_tools() if each.name == event.tool_name), None)
            if tool is not None and _is_read_only(tool):
                return None
            if mode == "read-only":
                return Block(
                    f"{event.tool_name} was not run: this session is read-only (--tool-approval read-only), so only "
                    "tools that change nothing may be used, such as read, grep, find and ls. Do not look for a way "
                    "around this; say what should be changed, and the user will do it."
                )
            return await gate.decide(ctx, event, is_builtin=tool is not None and _is_builtin(tool))

    return extension


class _Asking:
    """The approvals of one session instance."""

    def __init__(self, timeout_s: float | None, places: Callable[[], Places]) -> None:
        self._timeout_s = timeout_s
        self._places = places
        self._allowed: set[str] = set()
        """The tools that the user has allowed for the session."""

    async def decide(self, ctx: Context, event: ToolCall, *, is_builtin: bool) -> Block | None:
        """Ask about a call as often as it is another one than the user has answered about; None: it may be run."""
        tool = event.tool_name
        for _ in range(_MOST_ASKED):
            try:
                call = await self._examined(ctx, event, is_builtin=is_builtin)
            except (ToolError, OSError) as error:
                return Block(f"{tool} was not run: {error}")
            if tool not in self._allowed or call.reason is not None:
                answer = await self._answer(ctx, event.tool_call_id, call)
                if isinstance(answer, Block):
                    return answer
                # Answers take time: by now a link may lead elsewhere, or another handler have changed the arguments.
                if call != await self._examined(ctx, event, is_builtin=is_builtin):
                    continue
                if answer == YES_FOR_SESSION:
                    self._allowed.add(tool)
            if call.arguments is not event.input:
                event.input = dict(call.arguments)
            if call.bound_path is not None:
                # Another gate may have let it through since it leads to a certain file.
                if event.bound_path not in (None, call.bound_path):
                    return Block(f"{tool} was not run: its path led to another file while gates were asked.")
                event.bound_path = call.bound_path
            return None
        return Block(f"{tool} was not run: each time it was approved, it was another call by then.")

    async def _examined(self, ctx: Context, event: ToolCall, *, is_builtin: bool) -> "Examined":
        from pinnace_agent.extensions.builtin.approval_question import examine

        try:
            arguments = same_json(event.input, "input")
        except NotJsonError:  # a tool's own repair has put something else there
            arguments = event.input
        return await examine(event.tool_name, arguments, str(ctx.cwd), self._places, is_builtin=is_builtin)

    async def _answer(self, ctx: Context, call_id: str, call: "Examined") -> str | Block:
        from pinnace_agent.extensions.builtin.approval_question import TooLongError, question

        tool = call.tool
        if not ctx.has_ui:
            return Block(
                f"{tool} was not run: it needs the user's approval (--tool-approval ask), and nobody can be asked "
                "here. Go on without it, or say what the user should do."
            )
        try:
            text = question(call)
        except TooLongError as error:
            return Block(
                f"{tool} was not run: it needs the user's approval, and the call can't be shown whole: {error}."
            )
        options = [YES, NO] if call.reason is not None else [YES, YES_FOR_SESSION, NO]
        answer = await ctx.ui.select(text, options, self._timeout_s, tool_call_id=call_id)
        if answer in (YES, YES_FOR_SESSION):
            return answer
        return Block(
            f"{tool} was not run: the user has not approved this call. Do not try the same in another way; ask the "
            "user how to go on."
        )


def _is_read_only(tool: ToolInfo) -> bool:
    """Tell whether a tool changes nothing. One that bears a built-in one's name has to say so itself."""
    return tool.is_read_only or (tool.name in READ_ONLY_TOOLS and _is_builtin(tool))


def _is_builtin(tool: ToolInfo) -> bool:
    return tool.source_info.get("source") == "builtin"
