"""The commands that make an agent work, as typed methods: texts, their queue, shells, compaction, settings.

One method a command, under its wire name; arguments are the wire's fields in snake case, left out when they are not
given. Each waits for its answer and returns its data as it is. Must not know how a command travels: `request` does. The
blocking methods are generated from this file (`generate`); the rest is in `session_commands`.

All raise `CommandFailed` if the agent says so, and `AgentExited` if it is gone. Cancelled while it waits, a command
that was not written yet is not sent; one that was is carried out.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, cast

from pinnace_rpc.client.answers import data_of, optional_data
from pinnace_rpc.client.replies import Cleared, CompactionResult, Disposition, Hello, QueuedTexts, ShellResult
from pinnace_spec.messages import ImageContent, QueueMode
from pinnace_spec.profiles import ClientProfile


class WorkCommands(ABC):
    """Commands that make the agent work, and that say how it works."""

    @abstractmethod
    async def request(self, command: str, /, **fields: object) -> object:
        """Send any command, also one that is not known here; return its data. Fields that are None are left out."""

    async def hello(self, *, protocol: ClientProfile | None = None) -> Hello:
        """Ask what the agent is; as the first command, choose the profile. Other agents than pinnace don't know it."""
        data = await self.request("hello", protocol=protocol)
        return cast("Hello", data_of("hello", data))

    async def prompt(
        self,
        message: str,
        *,
        images: Sequence[ImageContent] | None = None,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
    ) -> Disposition | None:
        """Ask the agent; return as soon as it has accepted. While it works, `streaming_behavior` says how to queue.

        `run` also waits for the end, `stream_text` gives the text as it comes.
        """
        data = await self.request("prompt", message=message, images=images, streamingBehavior=streaming_behavior)
        return cast("Disposition | None", optional_data(data))

    async def steer(self, message: str, *, images: Sequence[ImageContent] | None = None) -> Disposition | None:
        """Queue a text for the next request."""
        data = await self.request("steer", message=message, images=images)
        return cast("Disposition | None", optional_data(data))

    async def follow_up(self, message: str, *, images: Sequence[ImageContent] | None = None) -> Disposition | None:
        """Queue a text for when the agent would stop."""
        data = await self.request("follow_up", message=message, images=images)
        return cast("Disposition | None", optional_data(data))

    async def clear_queue(self) -> QueuedTexts:
        """Withdraw what is queued; return it."""
        data = await self.request("clear_queue")
        return cast("QueuedTexts", data_of("clear_queue", data))

    async def abort(self, *, queue: Literal["hold", "clear", "continue"] | None = None) -> Cleared | None:
        """End what works; return when it has ended. `queue` says what becomes of queued texts; "clear" returns them."""
        data = await self.request("abort", queue=queue)
        return cast("Cleared | None", optional_data(data))

    async def abort_retry(self) -> None:
        """Don't try again."""
        await self.request("abort_retry")

    async def bash(self, command: str, *, exclude_from_context: bool | None = None) -> ShellResult:
        """Run a shell command in the agent's folder; the model will see its output, unless that is excluded."""
        data = await self.request("bash", command=command, excludeFromContext=exclude_from_context)
        return cast("ShellResult", data_of("bash", data))

    async def abort_bash(self) -> None:
        """End every `bash`."""
        await self.request("abort_bash")

    async def compact(self, *, custom_instructions: str | None = None) -> CompactionResult:
        """Summarise the conversation; what works is ended first."""
        data = await self.request("compact", customInstructions=custom_instructions)
        return cast("CompactionResult", data_of("compact", data))

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Turn automatic compaction on or off."""
        await self.request("set_auto_compaction", enabled=enabled)

    async def set_auto_retry(self, enabled: bool) -> None:
        """Turn automatic retry on or off."""
        await self.request("set_auto_retry", enabled=enabled)

    async def set_steering_mode(self, mode: QueueMode) -> None:
        """Set how many steering texts a delivery takes."""
        await self.request("set_steering_mode", mode=mode)

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        """Set how many follow-ups a delivery takes."""
        await self.request("set_follow_up_mode", mode=mode)
