"""A tool of an extension, as the agent calls it.

A failure becomes a result that the model can react to, so it is logged and not reported as an error record. Returned
values are read by `tool_results`; approval hooks are in `handlers.gates`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import cast

from pinnace_agent.core.json_values import is_object, json_copy
from pinnace_agent.extensions.api.contexts import CURRENT_CALL, Binding, Context, ToolContext
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.handlers.thread_proxy import thread_context
from pinnace_agent.extensions.registration.registrations import Extension, ToolDefinition
from pinnace_agent.extensions.runtime.tool_results import ReportUnknown, base_result, failed_result, tool_result
from pinnace_agent.extensions.services.error_records import failure_text, ownership
from pinnace_agent.extensions.services.watchdog import Owner
from pinnace_agent.tools import base

_log = logging.getLogger("pinnace.extensions")


class ExtensionTool:
    """One tool: a `tools.base.Tool`."""

    def __init__(
        self,
        extension: Extension,
        definition: ToolDefinition,
        binding: Binding,
        caller: Caller,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """Call the definition's function with `caller`; `room` waits until the client has read enough progress."""
        self.extension = extension
        self.definition = definition
        self._binding = binding
        self._caller = caller
        self._room = room

    @property
    def name(self) -> str:
        """The name that models use."""
        return self.definition.name

    @property
    def label(self) -> str:
        """The display name."""
        return self.definition.label or self.definition.name

    @property
    def description(self) -> str:
        """The description for models."""
        return self.definition.description

    @property
    def snippet(self) -> str:
        """One line for the system prompt; empty: the tool is not listed there."""
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
    def checks_itself(self) -> bool:
        """Whether rare keywords are left to it."""
        return self.definition.checks_itself

    @property
    def is_read_only(self) -> bool:
        """Whether its author declares that it changes nothing."""
        return self.definition.is_read_only

    def withdraw(self, reason: str) -> bool:
        """Let the extension withdraw the tool, which a provider refuses; return whether it has.

        Args:
            reason: The provider's text.
        """
        withdraw = self.definition.on_refused
        if withdraw is None:
            return False
        try:
            withdraw(Context(self._binding, self.extension.path), reason)
        except Exception:  # the extension's own code may raise anything
            _log.exception("tool %s of %s can't be withdrawn", self.name, self.extension.path)
            return False
        return True

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Repair arguments with the extension's function.

        Raises:
            ToolError: The function failed; the text is the result of the call.
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
            ToolError: The function failed; the text is the result of the call.
        """
        definition = self.definition
        owner = Owner(self.extension.path, f"tool {self.name}")
        unknown = partial(self._caller.report_unknown, owner)
        progress = partial(_report_progress, ctx, unknown)
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
        except Exception as error:  # the value's own code may raise anything
            _log.error("tool %s of %s returned what can't be used: %s", self.name, self.extension.path, error)
            raise base.ToolError(f"{self.name} returned what can't be used: {failure_text(error)}") from error

    def _failure(self, error: BaseException) -> base.ToolError:
        """Return a failure as an error for the model.

        Raises:
            BaseException: The passing part, if there is one.
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


def _report_progress(ctx: base.ToolContext, unknown: ReportUnknown, partial_result: object) -> None:
    ctx.on_update(base_result(tool_result(partial_result, unknown)))
