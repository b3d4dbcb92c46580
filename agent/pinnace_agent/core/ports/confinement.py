"""How a program is started inside a sandbox: the port between the registry of child processes and the sandbox.

The registry starts every program of the agent (the bash tool, the client's `bash`, `exec` of extensions, MCP servers,
search programs), and asks a `Confinement` for each. Has no knowledge of mechanisms or policies.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import trio

from pinnace_agent.core.ports.emitter import Emitter

Access = Literal["policy", "read-only", "tools"]
"""What a program may write: what the policy says, or nothing but its temporary files (searches). `tools` is what the
policy says, for a program of the agent's own: it is not checked what has changed while it ran."""


class ProgramStart(NamedTuple):
    """How a program is started."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    """The program's environment, whole: nothing is inherited."""
    cwd: str | None
    """None: that of the agent."""
    pass_fds: tuple[int, ...] = ()
    """Descriptors beside the usual three that the program inherits, under the same numbers."""


class LaunchedProgram(Protocol):
    """A process that was started: a child of this one, the leader of a group and of a session."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def ends(self) -> tuple[int | None, int | None, int | None]:
        """Our ends of its stdin, stdout and stderr, which are the caller's; None: that one is no pipe of ours."""
        ...

    def poll(self) -> int | None:
        """Return the exit status, negative if a signal ended it, and reap it; None: it has not exited."""
        ...


class ConfinedStart(Protocol):
    """One start of a program inside a sandbox, until its process has exited.

    The caller calls `launch` once, then `release`, and `close` when the process was reaped or could not be started.
    """

    def launch(self, stdin: int, stdout: int, stderr: int) -> LaunchedProgram:
        """Start it, in a session of its own. Blocks for some milliseconds.

        MUST be called in a thread that lives as long as the agent: the end of that thread ends the program.

        Args:
            stdin: A descriptor, or a constant of `subprocess`.
            stdout: Likewise.
            stderr: Likewise.

        Raises:
            OSError: It can't be started; it has not run, and will not.
        """
        ...

    def release(self) -> None:
        """Let the program that was launched run, once it is certain what it sees. Blocks for some milliseconds.

        Raises:
            OSError: It sees something else than the policy says; it has not run, and will not.
        """
        ...

    def failure(self, status: int | None) -> str | None:
        """Return why the program was not run, although the start succeeded; None: it ran.

        Args:
            status: The exit status of the process; negative if a signal ended it, None if it has not exited.
        """
        ...

    def is_current(self) -> bool:
        """Return whether a program that is started now would see the same. Blocks: it reads the disk. For any thread.

        Not if something has come that is hidden or protected, or if a mount has ended since its place was replaced.
        """
        ...

    def close(self) -> None:
        """Close everything else, and check what the program has left. Further calls have no effect. For any thread."""
        ...


class SessionPlace(Protocol):
    """Where a session is."""

    @property
    def cwd(self) -> str:
        """Its folder."""
        ...

    @property
    def path(self) -> str | None:
        """Its file; None: it is not kept."""
        ...


class LoadedFiles(Protocol):
    """The extensions of an agent."""

    @property
    def files(self) -> Sequence[str]:
        """Their files and folders."""
        ...


class HasSession(Protocol):
    """An agent, as its sandbox follows it."""

    @property
    def extensions(self) -> LoadedFiles | None:
        """Its extensions; None: there are none."""
        ...

    @property
    def session(self) -> SessionPlace:
        """The current session."""
        ...


class FolderRefused(Exception):
    """The sandbox can't be enforced for a session of a folder; the text is for the user."""


class PreparedFolder(Protocol):
    """A session's folder in which the sandbox can be enforced."""

    def enter(self) -> None:
        """Have the sandbox of this folder for everything that is started from now on. Never waits, never fails."""
        ...


class SandboxReport(Protocol):
    """What other parts of the agent know of its sandbox."""

    @property
    def may_escalate(self) -> bool:
        """Whether the user may be asked to run a command outside."""
        ...

    @property
    def has_network(self) -> bool:
        """Whether commands have the network of the machine."""
        ...

    @property
    def is_enforced(self) -> bool:
        """Whether nothing may loosen it."""
        ...

    def record(self) -> Mapping[str, object]:
        """Return what `hello` and `get_state` say."""
        ...

    def follow(self, agent: HasSession, emitter: Emitter) -> None:
        """Show the file of an agent's session, and report to its client that something protected has changed."""
        ...

    async def prepare_folder(self, folder: str, session_file: str | None) -> PreparedFolder:
        """Find out whether the sandbox can be enforced for a session of another folder. Cancelled, it changes nothing.

        Raises:
            FolderRefused: It can't; the text is for the user.
        """
        ...


class Confinement(Protocol):
    """Starts programs inside a sandbox. Each start is confined, or refused."""

    @property
    def helpers(self) -> Collection[int]:
        """The children of this process that belong to the sandbox itself and to no program; it reaps them."""
        ...

    def confine(self, start: ProgramStart, access: Access = "policy") -> ConfinedStart:
        """Return how a program is started inside the sandbox. Blocks: it reads the disk. For any thread.

        Raises:
            OSError: The sandbox can't be set up; the program must not be started without it.
        """
        ...

    def shows(self, path: str) -> bool:
        """Return whether an absolute path is in no folder that the sandbox replaces by one of its own."""
        ...


class RunningProcess(Protocol):
    """A process that was started: what is used of `trio.Process`."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative if a signal ended it; None: it has not exited."""
        ...

    @property
    def stdin(self) -> trio.abc.SendStream | None:
        """Its standard input, if that is a pipe."""
        ...

    @property
    def stdout(self) -> trio.abc.ReceiveStream | None:
        """Its standard output, if that is a pipe."""
        ...

    @property
    def stderr(self) -> trio.abc.ReceiveStream | None:
        """Its standard error, if that is a pipe."""
        ...

    def poll(self) -> int | None:
        """Return the exit status; None: it has not exited."""
        ...

    async def wait(self) -> int:
        """Wait for its exit."""
        ...
