"""Starts programs with bubblewrap: the `Confinement` of this mechanism.

Each start resolves the policy on the disk again, gets a filter and a descriptor for bubblewrap's report of its own, and
is checked when it has ended: whether it ran at all, and whether anything protected changed meanwhile.
"""

import json
import logging
import os
import select
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import IO, Final, NamedTuple

from pinnace_agent.core.ports.confinement import Access, ProgramStart
from pinnace_agent.sandbox.bubblewrap import Layout, command_arguments, setup_arguments
from pinnace_agent.sandbox.environment import confined_environment
from pinnace_agent.sandbox.gate import Gates
from pinnace_agent.sandbox.layout import SandboxPlaces, is_shown, layout_of, session_file_of
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.protections import Protections
from pinnace_agent.sandbox.seccomp import Rules, filter_program
from pinnace_agent.sandbox.verification import ExpectedFile, NotAsMeant, expected_of, verify
from pinnace_agent.sandbox.witness import Witness, view_of

_log = logging.getLogger("pinnace.sandbox")

_REPORT_BYTES: Final = 64 * 1024
_EXIT_CODE: Final = "exit-code"
_FIRST_PROCESS: Final = "child-pid"
_SETUP_S: Final = 10.0
_END_S: Final = 0.005
"""How long is waited for the first process after its end was asked for; some 0.2 ms are usual."""


class Bubblewrap(NamedTuple):
    """A bubblewrap that was found."""

    program: str
    """Its path."""
    version: str
    disables_namespaces: bool
    """Whether it has `--disable-userns`."""


class ResolvesPolicy:
    """A policy, and the disk that it is resolved on: what each mechanism begins with."""

    def __init__(
        self, policy: SandboxPolicy, places: SandboxPlaces, private: PrivateFolder, bubblewrap: Bubblewrap | None = None
    ) -> None:
        """Resolve nothing yet; `bubblewrap` is the program of that mechanism."""
        self.policy = policy
        self.places = places
        self.bubblewrap = bubblewrap
        self.loaded: Callable[[], Sequence[str]] = tuple
        """Returns what this process has loaded code from since the start: the files of extensions."""
        self.protections = Protections()
        """What is protected as long as this process lives."""
        self._private = private

    def layout(self, access: Access = "policy", session_file: str | None = None) -> Layout:
        """Resolve the policy on the disk of this moment.

        Raises:
            OSError: Something can't be protected.
        """
        return layout_of(
            self.policy,
            self.places._replace(code=(*self.places.code, *self.loaded())),
            program="" if self.bubblewrap is None else self.bubblewrap.program,
            private=self._private.path,
            disables_namespaces=self.bubblewrap is not None and self.bubblewrap.disables_namespaces,
            access=access,
            session_file=session_file,
            protections=self.protections,
        )

    def unchanged(self, layout: Layout, access: Access, session_file: str | None) -> Callable[[], bool]:
        """Return what says whether a program that was started with a layout still sees what another one would."""
        before = view_of(layout)

        def is_current() -> bool:
            try:
                return view_of(self.layout(access, session_file)) == before
            except OSError:
                return False  # no program would be started

        return is_current

    def shows(self, path: str) -> bool:
        """Return whether an absolute path is in no folder that the sandbox replaces by one of its own."""
        return is_shown(self.policy, self.places, path)


