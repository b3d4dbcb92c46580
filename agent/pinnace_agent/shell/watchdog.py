"""Kills the running commands after the agent was killed with SIGKILL.

The watchdog is a small `/bin/sh` process, started with the first command. It holds the reading end of a pipe whose only
writing end is the agent's: lines name the running process groups; at the end of the pipe, which the system closes
however the agent ends, it kills them and exits. It is in a session of its own and no child of the agent, so that a
kill of the agent's process group or process tree does not hit it; it keeps nothing else of the agent's open.

A Python process would take twenty times as long to start and ten times the memory. PR_SET_PDEATHSIG is not used: it is
bound to the thread that forks (a worker thread of trio), it reaches one process and not its descendants, and it needs a
program that is started in between.

A process belongs to a registered command by its process group or session, by its parent, or by the mark in its
environment (`child_processes`): also one that moved to a session of its own, or lost its parent.

Not killed: a process that has lost its parent, moved to a session of its own and dropped its environment, all three
(the agent itself finds that, too); background processes of a command that has exited, which live on by contract; on
systems without /proc (macOS) a process that has left the group.

A command is registered by its mark before it is started, and with its process group as soon as that is known: on a busy
machine its program may have run for a while by then, and the agent may end meanwhile. A process that has not executed
the program yet shows no mark, so the watchdog looks for a second longer where a command was being started.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from pinnace_agent.shell.protection import without_adoption

# Lines are `+MARK N` and `-MARK`, where N is the leader of a group and of a session, or 0 while the command is being
# started; `read` returns false at the end. A row has the number, the parent and the session in /proc/N/stat of what is
# no zombie; a name may contain blanks and parentheses. All processes are found before the first is killed: orphans
# can't be found by their parent.
_SCRIPT: Final = r"""# pinnace-watchdog: kills the running commands of an agent that is killed
cd /
to_row='s/^\([0-9]*\) (.*) [^Z] \([0-9]*\) [0-9]* \([0-9]*\) .*/\1:\2:\3/p'
find_members() {
  members=" "
  for file in $(grep -lsaF $patterns /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    members="$members${pid%/environ} "
  done
  table=$(sed -n "$to_row" /proc/[0-9]*/stat)
  grown=1
  while [ "$grown" ]; do
    grown=
    for row in $table; do
      pid=${row%%:*} row=${row#*:}
      case $members in *" $pid "*) continue ;; esac
      case "$groups/$members" in *" ${row#*:} "*/*|*/*" ${row%:*} "*) members="$members$pid " grown=1 ;; esac
    done
  done
}
find_descendants() {
  todo=$groups
  while [ "$todo" ]; do
    next=
    for pid in $todo; do
      for file in /proc/$pid/task/*/children; do
        children=
        read -r children < "$file"
        next="$next$children"
      done
    done
    members="$members$next" todo=$next
  done
}
kill_members() {
  for pid in $members; do
    case $killed in *" $pid "*) continue ;; esac
    killed="$killed$pid " quiet=0
    kill -9 "$pid"
  done
}
forget() {
  case $commands in *" $1:"*)
    rest=${commands#* $1:}
    commands="${commands%% $1:*} ${rest#* }" ;;
  esac
}
watch() {
  commands=" "
  while read -r mark pid; do
    forget "${mark#?}"
    case $mark in +*) commands="$commands${mark#?}:$pid " ;; esac
  done
  groups=" " patterns= enough=2
  for each in $commands; do
    case $each in *:0) enough=20 ;; *) groups="$groups${each##*:} " ;; esac
    patterns="$patterns -e PINNACE_COMMAND=${each%:*}"
  done
  [ "$patterns" ] || exit
  killed=" " members=" "
  find_descendants
  for pid in $groups; do kill -9 -- "-$pid" || kill -9 "$pid"; done
  kill_members
  round=0 quiet=0
  while [ $round -lt 50 ] && [ $quiet -lt $enough ]; do
    round=$((round + 1)) quiet=$((quiet + 1))
    find_members
    kill_members
    [ $enough = 2 ] || sleep 0.05
  done
}
exec 3<&0
watch <&3 3<&- &
"""
_SHELL: Final = "/bin/sh"
_UNKNOWN: Final = 0
"""In place of a process group that is not known yet."""


class CommandWatchdog:
    """The watchdog of one process. Never blocks for longer than its start, a millisecond or two."""

    __slots__ = ("_groups", "_pipe", "_unsent")

    def __init__(self) -> None:
        """Start nothing yet."""
        self._groups: dict[str, int] = {}
        self._pipe: int | None = None
        self._unsent = bytearray()

    @property
    def pipe(self) -> int | None:
        """The writing end of the pipe; None while there is no watchdog."""
        return self._pipe

    def prepare(self) -> None:
        """Start the watchdog unless it is running: before the first command, so that every command has one.

        Raises:
            OSError: It can't be started.
        """
        if self._pipe is None:
            self._begin()

    @contextmanager
    def expecting(self, mark: str) -> Generator[None]:
        """Kill also what is being started with this process; forget it if it can't be started.

        Args:
            mark: The value of the variable `PINNACE_COMMAND` in the environment of its processes: no blank, no colon.
        """
        self.add(mark, _UNKNOWN)
        try:
            yield
        except BaseException:
            self.discard(mark)
            raise

    def add(self, mark: str, pid: int) -> None:
        """Register a command that has started, whether it was expected or not.

        Args:
            mark: As for `expecting`.
            pid: The leader of its process group and session.
        """
        self._groups[mark] = pid
        self._send(f"+{mark} {pid}\n")

    def discard(self, mark: str) -> None:
        """Remove a command, before its leader is reaped and its number may be reused, or if it was not started."""
        if self._groups.pop(mark, None) is not None:
            self._send(f"-{mark}\n")

    def _send(self, line: str) -> None:
        if self._pipe is not None:
            self._unsent += line.encode()
            try:
                del self._unsent[: os.write(self._pipe, self._unsent)]
                return
            except BlockingIOError:  # the watchdog is suspended: it reads when it is resumed
                return
            except BrokenPipeError:  # it was killed
                self._close()
        if self._groups:
            with suppress(OSError):  # `prepare` reports it; all are registered as soon as there is one
                self._begin()

    def _begin(self) -> None:
        self._pipe = _start()
        for mark, pid in self._groups.items():
            os.write(self._pipe, f"+{mark} {pid}\n".encode())

    def _close(self) -> None:
        self._unsent.clear()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def close(self) -> None:
        """Let the watchdog end: it kills what is registered."""
        self._close()
        self._groups.clear()

    def leave_to_the_parent(self) -> None:
        """Close the pipe in a forked child: its copy would keep the watchdog from detecting the end."""
        self._close()
        self._groups.clear()


WATCHDOG: Final = CommandWatchdog()
"""The watchdog of this process."""

os.register_at_fork(after_in_child=WATCHDOG.leave_to_the_parent)


def _start() -> int:
    """Start a watchdog and return the writing end of its pipe."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        actions: list[tuple[int, int] | tuple[int, int, int] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        actions += [(os.POSIX_SPAWN_CLOSE, each) for each in _inheritable()]
        with without_adoption():
            shell = os.posix_spawn(
                _SHELL,
                [_SHELL, "-c", _SCRIPT],
                {"PATH": os.defpath},
                file_actions=actions,
                setsid=True,
            )
            # It exits at once, and the process that it leaves is no child of this process.
            os.waitpid(shell, 0)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing


def _inheritable() -> list[int]:
    """Return the inheritable descriptors of this process beside the usual three."""
    found: list[int] = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError, ValueError):  # the descriptor of the listing itself is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found
