"""`--tool-approval` and `set_tool_approval`: the user, or a fixed rule, approves tool calls that change something.

    never      every call runs
    ask        calls of tools that change something run if the user approves them
    read-only  only tools that change nothing run

Fails closed: without a user, without an answer, and after any error here, a call does not run. Decides after all
extensions, so it sees the arguments that will be executed; the call runs with the arguments and the file that were
shown. If the file has changed since, the user is asked again.

"Allow for this session" approves further calls of the tool, except those that could grant more: files that run or
grant rights later, and files outside of the session's folder, need approval each time. It is bound to the tool as it
was then: one whose description or schema has changed, as a server may change it, is asked about again. Applies to calls
of the model only: `bash` commands of the client are the user's own.

The mode belongs to the process. A call is decided by the mode at the moment when its turn to be decided has come; a
question that is open at a change stays open, and its answer decides the call that it is about. Rule R-SET-07.
"""

import hashlib
import json
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from pinnace_agent.core.json_values import NotJsonError, own_copy, same_json
from pinnace_agent.core.ports.emitter import extension_error
from pinnace_agent.core.surroundings import environment
from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.files.paths import protected_places
from pinnace_agent.tools import READ_ONLY_TOOLS
from pinnace_agent.tools.base import Tool, ToolContext, ToolError, ToolResult
from pinnace_spec.records.messages import ApprovalMode
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # the modules are loaded with the first question
    from pinnace_agent.approval.question import ExaminedCall
    from pinnace_agent.core.ports.confinement import SandboxReport
    from pinnace_agent.core.ports.emitter import Emitter
    from pinnace_agent.core.ports.extensions import Dialogs, Extensions
    from pinnace_agent.files.protected import Places
    from pinnace_agent.session.conversation import Session
    from pinnace_agent.tools.registry import ToolRegistry

_log = logging.getLogger("pinnace.approval")

ALLOW_ONCE: Final = "Allow once"
ALLOW_FOR_SESSION: Final = "Allow for this session"
DENY: Final = "Deny"
"""The options. Clients recognise a permission by these words, and by the first line of the question."""

_MOST_ASKED: Final = 3
"""How often the user is asked about one call, if it changes each time before it runs."""


class ApprovedAgent(Protocol):
    """The agent whose calls are approved."""

    @property
    def session(self) -> "Session":
        """The current session."""
        ...

    @property
    def toolbox(self) -> "ToolRegistry":
        """The tools that exist, active or not."""
        ...

    @property
    def extensions(self) -> "Extensions | None":
        """The extensions; None: there are none."""
        ...

    @property
    def emitter(self) -> "Emitter":
        """Where questions are written."""
        ...


