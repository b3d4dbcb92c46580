"""`Client`: an agent process that lives as long as an `async with`, with a method for every command.

The public class, for trio and asyncio; the work is done in `conversation`, `lifetime` (process and tasks), `link`
(records), `runs` and the commands. Works with any agent that implements the protocol on stdin and stdout.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self, Unpack

from pinnace_rpc.client.connection.attachment import AttachedLifetime, Attachment, AttachOptions
from pinnace_rpc.client.connection.lifetime import Lifetime
from pinnace_rpc.client.conversation import Conversation
from pinnace_rpc.client.dialogs import Dialogs
from pinnace_rpc.client.failures import ProtocolError

# pinnace needs less than one second, other agents of the family two.
EXIT_TIMEOUT_S = 3.0


class Client(Conversation):
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
        super().__init__()
        self._command = checked_command(command)
        self._cwd = cwd
        self._env = None if env is None else dict(env)
        self._dialogs = dialogs or Dialogs()
        self._on_malformed = on_malformed
        self._on_stderr = on_stderr
        self._exit_timeout_s = exit_timeout_s
        self._attachment = attachment

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

    async def _begin(self) -> Lifetime:
        attachment = self._attachment
        of_own, of_host = partial(Lifetime.enter, self._command), AttachedLifetime.attach
        return await (of_own if attachment is None else partial(of_host, attachment))(
            cwd=self._cwd,
            env=self._env,
            dialogs=self._dialogs,
            on_malformed=self._on_malformed,
            on_stderr=self._on_stderr,
            exit_timeout_s=self._exit_timeout_s,
        )

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
        return super().is_connected and (self._attachment is None or self._attachment.is_attached)


def checked_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return an agent's command, refusing one in a single text."""
    if isinstance(command, str):  # a string is a sequence as well
        raise TypeError("the command is a list: the program, then its arguments")
    return tuple(command)
