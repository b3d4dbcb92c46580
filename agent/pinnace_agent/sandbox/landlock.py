"""Landlock, where bubblewrap can't run: which paths a command may read and write, as rules of the kernel.

Landlock has no exceptions below an allowed folder, so what is hidden or protected is left out by naming its siblings,
on the way down from an allowed folder. Therefore folders on that way can't be listed, and no new entry can be made
directly in a folder that holds something protected, such as the working folder. Decides the rules; the supervisor
(`landlock_program`) applies them. Linux only.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pinnace_agent.config.sandbox_settings import SandboxMode
from pinnace_agent.core.ports.confinement import Access, ProgramStart
from pinnace_agent.files.protected import is_inside
from pinnace_agent.sandbox.bubblewrap import Layout
from pinnace_agent.sandbox.environment import confined_environment
from pinnace_agent.sandbox.landlock_program import (
    ABI,
    ALL_FILES,
    CAPSET,
    EXECUTE,
    IOCTL,
    LIST,
    READ,
    STARTED,
    TRUNCATE,
    WRITE,
    KeeperOrder,
    landlock_abi,
)
from pinnace_agent.sandbox.landlock_supervisor import Keeper, Supervisor, launch
from pinnace_agent.sandbox.launcher import ResolvesPolicy, not_run
from pinnace_agent.sandbox.layout import SandboxPlaces, session_file_of
from pinnace_agent.sandbox.opened import identity_of
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.seccomp import Rules, filter_program
from pinnace_agent.sandbox.witness import news_text

_LIMITS: Final = (
    "no new files directly in the working folder, and .git is read-only",
    "no loopback while the network is off",
    "processes, host name and network interfaces of the host are visible",
)
_OF_MODES: Final[Mapping[SandboxMode, str]] = {
    "workspace-write": "modes, times and attributes of all files of the user can be changed",
    "read-only": "no modes, times and attributes of files can be changed, of temporary ones neither",
}

_READING: Final = EXECUTE | READ | LIST
_WRITING: Final = ALL_FILES & ~IOCTL
_ON_DEVICES: Final = READ | WRITE | TRUNCATE | IOCTL | LIST
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
# What bubblewrap covers with empty file systems.
_COVERED: Final = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev")
_KEPT_IN_PROJECT: Final = (".git", ".pi", ".agents")


def limits_of(mode: SandboxMode) -> tuple[str, ...]:
    """Return what differs from bubblewrap, for reports."""
    return (*_LIMITS, *((_OF_MODES[mode],) if mode in _OF_MODES else ()))


def landlock_refusal() -> str | None:
    """Return why commands can't be restricted by Landlock on this machine; None: they can."""
    if sys.platform != "linux" or os.uname().machine not in CAPSET:
        return "there is no Landlock for this machine, only for Linux on x86_64 and aarch64"
    found = landlock_abi()
    if found == 0:
        return "the kernel has no Landlock, or it is switched off (lsm= of the kernel's command line)"
    if found < ABI:
        return f"the kernel's Landlock has version {found}, and {ABI} is required (Linux 6.12)"
    return None


class LandlockConfinement(ResolvesPolicy):
    """Starts programs under Landlock and the filter of system calls: a `Confinement`."""

    def __init__(
        self, policy: SandboxPolicy, places: SandboxPlaces, private: PrivateFolder, supervisor: Supervisor
    ) -> None:
        """Start nothing yet; sandboxes of one process share a supervisor.

        Raises:
            UnknownMachine: There is no filter for this architecture.
        """
        super().__init__(policy, places, private)
        self._supervisor = supervisor
        self.report: Callable[[str], None] | None = None
        """Takes what is found after a command, any thread: what has come that is protected from now on. Rules do not
        depend on names, so nothing that was protected can have been replaced."""
        rules = Rules(
            allows_unix_sockets=policy.unix_sockets,
            refuses_namespaces=True,
            refuses_network=not policy.network,
            refuses_shared_memory=True,
            refuses_others=True,
            # Landlock does not know them. Without them hardly anything can be built, so who writes has them.
            refuses_attributes=policy.mode == "read-only",
        )
        self._filter = filter_program(os.uname().machine, rules)

    @property
    def helpers(self) -> Collection[int]:
        """The supervisor, once there is one."""
        return self._supervisor.pids

    def close(self) -> None:
        """End the supervisor; commands that run go on."""
        self._supervisor.close()

    def confine(self, start: ProgramStart, access: Access = "policy") -> "LandlockStart":
        """Return how a program is started.

        Raises:
            OSError: Something can't be protected, or no descriptor is left.
        """
        if "\0" in "".join((*start.arguments, *start.env, *start.env.values())):
            raise ValueError("embedded null byte")  # as without a sandbox
        session_file = session_file_of(start.env)
        layout = self.layout(access, session_file)
        rules = list(_identified(_rules_of(layout)))
        private = layout.private
        env = {
            **confined_environment(start.env, self.policy.mode),
            "TMPDIR": private,
            "XDG_CACHE_HOME": f"{private}/.cache",
            "npm_config_cache": f"{private}/.cache/npm",
        }
        order = KeeperOrder(rules, self._filter.hex(), start.arguments, env)
        is_watched = layout.is_writable and access != "tools"
        return LandlockStart(
            self._supervisor,
            order,
            layout.folder if start.cwd is None else start.cwd,
            self.unchanged(layout, access, session_file),
            self._report_news if is_watched else None,
        )

    def _report_news(self) -> None:
        if self.report is not None and (news := news_text(self.protections.news())):
            self.report(news)


