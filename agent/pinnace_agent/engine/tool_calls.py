"""Runs the tool calls of one turn: prepared one after another, then executed at once up to a limit.

Order (R-RUN-02, R-RUN-03, R-RUN-10): starts in call order, each with its own refusal at once; ends in the order of
completion; the caller appends the results in call order. Cancelling ends every call; each cancelled call has recorded
its result before `Cancelled` leaves. A call that takes too long ends alone (R-LIM-03).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pinnace_agent.engine.run_recorder import RunRecorder, error_result
from pinnace_agent.tools.base import ApprovalOutdated, Tool, ToolContext, ToolError, ToolResult
from pinnace_agent.tools.images.results import with_fitting_images
from pinnace_agent.tools.validation import malformed_arguments, number_text, validate_arguments
from pinnace_spec.records.messages import ToolCall
from pinnace_spec.rules import errors
from pinnace_spec.rules.limits import MAX_TOOLS_AT_ONCE

if TYPE_CHECKING:
    from pinnace_agent.approval.gate import ToolApproval
    from pinnace_agent.core.ports.runs import RunHooks
    from pinnace_agent.core.trace_context import CallTrace

_MOST_ASKED: Final = 3
"""How often one call is asked about: a file that is always another one then is no accident."""


class _Prepared(NamedTuple):
    position: int
    tool: Tool
    arguments: dict[str, object]
    context: ToolContext
    is_gated: bool
    trace: "CallTrace | None"

    def traced(self) -> AbstractContextManager[None]:
        """Return what the tool is executed in."""
        return nullcontext() if self.trace is None else self.trace(self.position, self.context)


class CallGates(NamedTuple):
    """What decides whether calls are executed: extensions first, then the user's approval of what they have left."""

    approval: "ToolApproval"
    hooks: "RunHooks | None" = None

    @property
    def may_refuse(self) -> bool:
        """Whether a call may be refused now."""
        return self.approval.is_active or (self.hooks is not None and self.hooks.guards_calls)

    async def ask(self, call: _Prepared) -> ToolResult | None:
        """Return why a call is not carried out.

        None: it is, bound to the file for which that was decided, if to any.
        """
        context = call.context
        context.bound_path = None

        def bind(path: str) -> None:
            context.bound_path = path

        if self.hooks is not None:
            refused = await self.hooks.may_call(call.position, call.tool, call.arguments, bind)
            if refused is not None:
                return refused
        return await self.approval.may_call(call.tool, call.arguments, context)


ContextFactory = Callable[[str, Callable[[ToolResult], None]], ToolContext]
Refusal = Callable[[], str | None]


async def run_calls(
    log: RunRecorder,
    tools: Mapping[str, Tool],
    make_context: ContextFactory,
    refusal: Refusal,
    gates: CallGates | None = None,
    trace: "CallTrace | None" = None,
) -> None:
    """Execute all calls of the turn's message; every one has a result when this returns or is cancelled.

    A tool that raises has failed alone; the others continue. Sequential execution is used when any called tool asks for
    it; otherwise at most `MAX_TOOLS_AT_ONCE` run at the same time (R-LIM-04).

    Args:
        log: Where starts, progress and ends are written.
        tools: The active tools by name.
        make_context: Makes a tool's context, for a call id and a function that takes its progress.
        refusal: Returns why no call may be executed, or None; called before gates are asked, and before each call.
        gates: Ask about each call; None: nothing does.
        trace: Traces each call; None: nothing does.
    """
    prepare = partial(_prepare, log, tools, make_context, trace)
    hooks = None if gates is None else gates.hooks
    if gates is None or (hooks is None and not gates.approval.is_active):
        # Contexts are made here, in call order, which decides the order at a file that several calls change.
        prepared = [call for index in range(len(log.calls)) if (call := prepare(index))]
        await _execute_all(log, prepared, refusal, None)
        return
    async with nullcontext() if hooks is None else hooks.publishing():
        prepared = list[_Prepared]()
        for index in range(len(log.calls)):
            call = prepare(index, is_gated=gates.may_refuse)
            if call is None:
                continue
            if (problem := refusal()) is not None:  # some gates are missing: asking the others decides nothing
                log.end_call(index, error_result(errors.tool_not_executed(problem)), 0)
                continue
            refused = await gates.ask(call)
            if refused is None:
                prepared.append(call)
            else:
                log.end_call(index, refused)
        await _execute_all(log, prepared, refusal, gates)


