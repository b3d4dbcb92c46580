"""Helpers beside `pi` and `ctx`: truncation, file locks and model requests as the built-in tools use them.

`pinnace.extensions` imports this module when one of its names is used.
"""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.core.json_values import is_list, is_object
from pinnace_agent.core.loop_thread import must_be_awaited
from pinnace_agent.core.surroundings import environment, working_folder
from pinnace_agent.extensions.api.contexts import CURRENT_CALL, Context
from pinnace_agent.files import paths
from pinnace_agent.shell.truncation import MAX_BYTES, MAX_LINES, Truncation, format_size, truncate_head, truncate_tail
from pinnace_agent.tools import base
from pinnace_agent.tools.change_queue import FILE_CHANGES
from pinnace_agent.tools.paths import resolve_path
from pinnace_spec.records.messages import AssistantMessage, Message, Model, ThinkingLevel, UserMessage

if TYPE_CHECKING:
    from pinnace_agent.session.folders import SessionFolder
    from pinnace_agent.session.listing import SessionInfo

__all__ = [
    "CONFIG_DIR_NAME",
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_LINES",
    "ModelError",
    "SessionManager",
    "Truncation",
    "agent_dir",
    "complete",
    "file_mutation",
    "format_size",
    "message_text",
    "serialize_conversation",
    "truncate_head",
    "truncate_line",
    "truncate_tail",
]

DEFAULT_MAX_LINES: Final = MAX_LINES
"""The most lines that `truncate_head` and `truncate_tail` keep."""
DEFAULT_MAX_BYTES: Final = MAX_BYTES
CONFIG_DIR_NAME: Final = paths.project_dir(Path()).name
"""The folder of a project's own configuration."""
_LINE_CHARS: Final = 500
_CUT: Final = "... [truncated]"


class SessionManager:
    """Lists sessions. The open session is read through `ctx.session_manager`."""

    @staticmethod
    @must_be_awaited
    async def list(
        cwd: str | os.PathLike[str], session_dir: str | os.PathLike[str] | None = None
    ) -> Sequence["SessionInfo"]:
        """Return the sessions of a working folder, the most recently used first.

        Args:
            cwd: The working folder.
            session_dir: The folder of their files, by default that of the environment and the user's settings. With
                `--session-dir`, that is `ctx.session_manager.get_session_dir()`.
        """
        from pinnace_agent.session.listing import list_sessions

        folder = os.fspath(cwd)
        return await trio.to_thread.run_sync(lambda: list_sessions(_session_folder(folder, session_dir), folder))

    @staticmethod
    @must_be_awaited
    async def list_all(session_dir: str | os.PathLike[str] | None = None) -> Sequence["SessionInfo"]:
        """Return the sessions of all working folders, the most recently used first."""
        from pinnace_agent.session.folders import sessions_root
        from pinnace_agent.session.listing import list_all_sessions

        root = sessions_root(agent_dir())
        return await trio.to_thread.run_sync(
            lambda: list_all_sessions(root, _session_folder(working_folder(), session_dir))
        )


def _session_folder(cwd: str, session_dir: str | os.PathLike[str] | None) -> "SessionFolder":
    from pinnace_agent.config.configuration import load_configuration
    from pinnace_agent.session.folders import choose_folder

    chosen = None if session_dir is None else os.fspath(session_dir)
    setting = None if chosen else load_configuration(environment(), Path(cwd)).settings.session_dir
    return choose_folder(agent_dir(), cwd, chosen, environment(), setting)


class ModelError(RuntimeError):
    """A model request failed; the text says why."""


def truncate_line(line: str, max_chars: int = _LINE_CHARS) -> str:
    """Truncate a line that is too long, and mark its end."""
    return line if len(line) <= max_chars else f"{line[:max_chars]}{_CUT}"


@asynccontextmanager
async def file_mutation(path: str | os.PathLike[str]) -> AsyncGenerator[None, None]:
    """Lock a file while it is read, changed and written: `edit`, `write` and tools of extensions take the same lock.

    In a tool, the calls of one turn acquire the lock in the order in which the model made them.

    Args:
        path: A file of this machine, which need not exist. In a tool, a path as models write it, relative to the
            working folder of tools.

    Raises:
        ToolError: The path is not valid for a file.
    """
    call = CURRENT_CALL.get()
    cwd = working_folder() if call is None else call.cwd
    order = _next_order() if call is None else call.order
    async with FILE_CHANGES.get().hold(resolve_path(os.fspath(path), cwd), order):
        yield


def _next_order() -> int:
    """Return a position behind all calls that were made so far."""
    return base.ToolContext("", "", lambda _progress: None, {}).order


def agent_dir() -> Path:
    """Return the agent folder, with the user's settings, extensions and keys. It may not exist."""
    return paths.agent_dir(environment())


def message_text(message: Mapping[str, object]) -> str:
    """Return the text of a message, without thinking, tool calls and images."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if is_list(content) else ()
    texts = (block.get("text") for block in blocks if is_object(block) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def serialize_conversation(messages: Iterable[Message]) -> str:
    """Write messages as one text, for a model that reads the conversation instead of continuing it."""
    from pinnace_agent.compaction.serialisation import paragraphs

    return "\n\n".join(paragraphs(messages))


@must_be_awaited
async def complete(
    ctx: Context,
    question: str | Sequence[Message],
    *,
    model: Model | None = None,
    system_prompt: str = "",
    thinking_level: ThinkingLevel = "off",
    max_tokens: int | None = None,
) -> AssistantMessage:
    """Request one answer of a model outside the conversation. Cancelling closes the request.

    `message_text` returns the text of the answer.

    Args:
        ctx: The context, with the model and its credentials.
        question: A string, or messages, the last of which is not the model's own.
        model: The model; None: the active one.
        system_prompt: The system prompt.
        thinking_level: The thinking level.
        max_tokens: The most tokens of the answer; None: the model's limit.

    Raises:
        ModelError: There is no model, or the request failed; it is not retried.
    """
    from pinnace_agent.core.control_text import clean_text
    from pinnace_agent.llm.builder import MessageBuilder, Silence
    from pinnace_agent.llm.providers import unsupported_api
    from pinnace_agent.llm.request import LlmRequest

    chosen = model or ctx.model
    if chosen is None:
        raise ModelError("there is no model: none is active, and none was given")
    provider = ctx.model_registry.provider_for(chosen)
    if provider is None:
        raise ModelError(unsupported_api(chosen["api"]).text)
    credentials = await ctx.model_registry.credentials(chosen)
    messages: Sequence[Message] = (_said(question),) if isinstance(question, str) else tuple(question)
    request = LlmRequest(
        model=chosen,
        system_prompt=clean_text(system_prompt),
        messages=messages,
        tools=(),
        thinking_level=thinking_level,
        api_key=credentials.api_key,
        headers=credentials.headers,
        session_id=ctx.session_manager.get_session_id(),
        max_tokens=max_tokens,
        variables=credentials.variables,
    )
    builder = MessageBuilder(chosen, Silence(), 0)
    await provider.stream(request, builder)
    answer = builder.message
    if answer["stopReason"] in ("error", "aborted"):
        raise ModelError(answer.get("errorMessage") or "the model failed without an error message")
    return answer


def _said(text: str) -> UserMessage:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}
