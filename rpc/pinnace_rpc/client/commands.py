"""The commands that make an agent work, as typed methods: messages, their queue, shells, compaction, settings.

One method a command, under its wire name; arguments are the wire's fields in snake case, left out when they are not
given. Each waits for its answer and returns its data as it is. Has no access to the transport: `request` is the only
way to send. The blocking methods are generated from this file (`generate`); the rest is in `session_commands`.

All raise `CommandFailed` if the agent reports a failure, and `AgentExited` if it has exited. Cancelled while it waits,
a command that was not written yet is not sent; a written one is executed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, cast

from pinnace_rpc.client.answers import data_of, optional_data
from pinnace_rpc.client.records.replies import Cleared, CompactionResult, Disposition, Hello, QueuedTexts, ShellResult
from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.messages import ContextItem, ImageContent, QueueMode


class WorkCommands(ABC):
    """Commands that start and control the agent's work."""

    @abstractmethod
    async def request(self, command: str, /, **fields: object) -> object:
        """Send any command, also one without a method here; return its data. Fields that are None are left out."""

    async def hello(self, *, protocol: ClientProfile | None = None, directories: Sequence[str] | None = None) -> Hello:
        """Identify the agent; as the first command, select the profile. Only pinnace has this command.

        Args:
            protocol: The profile.
            directories: The additional folders from now on, as absolute paths, in place of those of `--add-dir`.
        """
        data = await self.request("hello", protocol=protocol, directories=directories)
        return cast("Hello", data_of("hello", data))

    async def prompt(
        self,
        message: str,
        *,
        images: Sequence[ImageContent] | None = None,
        context: Sequence[ContextItem] | None = None,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
        message_id: str | None = None,
    ) -> Disposition | None:
        """Send a prompt; return as soon as it is accepted. During a run, `streaming_behavior` selects the queue.

        `run` also waits for the end, `stream_text` yields the text as it arrives. `message_id` is the identity of the
        message, 1 to 128 characters: records and the session name it. None: the agent makes one. `context` are texts
        that go with it, such as files that an editor has open: each has `uri` and `text`, and `mimeType` if known.
        """
        data = await self.request(
            "prompt",
            message=message,
            images=images,
            context=context,
            streamingBehavior=streaming_behavior,
            messageId=message_id,
        )
        return cast("Disposition | None", optional_data(data))

    async def steer(
        self,
        message: str,
        *,
        images: Sequence[ImageContent] | None = None,
        context: Sequence[ContextItem] | None = None,
        message_id: str | None = None,
    ) -> Disposition | None:
        """Queue a text for the next request; `message_id` and `context` as for `prompt`."""
        data = await self.request("steer", message=message, images=images, context=context, messageId=message_id)
        return cast("Disposition | None", optional_data(data))

    async def follow_up(
        self,
        message: str,
        *,
        images: Sequence[ImageContent] | None = None,
        context: Sequence[ContextItem] | None = None,
        message_id: str | None = None,
    ) -> Disposition | None:
        """Queue a text for when the agent would stop; `message_id` and `context` as for `prompt`."""
        data = await self.request("follow_up", message=message, images=images, context=context, messageId=message_id)
        return cast("Disposition | None", optional_data(data))

    async def clear_queue(self, *, by: str | None = None) -> QueuedTexts:
        """Empty the queue; return its messages. Repeated with the same `by`, it returns the same ones again."""
        data = await self.request("clear_queue", by=by)
        return cast("QueuedTexts", data_of("clear_queue", data))

    async def abort(self, *, queue: Literal["hold", "clear", "continue"] | None = None) -> Cleared | None:
        """Abort the run; return when it has ended. `queue`: what becomes of queued messages; "clear" returns them."""
        data = await self.request("abort", queue=queue)
        return cast("Cleared | None", optional_data(data))

    async def abort_retry(self) -> None:
        """Cancel a pending retry."""
        await self.request("abort_retry")

    async def bash(self, command: str, *, exclude_from_context: bool | None = None) -> ShellResult:
        """Run a shell command in the agent's folder; the model gets its output, unless that is excluded."""
        data = await self.request("bash", command=command, excludeFromContext=exclude_from_context)
        return cast("ShellResult", data_of("bash", data))

    async def abort_bash(self) -> None:
        """End every `bash`."""
        await self.request("abort_bash")

    async def compact(self, *, custom_instructions: str | None = None) -> CompactionResult:
        """Summarise the conversation; a run is ended first."""
        data = await self.request("compact", customInstructions=custom_instructions)
        return cast("CompactionResult", data_of("compact", data))

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Turn automatic compaction on or off."""
        await self.request("set_auto_compaction", enabled=enabled)

    async def set_auto_retry(self, enabled: bool) -> None:
        """Turn automatic retry on or off."""
        await self.request("set_auto_retry", enabled=enabled)

    async def set_steering_mode(self, mode: QueueMode) -> None:
        """Set how many steering messages are delivered at once."""
        await self.request("set_steering_mode", mode=mode)

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        """Set how many follow-ups are delivered at once."""
        await self.request("set_follow_up_mode", mode=mode)