class BubblewrapConfinement(ResolvesPolicy):
    """Starts every program inside a sandbox of bubblewrap. `confine` blocks; it may run in any thread."""

    helpers: Collection[int] = ()

    def __init__(
        self,
        policy: SandboxPolicy,
        places: SandboxPlaces,
        bubblewrap: Bubblewrap,
        private: PrivateFolder,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Start nothing yet; `report` takes what is found after a command: a change of something protected."""
        super().__init__(policy, places, private, bubblewrap)
        self.report = report
        """Takes what is found after a command; any thread."""
        rules = Rules(policy.unix_sockets, refuses_namespaces=not bubblewrap.disables_namespaces)
        self._filter = filter_program(os.uname().machine, rules)

    def confine(self, start: ProgramStart, access: Access = "policy") -> "ConfinedProgram":
        """Return how a program is started inside the sandbox.

        Raises:
            OSError: Something can't be protected, or no descriptor is left.
            ValueError: There are more paths than bubblewrap accepts.
        """
        session_file = session_file_of(start.env)
        layout = self.layout(access, session_file)
        is_current = self.unchanged(layout, access, session_file)
        self._private.leaves(layout.absent)
        env = confined_environment(start.env, self.policy.mode)
        is_watched = layout.is_writable and access != "tools"
        witness = Witness(layout, self.protections) if is_watched else None
        start = start._replace(env=env)
        return ConfinedProgram(
            layout, self._filter, start, self._private.gates, self._ended, witness, is_current=is_current
        )

    def close(self) -> None:
        """End nothing: each command has its own processes."""

    def _ended(self, problem: str) -> None:
        _log.warning("%s", problem)
        if self.report is not None:
            self.report(problem)


class LaunchedProgram:
    """A program that was started by `subprocess`: a `LaunchedProgram`."""

    def __init__(self, start: ProgramStart, stdin: int, stdout: int, stderr: int) -> None:
        """Start it.

        Raises:
            OSError: It can't be started.
        """
        self._process = subprocess.Popen(
            list(start.arguments),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=start.cwd,
            env=dict(start.env),
            pass_fds=start.pass_fds,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.ends = (_end(self._process.stdin), _end(self._process.stdout), _end(self._process.stderr))

    def poll(self) -> int | None:
        """Return the exit status, if it has exited."""
        return self._process.poll()


class ConfinedProgram:
    """One start. Owns descriptors until `started` and `close`."""

    def __init__(
        self,
        layout: Layout,
        program: bytes,
        start: ProgramStart,
        gates: Gates,
        report: Callable[[str], None],
        witness: Witness | None,
        *,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        """Open the descriptors, and note what the program has to see.

        Raises:
            OSError: A path of the layout leads through a link by now, or no descriptor is left.
        """
        self._report = report
        self._witness = witness
        self.is_current = is_current
        """Returns whether a program that is started now would see the same."""
        self._started: LaunchedProgram | None = None
        self._init = -1
        self._records = b""
        self.expected: Sequence[ExpectedFile] = expected_of(layout)
        """What the program has to see; where it sees anything else it does not run."""
        self._gates = gates
        self.gate = gates.take()
        """Where the program waits for `release`."""
        opened: list[int] = []
        try:
            opened += os.pipe()
            opened += os.pipe()
        except OSError:
            for each in opened:
                os.close(each)
            gates.give_back(self.gate, is_alone=True)
            raise
        filter_read, filter_write, self._status, status_write = opened
        self._for_child: tuple[int, ...] = (filter_read, status_write)
        self._is_closed = False
        try:
            os.write(filter_write, program)  # fits in any pipe
            os.set_blocking(self._status, False)
            cwd = layout.folder if start.cwd is None else os.path.abspath(start.cwd)
            arguments = command_arguments(
                setup_arguments(layout),
                start.arguments,
                cwd=cwd,
                gate=self.gate.folder,
                filter_fd=filter_read,
                status_fd=status_write,
            )
        except BaseException:
            self.started()
            os.close(self._status)
            gates.give_back(self.gate, is_alone=True)
            raise
        finally:
            os.close(filter_write)
        self._start = ProgramStart(arguments, start.env, "/", (*self._for_child, *start.pass_fds))

    @property
    def start(self) -> ProgramStart:
        """What is to be started in place of the program."""
        return self._start

    def launch(self, stdin: int, stdout: int, stderr: int) -> LaunchedProgram:
        """Start it in this thread. The program waits inside until `release`.

        Raises:
            OSError: It can't be started.
        """
        try:
            self._started = LaunchedProgram(self._start, stdin, stdout, stderr)
            return self._started
        finally:
            self.started()

    def started(self) -> None:
        """Close the descriptors that only the new process needs."""
        for each in self._for_child:
            os.close(each)
        self._for_child = ()

    def release(self, process: int | None = None) -> None:
        """Let the program run, once the sandbox shows what it is to show. Returns also if its process has ended.

        Args:
            process: The number of the process that was started; None: by `launch`.

        Raises:
            NotAsMeant: It does not; the program has not run, and will not.
        """
        if process is None:
            assert self._started is not None
            process = self._started.pid
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            return
        try:
            if not self.gate.is_reached(handle, _SETUP_S):
                if not select.select([handle], [], [], 0)[0]:
                    raise NotAsMeant(f"it was not set up within {_SETUP_S:.0f} s")
                return
        finally:
            os.close(handle)
        first = self._first_process()
        try:
            # It is alive, since it waits: the number is no other process's.
            self._init = os.pidfd_open(first)
            verify(self.expected, first)
        except OSError as error:
            self._end_all()
            raise error if isinstance(error, NotAsMeant) else NotAsMeant(f"it can't be looked at: {error}") from None
        self.gate.let_pass()

    def _first_process(self) -> int:
        """Return the number of the first process of the namespace, which bubblewrap has reported by now."""
        with suppress(BlockingIOError):
            self._records += os.read(self._status, _REPORT_BYTES)
        for record in _records(self._records):
            if isinstance(number := record.get(_FIRST_PROCESS), int):
                return number
        raise NotAsMeant("bubblewrap has not reported its process")

    def _end_all(self) -> None:
        """Kill every process of the namespace: all of them end with the first one."""
        if self._init >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)

    def failure(self, status: int | None) -> str | None:
        """Return why the program was not run; None: it ran, or was killed."""
        if status is None or status < 0 or self._is_closed:
            return None
        with suppress(OSError):  # nothing was written
            self._records += os.read(self._status, _REPORT_BYTES)
        if reports_exit(self._records):
            return None
        return not_run(f"bubblewrap has ended with {status} before it ran the command")

    def close(self) -> None:
        """End what is left inside, whatever the program has made of bubblewrap; close the rest, and report changes."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end_all()
        is_alone = False
        if self._init >= 0:
            is_alone = bool(select.select([self._init], [], [], _END_S)[0])
            os.close(self._init)
        self._gates.give_back(self.gate, is_alone=is_alone)
        for each in self._for_child:
            os.close(each)
        self._for_child = ()
        os.close(self._status)
        if self._witness is not None and (problem := self._witness.problem()) is not None:
            self._report(problem)


def _end(pipe: IO[bytes] | None) -> int | None:
    if pipe is None:
        return None
    descriptor = os.dup(pipe.fileno())  # the file closes its own
    pipe.close()
    return descriptor


def not_run(reason: str) -> str:
    """Return the text of a command that was not run."""
    return f"The command was not run: the sandbox could not be set up ({reason})"


def reports_exit(report: bytes) -> bool:
    """Return whether bubblewrap's report has an exit code: the program has run and ended."""
    return any(_EXIT_CODE in record for record in _records(report))


def _records(report: bytes) -> Iterator[dict[str, object]]:
    for line in report.splitlines():
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record