class ToolApproval:
    """The approvals of one process."""

    def __init__(
        self,
        mode: ApprovalMode,
        agent: ApprovedAgent,
        *,
        has_user: bool,
        timeout_s: float | None = None,
        sandbox: "SandboxReport | None" = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Begin with the mode of the start.

        Args:
            mode: It.
            agent: The agent.
            has_user: Whether a client can answer questions.
            timeout_s: How long the user has to answer; None: no limit.
            sandbox: The sandbox of commands, which one may leave if the user approves it; None: there is none.
            env: The environment that names the user's protected places; None: the agent's.
        """
        self._agent = agent
        self._has_user = has_user
        self._timeout_s = timeout_s
        self._sandbox = sandbox
        self._env = environment() if env is None else env
        self._mode: ApprovalMode = mode
        self._allowed: set[str] = set()  # by `_identity`
        self._session: weakref.ref[Session] | None = None  # the session that they are allowed in
        self._dialogs: Dialogs | None = None  # where no extension has any
        self._lasting: Dialogs | None = None  # of what no abort ends
        self._closed: str | None = None
        self.on_mode: Callable[[], None] = _nothing
        """Called when the mode has changed."""

    @property
    def mode(self) -> ApprovalMode:
        """The mode that decides the next call."""
        return self._mode

    @property
    def is_active(self) -> bool:
        """Whether it may refuse a call now."""
        return self._mode != "never" or self._sandbox is not None

    def set_mode(self, mode: ApprovalMode) -> None:
        """Decide later calls by another mode. A change forgets which tools the user allowed for the session."""
        if mode != self._mode:
            self._mode = mode
            self.forget()
            self.on_mode()

    def forget(self) -> None:
        """Ask again about every tool, also where a question about it is open now."""
        self._allowed = set()

    async def ask_for(
        self, title: str, options: Sequence[str], extra: Mapping[str, object], *, is_lasting: bool
    ) -> str | None:
        """Ask the user what an agent that this one has started asks; None: not answered, or there is no user.

        Args:
            title: The question.
            options: The possible answers.
            extra: Further fields of the request.
            is_lasting: Whether an abort leaves the question open, since it does not end that agent.
        """
        if not self._has_user:
            return None
        if not is_lasting:
            return await self._select(title, options, extra)
        dialogs = self._lasting = self._lasting or self._new_dialogs()
        return await dialogs.select(title, list(options), timeout_s=self._timeout_s, extra=extra)

    def answer(self, response: Mapping[str, object]) -> None:
        """Take an `extension_ui_response`."""
        for dialogs in (self._dialogs, self._lasting):
            if dialogs is not None:
                dialogs.answer(response)

    def default_dialogs(self, *, for_good: bool) -> None:
        """Refuse the call of an open question, and with `for_good` every later one too, and those that last."""
        if for_good:
            self._closed = "the client is gone"
            if self._lasting is not None:
                self._lasting.close_all(for_good=self._closed)
        if self._dialogs is not None:
            self._dialogs.close_all(for_good=self._closed)

    async def may_call(self, tool: Tool, arguments: dict[str, object], context: ToolContext) -> ToolResult | None:
        """Decide about a call that all extensions allow.

        Args:
            tool: The tool.
            arguments: The validated arguments; replaced by what the user has seen.
            context: The context of the call, which is bound to the file that the user has seen. A path that it is bound
                to already is that for which an extension has allowed it.

        Returns:
            None: it may run. Otherwise its result.
        """
        try:
            refusal = await self._refusal(tool, arguments, context)
        except Exception as error:  # the boundary: no call runs because its approval has failed
            _log.exception("the approval of a call of %s failed", tool.name)
            text = f"{type(error).__name__}: {error}"
            self._agent.emitter.emit(extension_error("<runtime>", "tool_approval", text))
            refusal = f"{tool.name} was not run: its approval failed: {text}"
        if refusal is None:
            return None
        details = {"denied": "no_user"} if self._mode == "ask" and not self._has_user else {}
        return ToolResult([{"type": "text", "text": refusal}], details, is_error=True)

    async def _refusal(self, tool: Tool, arguments: dict[str, object], context: ToolContext) -> str | None:
        context.may_leave_sandbox = False
        is_outside = self._leaves_sandbox(tool, arguments)
        if (self._mode == "never" and not is_outside) or self._is_read_only(tool):
            return None
        if self._mode == "read-only":
            return (
                f"{tool.name} was not run: this session is read-only (--tool-approval read-only), so only "
                "tools that change nothing may be used, such as read, grep, find and ls. Do not look for a way "
                "around this; say what should be changed, and the user will do it."
            )
        if is_outside and (refusal := self._outside_refusal()) is not None:
            return refusal
        refusal = await self._ask(tool, arguments, context, is_outside=is_outside)
        context.may_leave_sandbox = is_outside and refusal is None
        return refusal

    def _leaves_sandbox(self, tool: Tool, arguments: Mapping[str, object]) -> bool:
        """Return whether a call asks to run outside the sandbox."""
        has_sandbox = self._sandbox is not None and self._agent.toolbox.is_builtin(tool)
        return has_sandbox and tool.name == "bash" and arguments.get("outside") is True

    def _outside_refusal(self) -> str | None:
        """Return why no command may run outside the sandbox; None: the user is asked."""
        sandbox = self._sandbox
        is_allowed = sandbox is not None and sandbox.may_escalate and self._has_user
        return None if is_allowed else errors.OUTSIDE_REFUSED

    async def _ask(
        self, tool: Tool, arguments: dict[str, object], context: ToolContext, *, is_outside: bool
    ) -> str | None:
        """Ask until the call equals the one that the user answered about; None: it may run."""
        name = tool.name
        allowed, identity = self._allowed_now(), _identity(tool)
        for _ in range(_MOST_ASKED):
            try:
                call = await self._examined(tool, arguments, context)
            except (ToolError, OSError) as error:
                return f"{name} was not run: {error}"
            if identity not in allowed or call.reason is not None or is_outside:
                answer = await self._answer(call, context.call_id, is_outside=is_outside)
                if answer not in (ALLOW_ONCE, ALLOW_FOR_SESSION):
                    return answer
                # Answers take time: meanwhile a link may have changed the call.
                if call != await self._examined(tool, arguments, context):
                    continue
                if answer != ALLOW_ONCE:
                    allowed.add(identity)
            shown = own_copy(dict(call.arguments))  # extensions may have kept parts of what they were asked about
            arguments.clear()
            arguments.update(shown)
            if call.bound_path is not None:
                # An extension may have allowed it because it leads to a certain file.
                if context.bound_path not in (None, call.bound_path):
                    return f"{name} was not run: its path changed to another file while approval hooks ran."
                context.bound_path = call.bound_path
            return None
        return f"{name} was not run: it changed each time after it was approved."

    def _allowed_now(self) -> set[str]:
        """Return the tools that are allowed in this session; a later change of the mode has another set."""
        session = self._agent.session
        if self._session is None or self._session() is not session:
            self._session = weakref.ref(session)
            self.forget()
        return self._allowed

    async def _examined(self, tool: Tool, given: Mapping[str, object], context: ToolContext) -> "ExaminedCall":
        from pinnace_agent.approval.question import examine

        try:
            arguments = same_json(given, "input")
        except NotJsonError:  # made by the tool's own repair of its arguments
            arguments = given
        is_builtin = self._agent.toolbox.is_builtin(tool)
        call = await examine(tool.name, arguments, context.cwd, self._places, is_builtin=is_builtin)
        if is_builtin and tool.name == "bash":
            # Of the settings, which may be a project's.
            if context.shell_path is not None:
                call = call._replace(notes=(*call.notes, f"by the shell {visible_line(context.shell_path)}"))
            prefix = context.command_prefix.split("\n") if context.command_prefix else ()
            before = (f"after shellCommandPrefix: {visible_line(line)}" for line in prefix)
            call = call._replace(notes=(*call.notes, *before))
        extensions = self._agent.extensions
        if is_builtin or extensions is None or not (hints := extensions.hints_of(tool)):
            return call
        said = ", ".join(f"{visible_line(name)} {str(value).lower()}" for name, value in hints.items())
        return call._replace(notes=(*call.notes, f"its server says, and may be wrong: {said}"))

    def _places(self) -> "Places":
        extensions = self._agent.extensions
        return protected_places(self._env, () if extensions is None else extensions.files)

    async def _answer(self, call: "ExaminedCall", call_id: str, *, is_outside: bool) -> str:
        """Return the option that allows the call, or the reason why it is refused."""
        from pinnace_agent.approval.question import TooLongError, outside_question, question

        tool = call.tool
        if not self._has_user:
            return (
                f"{tool} was not run: it needs the user's approval (--tool-approval ask), and there is no user to "
                "ask. Continue without it, or say what the user should do."
            )
        try:
            text = outside_question(call) if is_outside else question(call)
        except TooLongError as error:
            return f"{tool} was not run: it needs the user's approval, and the call can't be shown in full: {error}."
        kinds = {ALLOW_ONCE: "allow_once", ALLOW_FOR_SESSION: "allow_always", DENY: "reject_once"}
        if call.reason is not None or is_outside:
            del kinds[ALLOW_FOR_SESSION]
        answer = await self._select(text, list(kinds), {"toolCallId": call_id, "optionKinds": list(kinds.values())})
        if answer is not None and answer != DENY:
            return answer
        return (
            f"{tool} was not run: the user did not approve this call. Do not try the same in another way; ask the "
            "user how to continue."
        )

    async def _select(self, title: str, options: Sequence[str], extra: Mapping[str, object]) -> str | None:
        extensions = self._agent.extensions
        dialogs = None if extensions is None else extensions.dialogs
        if dialogs is None:
            dialogs = self._dialogs = self._dialogs or self._new_dialogs()
        return await dialogs.select(title, list(options), timeout_s=self._timeout_s, extra=extra)

    def _new_dialogs(self) -> "Dialogs":
        from pinnace_agent.extensions.services.dialogs import DialogTable

        dialogs = DialogTable(self._agent.emitter.emit)
        if self._closed is not None:
            dialogs.close_all(for_good=self._closed)
        return dialogs

    def _is_read_only(self, tool: Tool) -> bool:
        """Return whether a tool changes nothing. An extension's tool with a built-in name must declare it itself."""
        if self._agent.toolbox.is_builtin(tool):
            return tool.name in READ_ONLY_TOOLS
        extensions = self._agent.extensions
        return extensions is not None and extensions.is_read_only(tool)


def _nothing() -> None:
    """Let nothing know."""


def _identity(tool: Tool) -> str:
    """Return what a tool is to the user who has allowed it: its name, its description and its parameters."""
    text = json.dumps([tool.name, tool.description, tool.parameters], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
