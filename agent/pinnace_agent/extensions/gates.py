"""The chains that guard tools and shells: a handler that fails is a refusal.

Decides whether a call may be carried out (`tool_call`), whether a command of the user's may (`user_bash`), and what
becomes of a result (`tool_result`, which guards nothing). A gate lets through only what every handler has let through
by returning nothing: one that raises, answers wrongly, tries to exit, swallows a cancellation or outlives its session
blocks. Must not know tools. R15; E40 to E42.
"""

from collections.abc import Callable
from typing import NamedTuple

import trio

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions import results as rs
from pinnace_agent.extensions.calling import Bound
from pinnace_agent.extensions.chains import Chains, UnusableResultError
from pinnace_agent.extensions.error_records import failure_text
from pinnace_agent.extensions.json_values import NotJsonError, own_copy, same_json
from pinnace_agent.extensions.registrations import Extension
from pinnace_agent.extensions.result_reader import ResultError
from pinnace_agent.extensions.result_shapes import is_object
from pinnace_spec.messages import Usage

_WITHHELD = "The result of this call is withheld"
_OVER = "the session of the extension that guards this call is over"
_NOT_BEGUN = (
    "An extension has not begun, since its handlers of session_start were ended before they were done, so this was not "
    "carried out: {}. Reload the extensions, or begin another session"
)


class CallResult(NamedTuple):
    """What a tool has produced, as handlers have left it."""

    content: rs.Blocks
    details: object = None
    is_error: bool = False
    structured: object = None
    usage: Usage | None = None


class Gates:
    """The gates of one session instance."""

    def __init__(self, chains: Chains) -> None:
        """Call as `chains` does."""
        self._chains = chains
        self._caller = chains.caller
        self.not_begun: set[Extension] = set()
        """Whose handlers of `session_start` have not all been called: what they would guard is not known, so nothing
        is let through."""

    def guards(self, event: str) -> bool:
        """Tell whether `tool_call` or `user_bash` has to be asked."""
        # Of extensions that are over no handler is left, and what they guarded is not known any more.
        return bool(self.not_begun) or self._caller.is_stale or self._caller.has(event)

    def _not_ready(self) -> rs.Block | None:
        """Refuse while an extension has not begun, and when the session instance is over."""
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
    ) -> rs.Block | None:
        """Ask whether a call may be carried out (E40).

        Args:
            tool: Its name.
            call_id: Its id.
            arguments: What will be executed, validated. Becomes what handlers make of it, which is not validated again.
            parent_call_id: The call that it is made from.
            bind: Takes the real path of the only file that the call may change, if a handler has named it.

        Returns:
            None if it may. Otherwise the reason is the text of its result; without a reason the host has one.
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
        for bound in bounds:
            try:
                if self._caller.is_stale:
                    return rs.Block(_OVER)
                answer = self._chains.read(bound, await self._caller.call(bound, event))
                _keep_input(event, shown, arguments)
            except BaseException as error:
                return rs.Block(_refusal(bound, self._caller.failed(bound, error)))
            # Who has swallowed the cancellation has not decided anything.
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(answer, rs.Block):
                return answer
        if event.bound_path is not None and bind is not None:
            bind(event.bound_path)
        # What the last one has done may have ended the session that it spoke for.
        return rs.Block(_OVER) if self._caller.is_stale else None

    async def user_bash(self, make: Callable[[], ev.UserBash]) -> rs.UserBash | rs.Block | None:
        """Ask who runs a command of the user's (E42).

        Returns:
            None: the shell does. `Block`: nobody, with the reason.
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
                answer = self._chains.read(bound, await self._caller.call(bound, event))
            except BaseException as error:
                return rs.Block(_refusal(bound, self._caller.failed(bound, error)))
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(answer, rs.UserBash):
                return answer
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
        """Let handlers change the result of a call that was carried out (E41).

        One that raises loses its change. One whose patch can't be used has the result withheld: it may have been
        about to take something out.
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
            # Copies: handlers may do with them as they like.
            event.content, event.details, event.is_error = own_copy(result[:3])
            event.structured_content, event.usage = own_copy(result[3:])
            try:
                answer = await self._chains.answer_of_filter(bound, event)
            except UnusableResultError as error:
                return CallResult([{"type": "text", "text": f"{_WITHHELD}: {error}"}], {}, is_error=True)
            if isinstance(answer, rs.ResultPatch):
                result = _patched(result, answer)
        await trio.lowlevel.checkpoint_if_cancelled()
        return result


def _keep_input(event: ev.ToolCall, shown: dict[str, object], arguments: dict[str, object]) -> None:
    """Take over the input as a handler has left it, which is what it wants to be executed."""
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
        if repr(shown) == repr(arguments):  # a tool's own repair of its arguments has put it there
            return
        raise ResultError(f"tool_call: {error}") from error
    arguments.clear()
    arguments.update(changed)


def _refusal(bound: Bound, failure: BaseException) -> str:
    text = failure_text(failure)
    # The message of an exception is written to be read; anything else needs to be explained to the model.
    has_words = isinstance(failure, Exception) and text != type(failure).__name__
    if has_words and not isinstance(failure, ResultError | BaseExceptionGroup):
        return text
    return f"An extension that checks {bound.owner.event} has failed, so this was not carried out: {text}"


def _patched(result: CallResult, patch: rs.ResultPatch) -> CallResult:
    if not isinstance(patch.content, rs.Unset):
        # What was computed from the other content would contradict the new one.
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