async def _execute_all(
    log: RunRecorder, prepared: Sequence[_Prepared], refusal: Refusal, gates: CallGates | None
) -> None:
    if any(call.tool.is_sequential for call in prepared):
        for call in prepared:
            # A call may end without having noticed that it was cancelled: the next must not begin.
            await trio.lowlevel.checkpoint_if_cancelled()
            await _execute(log, call, refusal, gates)
        return
    # DEVIATION D-45: at once in every profile, so that a message which is queued meanwhile skips none of them.
    limiter = trio.CapacityLimiter(MAX_TOOLS_AT_ONCE)

    async def execute(call: _Prepared) -> None:
        try:
            await _execute(log, call, refusal, gates)
        finally:
            limiter.release_on_behalf_of(call.position)

    async with trio.open_nursery() as nursery:
        # Begun in call order, also those that wait: it decides who comes first at a file that several calls change.
        for call in prepared:
            if limiter.available_tokens:
                limiter.acquire_on_behalf_of_nowait(call.position)
            else:
                await limiter.acquire_on_behalf_of(call.position)
            nursery.start_soon(execute, call, name=f"tool:{call.tool.name}:{log.calls[call.position]['id']}")


def _prepare(
    log: RunRecorder,
    tools: Mapping[str, Tool],
    make_context: ContextFactory,
    trace: "CallTrace | None",
    index: int,
    *,
    is_gated: bool = False,
) -> _Prepared | None:
    call = log.calls[index]
    log.start_call(index, is_gated=is_gated)
    tool = tools.get(call["name"])
    if tool is None:
        log.end_call(index, error_result(errors.tool_not_found(call["name"])), 0)
        return None
    try:
        arguments = validate_arguments(tool, _raw(call))
    except ToolError as error:
        log.end_call(index, error_result(str(error)), 0)
        return None
    context = make_context(call["id"], partial(log.update_call, index))
    return _Prepared(index, tool, arguments, context, is_gated, trace)


def _raw(call: ToolCall) -> Mapping[str, object]:
    # DEVIATION D-14: what was salvaged of malformed arguments is not executed.
    if problem := call.get("argumentsError"):
        raise malformed_arguments(call["name"], problem)
    return call["arguments"]


class _Refused(Exception):
    """A call that was approved is refused now; holds its result."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result)
        self.result = result


async def _run(call: _Prepared, refusal: Refusal, gates: CallGates | None) -> ToolResult:
    """Carry out a call; ask again where it would change another file than the one that was approved.

    Raises:
        _Refused: It was asked about again, and refused.
    """
    for asked in range(1, _MOST_ASKED + 1):
        try:
            with call.traced():
                return await call.tool.execute(call.arguments, call.context)
        except ApprovalOutdated:
            if gates is None:
                raise
        if asked == _MOST_ASKED:
            break
        # How long a user takes to answer is not the tool's time.
        limit = call.context.time_limit
        left_s, limit.deadline = limit.deadline - trio.current_time(), math.inf
        if (refused := await gates.ask(call)) is not None:
            raise _Refused(refused)
        if (problem := refusal()) is not None:
            raise _Refused(error_result(errors.tool_not_executed(problem)))
        limit.deadline = trio.current_time() + left_s
    raise ToolError(
        f"{call.tool.name} was not run: each time it was approved, its path led to another file when it was to run"
    )


async def _execute(log: RunRecorder, call: _Prepared, refusal: Refusal, gates: CallGates | None) -> None:
    if (problem := refusal()) is not None:
        log.end_call(call.position, error_result(errors.tool_not_executed(problem)), 0)
        return
    if call.is_gated:
        call.context.on_update(ToolResult([]))  # the client learns that it was not refused
    started = trio.current_time()
    context = call.context
    limit, limit_s = context.time_limit, context.timeout_s
    if limit_s is not None:
        limit.deadline = trio.current_time() + limit_s
    is_aborted = False

    def abort() -> None:
        nonlocal is_aborted
        is_aborted = True
        limit.cancel()

    log.let_abort(call.position, abort)
    result = error_result(errors.OPERATION_ABORTED)
    duration_ms = None
    has_run = True
    try:
        try:
            with limit:
                result = await _run(call, refusal, gates)
                # Cancelled here, the call has its whole result all the same.
                result = await with_fitting_images(result, resizes=context.resizes_images)
            if limit.cancelled_caught and is_aborted:
                result = context.aborted_result or result
            elif limit.cancelled_caught:
                result = error_result(errors.tool_timed_out(number_text(limit_s or 0)))
        except trio.Cancelled:
            result = context.aborted_result or result
            if log.defect is not None:
                result = error_result(f"Internal error: {log.defect}")
            raise
        except _Refused as refused:
            result, has_run = refused.result, False
        except ToolError as error:
            result = error_result(str(error))
        except Exception as error:  # a tool's defect is a result that the model can act on; the batch continues
            result = error_result(str(error) or type(error).__name__)
        finally:
            duration_ms = round((trio.current_time() - started) * 1000)
        if gates is not None and (hooks := gates.hooks) is not None and has_run:
            # Likewise: what was done is not undone by an abort.
            result = await hooks.result_of(call.position, call.tool, call.arguments, result)
    finally:
        log.end_call(call.position, result, duration_ms)
