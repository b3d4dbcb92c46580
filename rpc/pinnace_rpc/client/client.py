"""`Client`: an agent process that lives as long as an `async with`, with a method for every command.

The public class, for trio and asyncio; the work is done in `lifetime` (process and tasks), `link` (records), `runs` and
the commands. Works with any agent that implements the protocol on stdin and stdout.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from anyio.lowlevel import checkpoint_if_cancelled

from pinnace_rpc.client.commands import Commands
from pinnace_rpc.client.connection.attachment import AttachedLifetime, Attachment, AttachOptions
from pinnace_rpc.client.connection.lifetime import Lifetime
from pinnace_rpc.client.connection.tasks import keep_interrupts_out
from pinnace_rpc.client.dialogs import Dialogs
from pinnace_rpc.client.failures import ClientClosed, ProtocolError
from pinnace_rpc.client.records.progress import Run
from pinnace_rpc.client.runs import FollowedRun, TextStream, checked
from pinnace_rpc.client.subscriptions import Events
from pinnace_spec.records.messages import ImageContent

# pinnace needs less than one second, other agents of the family two.
EXIT_TIMEOUT_S = 3.0


class Client(Commands):
    """Starts an agent on entry, ends it on exit; no process or task outlives the `async with`, also after an error.

    What is raised inside comes out as it is. Methods may be called from any task of the same loop.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        dialogs: Dialogs | None = None,
        on_malformed: Callable[[ProtocolError], None] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
        attachment: Attachment | None = None,
    ) -> None:
        """Prepare; the agent is started by `async with`.

        Args:
            command: The agent with its arguments, for instance `["pinnace", "--mode", "rpc"]`.
            cwd: The folder that it works in; None: this process'.
            env: Its whole environment; None: this process'.
            dialogs: Answers the dialogs of its extensions; by default the answer is no.
            on_malformed: Called with each line that is not a record; the conversation continues. None: the conversation
                ends, and all pending calls raise `ProtocolError`.
            on_stderr: Called with each line that the agent writes to stderr, without its end. None: it is written to
                this process' stderr, so that warnings and errors are seen.
            exit_timeout_s: How long the agent may take to exit after the end of its stdin, before TERM and KILL.
            attachment: Of a client that `attach` makes, instead of a command.
        """
        self._command = checked_command(command)
        self._cwd = cwd
        self._env = None if env is None else dict(env)
        self._dialogs = dialogs or Dialogs()
        self._on_malformed = on_malformed
        self._on_stderr = on_stderr
        self._exit_timeout_s = exit_timeout_s
        self._attachment = attachment
        self._lifetime: Lifetime | None = None

    @classmethod
    def attach(
        cls,
        name: str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        dialogs: Dialogs | None = None,
        on_malformed: Callable[[ProtocolError], None] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
        **options: Unpack[AttachOptions],
    ) -> Self:
        """Prepare a client of an agent of the host, which goes on when the client is left, or when its program ends.

        A connection that is lost, for whatever reason, is replaced: every event comes once, and what was not answered
        is written again, unless that could carry it out twice (`CommandFailed`, code `outcome_unknown`). `run` raises
        `RunFailed` if the agent's process has ended meanwhile.

        Args:
            name: The agent's name, which is begun if there is none, or the id or the file of a session; None: a new
                agent without a name, which ends with the client.
            cwd: As for a client that starts its agent, like the other arguments.
            env: Likewise; what is missing in it is missing in the agent that is begun.
            dialogs: Likewise. A dialog that has been answered is not asked again.
            on_malformed: Likewise.
            on_stderr: Likewise.
            exit_timeout_s: Likewise.
            **options: Where to begin and which words to add (`AttachOptions`).
        """
        return cls(
            (),
            cwd=cwd,
            env=env,
            dialogs=dialogs,
            on_malformed=on_malformed,
            on_stderr=on_stderr,
            exit_timeout_s=exit_timeout_s,
            attachment=Attachment(name, **options),
        )

    async def __aenter__(self) -> Self:
        """Start the agent.

        Raises:
            OSError: It could not be started.
        """
        keep_interrupts_out(Client.__aenter__, Client.__aexit__)

        if self._lifetime is not None:
            raise RuntimeError("a client starts one agent, once: make another client")
        attachment = self._attachment
        of_own, of_host = partial(Lifetime.enter, self._command), AttachedLifetime.attach
        self._lifetime = await (of_own if attachment is None else partial(of_host, attachment))(
            cwd=self._cwd,
            env=self._env,
            dialogs=self._dialogs,
            on_malformed=self._on_malformed,
            on_stderr=self._on_stderr,
            exit_timeout_s=self._exit_timeout_s,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.leave()

    @property
    def pid(self) -> int:
        """The id of the agent's process."""
        return self._open.process.pid

    @property
    def exit_code(self) -> int | None:
        """How the agent's process has ended, as an exit code, or minus the number of a signal; None while it runs."""
        return self._open.process.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr, 64 KiB at most."""
        return self._open.process.stderr_tail

    @property
    def cursor(self) -> str | None:
        """Of an attached client: where the events that have come end, for `since`; None before the first record.

        A reader that may be behind takes the one of the last event that it has handled: `event["cursor"]`.
        """
        return None if self._attachment is None else self._attachment.cursor

    @property
    def is_connected(self) -> bool:
        """Whether the agent can be reached: of an attached client, not from a lost connection to the next one."""
        return not self._open.link.is_over and (self._attachment is None or self._attachment.is_attached)

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


def checked_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return an agent's command, refusing one in a single text."""
    if isinstance(command, str):  # a string is a sequence as well
        raise TypeError("the command is a list: the program, then its arguments")
    return tuple(command)
