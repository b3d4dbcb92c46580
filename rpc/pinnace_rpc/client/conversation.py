"""The conversation with one agent, wherever it runs: its beginning and its end, runs, texts, events and any command.

What differs between the places is how a conversation begins (`_begin`). Independent of processes.
"""

from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from anyio.lowlevel import checkpoint_if_cancelled

from pinnace_rpc.client.commands import Commands
from pinnace_rpc.client.connection.lifetime import Lifetime
from pinnace_rpc.client.connection.tasks import keep_interrupts_out
from pinnace_rpc.client.failures import ClientClosed
from pinnace_rpc.client.records.progress import Run
from pinnace_rpc.client.runs import FollowedRun, TextStream, checked
from pinnace_rpc.client.subscriptions import Events
from pinnace_spec.records.messages import ImageContent


class Conversation(Commands):
    """Begins an agent on entry, ends it on exit; nothing of it outlives the `async with`, also after an error.

    What is raised inside comes out as it is. Methods may be called from any task of the same loop.
    """

    def __init__(self) -> None:
        """Prepare; the agent is begun by `async with`."""
        self._lifetime: Lifetime | None = None

    @abstractmethod
    async def _begin(self) -> Lifetime:
        """Begin the agent, or leave nothing behind."""

    async def __aenter__(self) -> Self:
        """Begin the agent, once.

        Raises:
            RuntimeError: It was begun before.
        """
        keep_interrupts_out(type(self).__aenter__, type(self).__aexit__)

        if self._lifetime is not None:
            raise RuntimeError("a client starts one agent, once: make another client")
        self._lifetime = await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.leave()

    @property
    def is_connected(self) -> bool:
        """Whether the agent can be reached."""
        return not self._open.link.is_over

    async def request(self, command: str, /, **fields: object) -> object:
        """Send any command, also one without a method here; return its data. Fields that are None are left out.

        Cancelled, a command that was not written yet is not sent; a written one is executed.

        Raises:
            CommandFailed: The agent has refused the command, or it has failed. AgentExited: The agent has exited.
            ProtocolError: It wrote a line that is not a record.
        """
        link = self._open.link
        await checkpoint_if_cancelled()
        return await link.answer(link.ask(command, fields))

    async def run(self, message: str, *, images: Sequence[ImageContent] | None = None, check: bool = True) -> Run:
        """Ask the agent, and wait until it has settled: retries, compactions and queued texts included.

        On cancellation the agent is aborted, which takes three seconds at most.

        Args:
            message: The prompt.
            images: Pictures for it.
            check: Raise if the run has ended with an error. An aborted run has not failed.

        Raises:
            RunFailed: The last answer has failed, for instance since the key is wrong; with the result so far.
            CommandFailed: The prompt was refused, for instance since the agent is at work.
            AgentExited: The agent has exited.
        """
        link = self._open.link
        await checkpoint_if_cancelled()
        followed = FollowedRun(self, link, message, images)
        while await followed.take():
            pass
        return checked(followed.result()) if check else followed.result()

    def stream_text(self, message: str, *, images: Sequence[ImageContent] | None = None) -> TextStream:
        """Ask the agent, and get the model's text as it arrives: an async iterator of pieces."""
        return TextStream(self, self._open.link, message, images)

    def events(self) -> Events:
        """Collect every event from now on; an async iterator. Any number of them, independent of each other."""
        if self._open.is_left:
            raise ClientClosed
        return self._open.link.hub.subscribe()

    @property
    def _open(self) -> Lifetime:
        if self._lifetime is None:
            raise ClientClosed
        return self._lifetime
