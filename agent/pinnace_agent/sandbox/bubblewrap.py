"""The argument list of bubblewrap.

A layout, whose paths were resolved on the disk, gives the arguments. Their order is part of the policy: later
mounts cover earlier ones. Has no knowledge of settings.
"""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

MOST_ARGUMENTS: Final = 9000
"""The number that bubblewrap accepts."""

GATE_PLACE: Final = "/dev/gate"
"""Where a program sees the folder of its gate."""

# Other processes may still write when the command has exited; `sleep` is gone when the processes are counted. What is
# left then ends with the namespace. A message into a pipe without a reader must not change the exit status.
GRACE: Final = (
    f"echo > {GATE_PLACE}/ready; read -r go < {GATE_PLACE}/go || exit 125; unset go; "
    'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); s=$?; exec 2>&3 3>&-; trap "" PIPE; i=0; '
    "while set -- /proc/[0-9]*; [ $# -gt 2 ]; do "
    'if [ $i = 10 ]; then echo "[The sandbox ended processes that the command left running.]" >&2; break; fi; '
    "i=$((i+1)); sleep 0.01; done; exit $s"
)
"""The script around each command: waits at its gate until the view was verified, runs the command, waits up to 0.1 s
for other processes of the namespace, and keeps the exit status. It opens the gate by its name and closes it, so that
the command inherits nothing. Its own words about a command that a signal has ended ("Killed") are no output of the
command, and go nowhere."""

_SHELL: Final = "/bin/sh"


class HiddenFolder(NamedTuple):
    """A folder that is hidden behind an empty one that can't be changed."""

    path: str
    shown: tuple[str, ...] = ()
    """Paths in it that are visible, read-only."""


class ForbiddenFile(NamedTuple):
    """A file that no mount can keep commands from making, and that must not be there."""

    path: str
    effect: str
    """What it would do, for texts: a verb and its object."""
    is_around: bool = False
    """Whether it has that effect only with what else makes its folder a repository."""

    def is_there(self) -> bool:
        """Return whether it is there and has its effect. Reads the disk."""
        if not os.path.lexists(self.path):
            return False
        folder = os.path.dirname(self.path)
        return not self.is_around or any(os.path.lexists(f"{folder}/{name}") for name in ("objects", "commondir"))


class Layout(NamedTuple):
    """What is where inside a sandbox. All paths are absolute, resolved and, unless a field allows less, exist."""

    program: str
    """The path of bubblewrap."""
    folder: str
    """The working folder of the policy."""
    private: str
    """The folder on this machine that is `/tmp` and `/var/tmp` inside."""
    is_writable: bool = False
    """Whether the working folder is."""
    has_network: bool = False
    disables_namespaces: bool = True
    """Whether this bubblewrap has `--disable-userns`."""
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    """Shown again, read-only, where something else hides them (`/tmp`, `/run`)."""
    resolver: str | None = None
    """The real path of resolv.conf, if it is below `/run`."""
    outputs: tuple[str, ...] = ()
    """Folders of long outputs, read-only; they may be missing."""
    hidden_folders: tuple[HiddenFolder, ...] = ()
    hidden_files: tuple[str, ...] = ()
    agent_dir: HiddenFolder | None = None
    pinned: tuple[str, ...] = ()
    """Folders that can't be renamed or removed, but written; each behind the one that it is in."""
    protected: tuple[str, ...] = ()
    """Read-only, below what is writable."""
    absent: tuple[str, ...] = ()
    """Protected folders that do not exist: each is an empty folder that can't be changed."""
    masked: tuple[str, ...] = ()
    """Files in whose place is an empty one: sockets of services, and protected files that do not exist."""
    forbidden: tuple[ForbiddenFile, ...] = ()
    """Files that commands can make, and must not."""


def placed(layout: Layout) -> list[tuple[str, str]]:
    """Return how each path in what is writable is mounted, outer ones first: the innermost mount decides.

    Returns:
        Pairs of `writable`, `protected` or `absent`, and a path.
    """
    found = [("writable", path) for path in (*layout.writable, *layout.pinned)]
    found += [("protected", path) for path in layout.protected]
    found += [("absent", path) for path in layout.absent]
    return sorted(found, key=lambda each: each[1].count("/"))


def setup_arguments(layout: Layout) -> list[str]:
    """Return the arguments that set up the sandbox: the same for every command with this layout."""
    arguments = [
        layout.program,
        "--die-with-parent",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--cap-drop",
        "ALL",
    ]
    if layout.disables_namespaces:
        arguments.append("--disable-userns")
    if not layout.has_network:
        arguments.append("--unshare-net")
    arguments += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    # Root can write there even without capabilities: a core pattern runs a program outside.
    arguments += ["--ro-bind", "/proc/sys", "/proc/sys"]
    arguments += ["--tmpfs", "/run", "--bind", layout.private, "/tmp", "--bind", layout.private, "/var/tmp"]
    if layout.has_network and layout.resolver is not None:
        arguments += _at("--ro-bind", layout.resolver)
    for each in layout.outputs:
        arguments += _at("--ro-bind-try", each)
    for each in layout.readable:
        arguments += _at("--ro-bind", each)
    arguments += _at("--bind" if layout.is_writable else "--ro-bind", layout.folder)
    for kind, each in placed(layout):
        if kind == "absent":
            arguments += _hidden(HiddenFolder(each))
        else:
            arguments += _at("--bind" if kind == "writable" else "--ro-bind", each)
    # Behind those, which show a folder with everything in it.
    for hidden in layout.hidden_folders:
        arguments += _hidden(hidden)
    for each in layout.hidden_files:
        arguments += ["--ro-bind", "/dev/null", each]
    if layout.agent_dir is not None:
        arguments += _hidden(layout.agent_dir)
    for each in layout.masked:
        arguments += ["--ro-bind", "/dev/null", each]
    return arguments


def command_arguments(
    setup: Sequence[str], command: Sequence[str], *, cwd: str, gate: str, filter_fd: int, status_fd: int
) -> list[str]:
    """Return the whole argument list of one command.

    Args:
        setup: The arguments of `setup_arguments`.
        command: The program and its arguments.
        cwd: The folder to run in.
        gate: The folder of its gate.
        filter_fd: Where bubblewrap reads the filter of system calls.
        status_fd: Where it reports that the command has started and its exit code.

    Raises:
        ValueError: There are more than bubblewrap accepts.
    """
    arguments = [*setup, "--ro-bind", gate, GATE_PLACE, "--chdir", cwd]
    arguments += ["--seccomp", str(filter_fd), "--json-status-fd", str(status_fd), "--"]
    if len(arguments) > MOST_ARGUMENTS:
        raise ValueError(f"{len(arguments)} arguments of bubblewrap, which accepts {MOST_ARGUMENTS}: hide fewer paths")
    return [*arguments, _SHELL, "-c", GRACE, "sh", *command]


def _at(option: str, path: str) -> tuple[str, str, str]:
    return option, path, path


def _hidden(hidden: HiddenFolder) -> list[str]:
    arguments = ["--perms", "0500", "--tmpfs", hidden.path]
    for each in hidden.shown:
        arguments += _at("--ro-bind-try", each)
    return [*arguments, "--remount-ro", hidden.path]
