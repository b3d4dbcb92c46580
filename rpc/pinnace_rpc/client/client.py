"""`Client`: an agent for as long as an `async with` lasts, spoken to by methods.

What users see; the work is done in `lifetime` (process and tasks), `link` (records), `runs` and the commands. Must not
know what kind of agent it is: whatever speaks the protocol on stdin and stdout.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import trio

from pinnace_rpc.client.dialogs import Dialogs
from pinnace_rpc.client.failures import ClientClosed, ProtocolError
from pinnace_rpc.client.lifetime import Lifetime
from pinnace_rpc.client.progress import Run
from pinnace_rpc.client.runs import FollowedRun, TextStream, checked
from pinnace_rpc.client.session_commands import Commands
from pinnace_rpc.client.subscriptions import Events
from pinnace_spec.messages import ImageContent

# pinnace needs less than one second, other agents of the family two.
EXIT_TIMEOUT_S = 3.0


class Client(Commands):
    """Starts an agent on entry, ends it on exit; nothing of it outlives the `async with`, whatever happens inside.

    What is raised inside comes out as it is. Methods may be called from any task of the same trio run.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        dialogs: Dialogs | None = None,
        on_malformed: Callable[[ProtocolError], None] | None = None,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
    ) -> None:
        """Prepare; the agent is started by `async with`.

        Args:
            command: The agent with its arguments, for instance `["pinnace", "--mode", "rpc"]`.
            cwd: The folder that it works in; None: this process'.
            env: Its whole environment; None: this process'.
            dialogs: Who answers the dialogs of its extensions; nobody by default, so the answer is no.
            on_malformed: Gets what the agent writes and is no record; the conversation goes on. None: it ends, and
                everyone who waits gets the `ProtocolError`.
            exit_timeout_s: How long the agent may take to leave after the end of its stdin, before TERM and KILL.
        """
        self._command = checked_command(command)
        self._cwd = cwd
        self._env = None if env is None else dict(env)
        self._dialogs = dialogs or Dialogs()
        self._on_malformed = on_malformed
        self._exit_timeout_s = exit_timeout_s
        self._lifetime: Lifetime | None = None

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Self:
        """Start the agent.

        Raises:
            OSError: It could not be started.
        """
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError(
                "Client runs under trio (trio.run): under asyncio use AsyncioClient, in a program that is not async "
                "use BlockingClient"
            )
        if self._lifetime is not None:
            raise RuntimeError("a client starts one agent, once: make another client")
        self._lifetime = await Lifetime.enter(
            self._command, cwd=self._cwd, env=self._env, dialogs=self._dialogs, on_malformed=self._on_malformed
        )
        return self

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.leave(self._exit_timeout_s)

    @property
    def pid(self) -> int:
        """The id of the agent's process."""
        return self._open.process.pid

    @property
    def exit_code(self) -> int | None:
        """How the agent's process has ended, minus the signal if by one; None while it lives."""
        return self._open.process.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr, 64 KiB at most."""
        return self._open.process.stderr_tail

    async def request(self, command: str, /, **fields: object) -> object:
        """Send any command, also one that is not known here; return its data. Fields that are None are left out.

        Cancelled, a command that was not written yet is not sent; one that was is carried out.

        Raises:
            CommandFailed: The agent says so.
            AgentExited: The agent is gone.
            ProtocolError: It wrote what is no record.
        """
        link = self._open.link
        await trio.lowlevel.checkpoint_if_cancelled()
        return await link.answer(link.ask(command, fields))

    async def run(self, message: str, *, images: Sequence[ImageContent] | None = None, check: bool = True) -> Run:
        """Ask the agent, and wait until it has settled: retries, compactions and queued texts included.

        Cancelled, the agent is told to abort, and three seconds are given to it at most.

        Args:
            message: The prompt.
            images: Pictures for it.
            check: Raise if the run has ended with an error. What was aborted has not failed.

        Raises:
            RunFailed: The last answer has failed, for instance since the key is wrong; with what there is of the run.
            CommandFailed: The prompt was refused, for instance since the agent is at work.
            AgentExited: The agent is gone.
        """
        link = self._open.link
        await trio.lowlevel.checkpoint_if_cancelled()
        followed = FollowedRun(self, link, message, images)
        while await followed.take():
            pass
        return checked(followed.result()) if check else followed.result()

    def stream_text(self, message: str, *, images: Sequence[ImageContent] | None = None) -> TextStream:
        """Ask the agent, and get what the model says as it says it: an async iterator of pieces."""
        return TextStream(self, self._open.link, message, images)

    def events(self) -> Events:
        """Collect every event from now on; an async iterator. Any number of them, independent of each other."""
        return self._open.link.hub.subscribe()

    @property
    def _open(self) -> Lifetime:
        if self._lifetime is None:
            raise ClientClosed
        return self._lifetime


def checked_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return an agent's command, refusing one in a single text."""
    if isinstance(command, str):  # a sequence as well, of letters
        raise TypeError("the command is a list: the program, then its arguments")
    return tuple(command)