class LandlockStart:
    """One start: a `ConfinedStart`. Owns descriptors until `launch` and `close`."""

    def __init__(
        self,
        supervisor: Supervisor,
        order: KeeperOrder,
        cwd: str,
        is_current: Callable[[], bool] = lambda: True,
        report_news: Callable[[], None] | None = None,
    ) -> None:
        """Write the order.

        Args:
            supervisor: Starts the program.
            order: How.
            cwd: Where.
            is_current: Returns whether a program that is started now would see the same.
            report_news: Called at the end; None: the program can't have made anything.

        Raises:
            OSError: No descriptor is left.
        """
        self._supervisor = supervisor
        self._cwd = cwd
        self.is_current = is_current
        self._report_news = report_news
        self._has_begun = False
        self._report, report = os.pipe()
        try:
            written = os.memfd_create("order")
        except BaseException:
            os.close(self._report)
            os.close(report)
            raise
        self.for_supervisor: tuple[int, ...] = (written, report)
        """The descriptors of the order and of its report; none once it was launched."""
        with os.fdopen(os.dup(written), "wb") as file:
            file.write(json.dumps(order).encode())
        os.lseek(written, 0, os.SEEK_SET)

    def launch(self, stdin: int, stdout: int, stderr: int) -> Keeper:
        """Have the supervisor start it.

        Raises:
            OSError: It was not started.
        """
        order, report = self.for_supervisor
        try:
            return launch(self._supervisor, order, report, self._cwd, (stdin, stdout, stderr))
        finally:
            self.started()

    def started(self) -> None:
        """Close the descriptors that only the supervisor needs."""
        for each in self.for_supervisor:
            os.close(each)
        self.for_supervisor = ()

    def release(self) -> None:
        """Do nothing: the keeper has checked what it opened before it ran the program."""

    def failure(self, status: int | None) -> str | None:
        """Return why the program was not run; None: it ran."""
        if self._report >= 0 and not self._has_begun:
            os.set_blocking(self._report, False)
            with suppress(BlockingIOError):  # it has not exited
                self._has_begun = os.read(self._report, len(STARTED)) == STARTED
        return None if self._has_begun else not_run(f"the restrictions could not be applied (status {status})")

    def close(self) -> None:
        """Close everything else."""
        self.started()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1
        report_news, self._report_news = self._report_news, None
        if report_news is not None:
            report_news()


def _identified(rules: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int, int, int]]:
    """Yield each rule with what is at its path now, to which no link leads; what is gone has none.

    The keeper finds the same there, or applies no rule.
    """
    for path, rights in rules:
        with suppress(OSError):
            device, inode = identity_of(path)
            yield path, rights, device, inode


def _rules_of(layout: Layout) -> list[tuple[str, int]]:
    hidden = [each.path for each in layout.hidden_folders]
    shown = [path for each in layout.hidden_folders for path in each.shown]
    if layout.agent_dir is not None:
        hidden.append(layout.agent_dir.path)
        shown += layout.agent_dir.shown
    roots = (layout.folder, *layout.writable)
    protected = [*layout.protected, *layout.absent, *layout.masked]
    protected += [os.path.join(root, name) for root in roots for name in _KEPT_IN_PROJECT]
    return landlock_rules(
        hidden=[*hidden, *layout.hidden_files],
        shown=[*shown, *layout.readable, *layout.outputs, layout.folder],
        writable=roots if layout.is_writable else (),
        protected=protected,
        private=layout.private,
    )


def landlock_rules(
    *, hidden: Iterable[str], shown: Iterable[str], writable: Iterable[str], protected: Iterable[str], private: str
) -> list[tuple[str, int]]:
    """Return the rules of a policy: paths, and the rights to everything below each.

    Args:
        hidden: Real paths that can't be read.
        shown: Real paths that can be read although something above them can't.
        writable: Real paths of folders that can be written.
        protected: Real paths in them that can't be written, whether they exist or not.
        private: The folder for temporary files.
    """
    unread = (*_COVERED, *hidden)
    rules = [(path, _READING) for path in _tree("/", unread)]
    for folder in shown:
        rules += [(path, _READING) for path in _tree(folder, _below(folder, unread))]
    for folder in writable:
        rules += [(path, _WRITING) for path in _tree(folder, _below(folder, (*unread, *protected)))]
    rules += [(f"/dev/{name}", _ON_DEVICES) for name in _DEVICES]
    rules.append((private, _WRITING))
    return rules


def _below(folder: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that lie in a folder."""
    return [each for each in paths if each != folder and is_inside(each, folder)]


def _tree(folder: str, without: Sequence[str]) -> Iterator[str]:
    """Yield paths that cover a folder without some paths below it."""
    if any(is_inside(folder, each) for each in without):
        return
    # What is left out, and the folders on the way there.
    left_out = frozenset(without)
    above = {each for path in without if is_inside(path, folder) for each in _above(path, folder)}
    left = [folder]
    while left:
        path = left.pop()
        if path in left_out:
            continue
        if path not in above:
            yield path
            continue
        with suppress(OSError), os.scandir(path) as entries:
            # A link gives no right: what it leads to has its own rule or none.
            left += [entry.path for entry in entries if not entry.is_symlink()]


def _above(path: str, folder: str) -> Iterator[str]:
    while path != folder:
        path = os.path.dirname(path)
        yield path
