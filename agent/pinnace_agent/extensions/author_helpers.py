"""What authors need beside `pi` and `ctx`, so that their tools behave as the built-in ones do (1.6).

Cuts texts as those do, waits in line for a file with them, asks a model. Resolved by `pinnace.extensions` when one of
these names is used. Must not know sessions in force, nor records.
"""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.extensions.handler_context import Context
from pinnace_agent.extensions.result_shapes import is_list, is_object
from pinnace_agent.extensions.tool_context import CURRENT_CALL
from pinnace_agent.resources import paths
from pinnace_agent.tools import base
from pinnace_agent.tools.mutation_queue import MUTATIONS
from pinnace_agent.tools.paths import resolve_path
from pinnace_agent.truncation import MAX_BYTES, MAX_LINES, Truncation, format_size, truncate_head, truncate_tail
from pinnace_spec.messages import AssistantMessage, Message, Model, ThinkingLevel, UserMessage

if TYPE_CHECKING:
    from pinnace_agent.llm.builder import MessageBuilder
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
"""What `truncate_head` and `truncate_tail` keep at most."""
DEFAULT_MAX_BYTES: Final = MAX_BYTES
CONFIG_DIR_NAME: Final = paths.project_dir(Path()).name
"""The folder in which a project brings its own configuration."""
_LINE_CHARS: Final = 500
_CUT: Final = "... [truncated]"


class SessionManager:
    """Finds sessions; the one that is open is read by `ctx.session_manager`."""

    @staticmethod
    async def list(
        cwd: str | os.PathLike[str], session_dir: str | os.PathLike[str] | None = None
    ) -> Sequence["SessionInfo"]:
        """Return the sessions of a working folder, the one in which something happened last first.

        Args:
            cwd: The working folder.
            session_dir: Where they are kept, by default where the environment and the user's settings say. With
                `--session-dir`, that is `ctx.session_manager.get_session_dir()`.
        """
        from pinnace_agent.session.listing import list_sessions

        folder = os.fspath(cwd)
        return await trio.to_thread.run_sync(lambda: list_sessions(_session_folder(folder, session_dir), folder))

    @staticmethod
    async def list_all(session_dir: str | os.PathLike[str] | None = None) -> Sequence["SessionInfo"]:
        """Return the sessions of all working folders, the one in which something happened last first."""
        from pinnace_agent.session.folders import sessions_root
        from pinnace_agent.session.listing import list_all_sessions

        root = sessions_root(agent_dir())
        return await trio.to_thread.run_sync(lambda: list_all_sessions(root, _session_folder(os.getcwd(), session_dir)))


def _session_folder(cwd: str, session_dir: str | os.PathLike[str] | None) -> "SessionFolder":
    from pinnace_agent.resources.configuration import load_configuration
    from pinnace_agent.session.folders import choose_folder

    chosen = None if session_dir is None else os.fspath(session_dir)
    setting = None if chosen else load_configuration(os.environ, Path(cwd)).settings.session_dir
    return choose_folder(agent_dir(), cwd, chosen, os.environ, setting)


class ModelError(RuntimeError):
    """A model that was asked did not answer; the text says why."""


def truncate_line(line: str, max_chars: int = _LINE_CHARS) -> str:
    """Cut a line that is too long, and say so at its end."""
    return line if len(line) <= max_chars else f"{line[:max_chars]}{_CUT}"


@asynccontextmanager
async def file_mutation(path: str | os.PathLike[str]) -> AsyncGenerator[None, None]:
    """Hold a file while it is read, changed and written: `edit`, `write` and others' tools wait, and so does this.

    In a tool the calls of one turn get the file in the order in which the model has made them.

    Args:
        path: Of this machine; may not be there yet. In a tool, as models write paths; relative to where tools work.

    Raises:
        ToolError: It is no path that a file can have.
    """
    call = CURRENT_CALL.get()
    cwd = os.getcwd() if call is None else call.cwd
    order = _next_order() if call is None else call.order
    async with MUTATIONS.hold(resolve_path(os.fspath(path), cwd), order):
        yield


def _next_order() -> int:
    """Return a place behind all calls that were made so far."""
    return base.ToolContext("", "", lambda _progress: None, {}).order


def agent_dir() -> Path:
    """Return the user's own folder, with settings, extensions and keys. It may not exist."""
    return paths.agent_dir(os.environ)


def message_text(message: Mapping[str, object]) -> str:
    """Return what a message says, without thoughts, calls and images."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if is_list(content) else ()
    texts = (block.get("text") for block in blocks if is_object(block) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def serialize_conversation(messages: Iterable[Message]) -> str:
    """Write messages down as one text, for a model that is to read a conversation and not to go on with it."""
    from pinnace_agent.compaction.serialisation import paragraphs

    return "\n\n".join(paragraphs(messages))


async def complete(
    ctx: Context,
    question: str | Sequence[Message],
    *,
    model: Model | None = None,
    system_prompt: str = "",
    thinking_level: ThinkingLevel = "off",
    max_tokens: int | None = None,
) -> AssistantMessage:
    """Ask a model, beside the conversation; cancelling hangs up. `message_text` is the text of the answer.

    Args:
        ctx: Where the model and its key come from.
        question: A text, or messages, the last of them not the model's own.
        model: Whom to ask; None: the active one.
        system_prompt: What it should know first.
        thinking_level: How long it may think.
        max_tokens: The longest answer; None: as long as the model can.

    Raises:
        ModelError: There is no model, or it refused; nothing is tried again.
    """
    from pinnace_agent.llm.base import LlmRequest
    from pinnace_agent.llm.builder import MessageBuilder
    from pinnace_agent.llm.providers import unsupported_api

    chosen = model or ctx.model
    if chosen is None:
        raise ModelError("there is no model to ask: none is active, and none was named")
    provider = ctx.model_registry.provider_for(chosen)
    if provider is None:
        raise ModelError(unsupported_api(chosen["api"]).text)
    api_key, headers = await ctx.model_registry.api_key_and_headers(chosen)
    messages: Sequence[Message] = (_said(question),) if isinstance(question, str) else tuple(question)
    request = LlmRequest(
        model=chosen,
        system_prompt=system_prompt,
        messages=messages,
        tools=(),
        thinking_level=thinking_level,
        api_key=api_key,
        headers=headers,
        session_id=ctx.session_manager.get_session_id(),
        max_tokens=max_tokens,
    )
    builder = MessageBuilder(chosen, _Silence(), 0)
    await provider.stream(request, builder)
    answer = builder.message
    if answer["stopReason"] in ("error", "aborted"):
        raise ModelError(answer.get("errorMessage") or "the model failed without a reason")
    return answer


class _Silence:
    """Takes what a model says bit by bit, and tells nobody."""

    def started(self, message: AssistantMessage) -> None:
        pass

    def update(self, event: Mapping[str, object], builder: "MessageBuilder") -> None:
        pass

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()


def _said(text: str) -> UserMessage:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}
