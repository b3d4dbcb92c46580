"""Approval hooks: the chains of tool calls and of the user's shell commands, which fail closed.

`tool_call` decides whether a tool call runs, `user_bash` whether a command of the user runs. Both allow only what every
handler allowed by returning None: a handler that raises, returns an unusable result, tries to exit, swallows a
cancellation or outlives its session denies the call. Input that handlers of `tool_call` have changed is validated once,
after the last of them, and if it is invalid the call is denied (R-EXT-15). `tool_result` changes results.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pinnace_agent.core.json_values import NotJsonError, is_object, own_copy, same_json
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.events.result_reader import ResultError
from pinnace_agent.extensions.handlers.calling import Bound
from pinnace_agent.extensions.handlers.chains import Chains, UnusableResultError
from pinnace_agent.extensions.registration.registrations import Extension
from pinnace_agent.extensions.services.error_records import failure_text
from pinnace_spec.records.messages import Usage

if TYPE_CHECKING:  # loaded with the first arguments that are validated
    from pinnace_agent.tools.validation import InvalidArguments

_WITHHELD = "The result of this call is withheld"
_OVER = "the session of the extension that guards this call has ended"
_NOT_BEGUN = (
    "An extension has not started, because its handlers of session_start were cancelled, so this was not run: {}. "
    "Reload the extensions, or start another session"
)
_INVALID_CHANGE: Final = "An extension's change of the arguments is invalid, so this was not run"

_Validate = Callable[[dict[str, object]], dict[str, object]]


def _unvalidated(arguments: dict[str, object]) -> dict[str, object]:
    return arguments


class _Change(NamedTuple):
    """The input of a call after a handler changed it."""

    bound: Bound
    arguments: dict[str, object]


class CallResult(NamedTuple):
    """The result of a tool, as handlers left it."""

    content: rs.Blocks
    details: object = None
    is_error: bool = False
    structured: object = None
    usage: Usage | None = None


class Gates:
    """The approval hooks of one session instance."""

    def __init__(self, chains: Chains) -> None:
        """Call handlers as `chains` does."""
        self._chains = chains
        self._caller = chains.caller
        self.not_begun: set[Extension] = set()
        """Extensions whose `session_start` handlers have not all returned: what they guard is unknown, so every call is
        denied."""

    def guards(self, event: str) -> bool:
        """Return whether `tool_call` or `user_bash` must be called."""
        # Stale extensions have no handlers left, and what they guarded is unknown.
        return bool(self.not_begun) or self._caller.is_stale or self._caller.has(event)

    def _not_ready(self) -> rs.Block | None:
        """Return a denial while an extension has not started, and after the session instance ended."""
        if self._caller.is_stale:
            return rs.Block(_OVER)
        if not self.not_begun:
            return None
        return rs.Block(_NOT_BEGUN.format(", ".join(sorted(each.path for each in self.not_begun))))

    async def tool_call(
        self,
        tool: str,
        call_id: str,
        arguments: dict[str, object],
        *,
        parent_call_id: str | None = None,
        bind: Callable[[str], None] | None = None,
        validate: _Validate = _unvalidated,
    ) -> rs.Block | None:
        """Return whether handlers deny a tool call.

        Args:
            tool: The tool's name.
            call_id: The call's id.
            arguments: The validated arguments. Replaced by those that the handlers leave, if the call may run.
            parent_call_id: The call that made this call.
            bind: Takes the real path of the only file that the call may change, if a handler set it.
            validate: Validates the arguments that the handlers leave, if they differ; raises `InvalidArguments`, which
                denies the call. The default takes every change.

        Returns:
            None: the call may run. Otherwise its reason is the text of the result; without one, the host has a text.
        """
        if (block := self._not_ready()) is not None:
            return block
        bounds = self._caller.bound("tool_call", tool)
        if not bounds:
            return None
        shown = own_copy(arguments)
        event = ev.CALLS.get(tool, ev.ToolCall)(
            tool_name=tool, tool_call_id=call_id, input=shown, parent_tool_call_id=parent_call_id
        )
        given = current = repr(shown)
        changes: list[_Change] = []
        for bound in bounds:
            try:
                if self._caller.is_stale:
                    return rs.Block(_OVER)
                result = self._chains.read(bound, await self._caller.call(bound, event))
                changed = _changed_input(event, shown, current)
            except BaseException as error:
                return rs.Block(_refusal(bound, self._caller.failed(bound, error)))
            # A handler that swallowed the cancellation has not decided.
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(result, rs.Block):
                return result
            if changed is not None:
                changes.append(_Change(bound, changed))
                current = repr(changed)
        if self._caller.is_stale:  # the last handler may have ended its session
            return rs.Block(_OVER)
        if current != given:
            from pinnace_agent.tools.validation import InvalidArguments

            # DEVIATION D-75: what handlers leave is validated like the arguments of a model.
            try:
                valid = validate(changes[-1].arguments)
            except InvalidArguments as error:
                self._report_invalid(changes, validate, error)
                return rs.Block(f"{_INVALID_CHANGE}: {error}")
            arguments.clear()
            arguments.update(valid)
        if event.bound_path is not None and bind is not None:
            bind(event.bound_path)
        return None

    def _report_invalid(self, changes: Sequence[_Change], validate: _Validate, error: "InvalidArguments") -> None:
        """Report the handler since whose change the input is invalid."""
        from pinnace_agent.tools.validation import InvalidArguments

        blamed = changes[-1].bound
        for change in reversed(changes[:-1]):
            try:
                validate(change.arguments)
            except InvalidArguments:
                blamed = change.bound
            else:
                break
        self._caller.report(blamed.owner, ResultError(f"{_INVALID_CHANGE}:\n{error.problems}"))

    async def user_bash(self, make: Callable[[], ev.UserBash]) -> rs.UserBash | rs.Block | None:
        """Let handlers run or deny a command of the user.

        Returns:
            None: the shell runs it. `Block`: it is denied, with the reason.
        """
        if (block := self._not_ready()) is not None:
            return block
        bounds = self._caller.bound("user_bash")
        if not bounds:
            return None
        event = make()
        for bound in bounds:
            try:
                if self._caller.is_stale:
                    return rs.Block(_OVER)
                result = self._chains.read(bound, await self._caller.call(bound, event))
            except BaseException as error:
                return rs.Block(_refusal(bound, self._caller.failed(bound, error)))
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(result, rs.UserBash):
                return result
        return rs.Block(_OVER) if self._caller.is_stale else None

    async def tool_result(
        self,
        tool: str,
        call_id: str,
        arguments: dict[str, object],
        result: CallResult,
        *,
        parent_call_id: str | None = None,
    ) -> CallResult:
        """Let handlers change the result of a call that ran.

        The change of a handler that raises is lost. If a patch can't be used, the result is withheld: the handler may
        have meant to remove something from it.
        """
        bounds = self._caller.bound("tool_result", tool)
        if not bounds:
            return result
        event = ev.RESULTS.get(tool, ev.ToolResult)(
            tool_name=tool,
            tool_call_id=call_id,
            input=own_copy(arguments),
            content=result.content,
            is_error=result.is_error,
            parent_tool_call_id=parent_call_id,
        )
        for bound in bounds:
            if self._caller.is_stale:
                break
            # Copies, because handlers may change them.
            event.content, event.details, event.is_error = own_copy(result[:3])
            event.structured_content, event.usage = own_copy(result[3:])
            try:
                patch = await self._chains.filter_result(bound, event)
            except UnusableResultError as error:
                return CallResult([{"type": "text", "text": f"{_WITHHELD}: {error}"}], {}, is_error=True)
            if isinstance(patch, rs.ResultPatch):
                result = _patched(result, patch)
        await trio.lowlevel.checkpoint_if_cancelled()
        return result


def _changed_input(event: ev.ToolCall, shown: dict[str, object], current: str) -> dict[str, object] | None:
    """Return a copy of the input as a handler left it; None: it is as before.

    Args:
        event: The event, with what the handler made of the input.
        shown: The dict that handlers get as the input.
        current: Its `repr` before the handler was called.

    Raises:
        ResultError: It is not a dict, or not JSON.
    """
    given: object = event.input
    if not is_object(given):
        raise ResultError("tool_call: event.input must stay a dict")
    if given is not shown:
        shown.clear()
        shown.update(given)
        event.input = shown
    try:
        changed = same_json(shown, "input")
    except NotJsonError as error:
        if repr(shown) == current:  # made by the tool's own repair of its arguments
            return None
        raise ResultError(f"tool_call: {error}") from error
    return None if repr(changed) == current else changed


def _refusal(bound: Bound, failure: BaseException) -> str:
    text = failure_text(failure)
    # The message of an exception is written for readers; everything else is explained to the model.
    has_words = isinstance(failure, Exception) and text != type(failure).__name__
    if has_words and not isinstance(failure, ResultError | BaseExceptionGroup):
        return text
    return f"An extension that checks {bound.owner.event} failed, so this was not run: {text}"


def _patched(result: CallResult, patch: rs.ResultPatch) -> CallResult:
    if not isinstance(patch.content, rs.Unset):
        # Structured content of the replaced content would contradict the new content.
        result = result._replace(content=patch.content, structured=None)
    if not isinstance(patch.details, rs.Unset):
        result = result._replace(details=patch.details)
    if not isinstance(patch.is_error, rs.Unset):
        result = result._replace(is_error=patch.is_error)
    if not isinstance(patch.structured, rs.Unset):
        result = result._replace(structured=patch.structured)
    if not isinstance(patch.usage, rs.Unset):
        result = result._replace(usage=patch.usage)
    return result
