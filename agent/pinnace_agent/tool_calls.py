"""Runs the tool calls of one turn: prepared one after another, then all at once.

Order (R-RUN-02, R-RUN-03): starts in call order, each with its own refusal at once; ends in the order of completion;
the results are appended in call order by whoever asked. Cancelling ends every call; each cancelled call has told its
result before `Cancelled` leaves. A call that takes too long ends alone (R-LIM-03). Must not know the chart, providers
or stdout.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import trio

from pinnace_agent.run_log import RunLog, error_result
from pinnace_agent.tools.base import Tool, ToolContext, ToolError, ToolResult
from pinnace_agent.tools.result_images import with_fitting_images
from pinnace_agent.tools.validation import malformed_arguments, number_text, validate_arguments
from pinnace_spec import errors
from pinnace_spec.messages import ToolCall


class _Prepared(NamedTuple):
    position: int
    tool: Tool
    arguments: dict[str, object]
    context: ToolContext


ContextFactory = Callable[[str, Callable[[ToolResult], None]], ToolContext]
Refusal = Callable[[], str | None]


async def run_calls(log: RunLog, tools: Mapping[str, Tool], make_context: ContextFactory, refusal: Refusal) -> None:
    """Execute all calls of the turn's message; every one has a result when this returns or is cancelled.

    A tool that raises has failed alone; the others go on. Sequential execution is used when any called tool asks for
    it.

    Args:
        log: Where starts, progress and ends are written.
        tools: The active tools by name.
        make_context: Makes what a tool may know, for a call id and a function that takes its progress.
        refusal: Returns why no call may be carried out, or None; asked before gates are, and again before each call.
    """
    if log.hooks is None:
        # Contexts are made here, in call order: it decides who comes first at a file that several calls change.
        prepared = [call for index in range(len(log.calls)) if (call := _prepare(log, tools, index, make_context))]
        await _execute_all(log, prepared, refusal)
        return
    async with log.hooks.telling():
        prepared = list[_Prepared]()
        for index in range(len(log.calls)):
            call = _prepare(log, tools, index, make_context)
            if call is None:
                continue
            if (problem := refusal()) is not None:  # the gates are not all there: asking some of them decides nothing
                log.end_call(index, error_result(errors.tool_not_executed(problem)), 0)
                continue
            refused = await log.hooks.may_call(index, call.tool, call.arguments)
            if refused is None:
                prepared.append(call)
            else:
                log.end_call(index, refused)
        await _execute_all(log, prepared, refusal)


async def _execute_all(log: RunLog, prepared: Sequence[_Prepared], refusal: Refusal) -> None:
    if any(call.tool.is_sequential for call in prepared):
        for call in prepared:
            await _execute(log, call, refusal)
        return
    async with trio.open_nursery() as nursery:
        for call in prepared:
            name = f"tool:{call.tool.name}:{log.calls[call.position]['id']}"
            nursery.start_soon(_execute, log, call, refusal, name=name)


def _prepare(log: RunLog, tools: Mapping[str, Tool], index: int, make_context: ContextFactory) -> _Prepared | None:
    call = log.calls[index]
    log.start_call(index)
    tool = tools.get(call["name"])
    if tool is None:
        log.end_call(index, error_result(errors.tool_not_found(call["name"])), 0)
        return None
    try:
        arguments = validate_arguments(tool, _raw(call))
    except ToolError as error:
        log.end_call(index, error_result(str(error)), 0)
        return None
    return _Prepared(index, tool, arguments, make_context(call["id"], partial(log.update_call, index)))


def _raw(call: ToolCall) -> Mapping[str, object]:
    # DEVIATION D-14: what was salvaged of malformed arguments is not executed.
    if problem := call.get("argumentsError"):
        raise malformed_arguments(call["name"], problem)
    return call["arguments"]


async def _execute(log: RunLog, call: _Prepared, refusal: Refusal) -> None:
    if (problem := refusal()) is not None:
        log.end_call(call.position, error_result(errors.tool_not_executed(problem)), 0)
        return
    started = time.monotonic()
    context = call.context
    limit, limit_s = context.time_limit, context.timeout_s
    if limit_s is not None:
        limit.deadline = trio.current_time() + limit_s
    result = error_result(errors.OPERATION_ABORTED)
    duration_ms = None
    try:
        try:
            with limit:
                result = await call.tool.execute(call.arguments, context)
                # Cancelled here, the call has its whole result all the same.
                result = await with_fitting_images(result, resizes=context.resizes_images)
            if limit.cancelled_caught:
                result = error_result(errors.tool_timed_out(number_text(limit_s or 0)))
        except trio.Cancelled:
            result = context.aborted_result or result
            if log.defect is not None:
                result = error_result(f"Internal error: {log.defect}")
            raise
        except ToolError as error:
            result = error_result(str(error))
        except Exception as error:  # a tool's defect is a result that the model can act on; the batch goes on
            result = error_result(str(error) or type(error).__name__)
        finally:
            duration_ms = round((time.monotonic() - started) * 1000)
        if log.hooks is not None:
            # Likewise: what was done is not undone by an abort.
            result = await log.hooks.result_of(call.position, call.tool, call.arguments, result)
    finally:
        log.end_call(call.position, result, duration_ms)
