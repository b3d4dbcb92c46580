"""A tool of an extension, as the agent calls it.

A failure is a result that the model can act on, so it is logged and never told as an error record. Must not know gates,
nor what a returned value means (`tool_results`). T2, 2.5.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import cast

from pinnace_agent.extensions.calling import Caller
from pinnace_agent.extensions.contexts import Binding, ToolContext
from pinnace_agent.extensions.error_records import failure_text, ownership
from pinnace_agent.extensions.json_values import json_copy
from pinnace_agent.extensions.registrations import Extension, ToolDefinition
from pinnace_agent.extensions.result_shapes import is_object
from pinnace_agent.extensions.thread_proxy import thread_context
from pinnace_agent.extensions.tool_context import CURRENT_CALL
from pinnace_agent.extensions.tool_results import ReportUnknown, base_result, failed_result, tool_result
from pinnace_agent.extensions.watchdog import Owner
from pinnace_agent.tools import base

_log = logging.getLogger("pinnace.extensions")


class ExtensionTool:
    """One tool; an `agent.tools.base.Tool`."""

    def __init__(
        self,
        extension: Extension,
        definition: ToolDefinition,
        binding: Binding,
        caller: Caller,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """Call the definition's function as `caller` does; `room` waits for the reader of progress."""
        self.extension = extension
        self.definition = definition
        self._binding = binding
        self._caller = caller
        self._room = room

    @property
    def name(self) -> str:
        """The name that models call it by."""
        return self.definition.name

    @property
    def label(self) -> str:
        """A name for people."""
        return self.definition.label or self.definition.name

    @property
    def description(self) -> str:
        """What it does, for models."""
        return self.definition.description

    @property
    def snippet(self) -> str:
        """One line for the system prompt; empty: it is not listed there."""
        return self.definition.prompt_snippet or ""

    @property
    def guidelines(self) -> tuple[str, ...]:
        """Rules for the system prompt while the tool is active."""
        return self.definition.prompt_guidelines

    @property
    def parameters(self) -> Mapping[str, object]:
        """The JSON schema of the arguments."""
        return self.definition.parameters

    @property
    def is_sequential(self) -> bool:
        """Whether a turn that calls it runs all its calls one after another."""
        return self.definition.is_sequential

    @property
    def is_read_only(self) -> bool:
        """Whether it says of itself that it changes nothing."""
        return self.definition.is_read_only

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Repair arguments as the extension does.

        Raises:
            ToolError: Its repair failed; the text is the result of the call.
        """
        repair = self.definition.prepare_arguments
        if repair is None:
            return raw
        try:
            repaired: object = repair(cast("Mapping[str, object]", json_copy(raw, "arguments")))  # cast: a copy of it
        except BaseException as error:
            raise self._failure(error) from error
        if not is_object(repaired):
            raise base.ToolError(f"{self.name}: prepare_arguments must return an object of arguments")
        return repaired

    async def execute(self, args: Mapping[str, object], ctx: base.ToolContext) -> base.ToolResult:
        """Call the extension's function.

        Raises:
            ToolError: It failed; the text is the result.
        """
        definition = self.definition
        owner = Owner(self.extension.path, f"tool {self.name}")
        unknown = partial(self._caller.tell_unknown, owner)
        progress = partial(_tell_progress, ctx, unknown)
        own = ToolContext(self._binding, self.extension.path, ctx.call_id, ctx.time_limit, progress, self._room)
        context = thread_context(own) if definition.in_thread else own
        work = partial(definition.execute, context, dict(args))
        token = CURRENT_CALL.set(ctx)
        try:
            value = await self._caller.run(owner, work, in_thread=definition.in_thread, is_timed=False)
        except BaseException as error:
            raise self._failure(error) from error
        finally:
            CURRENT_CALL.reset(token)
        try:
            return base_result(tool_result(value, unknown))
        except Exception as error:  # what it returned may be anything, with code of its own
            _log.error("tool %s of %s returned what can't be used: %s", self.name, self.extension.path, error)
            raise base.ToolError(f"{self.name} returned what can't be used: {failure_text(error)}") from error

    def _failure(self, error: BaseException) -> base.ToolError:
        """Return what a failure is to the model.

        Raises:
            BaseException: What passes, if anything does.
        """
        passing, failure = ownership(error)
        if passing is not None:
            raise passing
        assert failure is not None
        if isinstance(failure, base.ToolError):
            return failure
        _log.error("tool %s of %s failed", self.name, self.extension.path, exc_info=failure)
        if isinstance(failure, Exception) and not isinstance(failure, BaseExceptionGroup):
            return base.ToolError(str(failed_result(failure).content))
        return base.ToolError(failure_text(failure))


def _tell_progress(ctx: base.ToolContext, unknown: ReportUnknown, partial_result: object) -> None:
    ctx.on_update(base_result(tool_result(partial_result, unknown)))
