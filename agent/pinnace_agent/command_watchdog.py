"""Kills the running commands when the agent itself is killed with SIGKILL, when nothing inside it can act any more.

The watchdog is a small `/bin/sh` process, started with the first command. It holds the reading end of a pipe whose only
writing end is the agent's: lines tell it which process groups run, and the end of the pipe, which the system closes
however the agent ends, makes it kill them and exit. It is in a session of its own and no child of the agent, so that a
kill of the agent's process group or process tree does not hit it; it holds nothing else of the agent's open.

A Python process would take twenty times as long to start and ten times the memory. PR_SET_PDEATHSIG is not used: it is
bound to the thread that forks (a worker thread of trio), it reaches one process and not its descendants, and it needs a
program that is started in between.

Not covered: processes that have put themselves into a session of their own (`setsid`, daemons), as with an abort; what
a command that has ended left in the background, which lives on by contract; on systems without /proc (macOS) also job
control and `timeout` inside a command, which make process groups of their own within the command's session. A command
is registered as soon as it has started: a kill within those microseconds leaves it running.
"""

import os
from contextlib import suppress
from typing import Final

# Lines are `+N` and `-N`, N being the leader of a group and of a session. What `read` returns false for is the end.
# The fourth word after the name in /proc/N/stat is the session; a name may hold blanks and parentheses.
_SCRIPT: Final = r"""# pinnace-watchdog: kills the running commands of an agent that is killed
cd /
watch() {
  groups=" "
  while read -r line; do
    pid=${line#?}
    case $line in
      +*) groups="$groups$pid " ;;
      -*) case $groups in *" $pid "*) groups="${groups%% $pid *} ${groups#* $pid }" ;; esac ;;
    esac
  done
  [ "$groups" = " " ] && exit
  for pid in $groups; do kill -9 -- "-$pid" || kill -9 "$pid"; done
  round=0
  killed=" "
  while [ $round -lt 50 ]; do
    round=$((round + 1)) found=
    for file in /proc/[0-9]*/stat; do
      read -r stat < "$file" || continue
      pid=${stat%% *}
      set -- ${stat##*) }
      case $groups in *" $4 "*) ;; *) continue ;; esac
      case $killed in *" $pid "*) continue ;; esac
      killed="$killed$pid " found=1
      kill -9 "$pid"
    done
    [ "$found" ] || exit
  done
}
exec 3<&0
watch <&3 3<&- &
"""
_SHELL: Final = "/bin/sh"


class CommandWatchdog:
    """The watchdog of one process. Never blocks for longer than its start, a millisecond or two."""

    __slots__ = ("_pids", "_pipe", "_unsent")

    def __init__(self) -> None:
        """Start nothing yet."""
        self._pids: set[int] = set()
        self._pipe: int | None = None
        self._unsent = bytearray()

    @property
    def pipe(self) -> int | None:
        """The writing end of the pipe; None while there is no watchdog."""
        return self._pipe

    def prepare(self) -> None:
        """Start the watchdog unless it has been: before the first command, so that there is no time without it.

        Raises:
            OSError: The system can't start it.
        """
        if self._pipe is None:
            self._begin()

    def add(self, pid: int) -> None:
        """Let a process group and its session be killed with this process.

        Raises:
            OSError: The system can't start the watchdog; the group is guarded as soon as it can.
        """
        self._pids.add(pid)
        self._send(f"+{pid}\n")

    def discard(self, pid: int) -> None:
        """Forget a group, before its leader is reaped and the number may become another's."""
        if pid in self._pids:
            self._pids.discard(pid)
            with suppress(OSError):  # there is no watchdog, or a new one has not been given this group
                self._send(f"-{pid}\n")

    def _send(self, line: str) -> None:
        if self._pipe is not None:
            self._unsent += line.encode()
            try:
                del self._unsent[: os.write(self._pipe, self._unsent)]
                return
            except BlockingIOError:  # the watchdog is stopped: it reads on when it is continued
                return
            except BrokenPipeError:  # it was killed
                self._close()
        if self._pids:
            self._begin()

    def _begin(self) -> None:
        self._pipe = _start()
        for pid in sorted(self._pids):
            os.write(self._pipe, f"+{pid}\n".encode())

    def _close(self) -> None:
        self._unsent.clear()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def leave_to_the_parent(self) -> None:
        """Let go, in a child that was forked: its copy of the pipe would keep the watchdog from seeing the end."""
        self._close()
        self._pids.clear()


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
        shell = os.posix_spawn(
            _SHELL,
            [_SHELL, "-c", _SCRIPT],
            {"PATH": os.defpath},
            file_actions=actions,
            setsid=True,
        )
        # It leaves at once, and what it leaves behind is nobody's child.
        os.waitpid(shell, 0)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing


def _inheritable() -> list[int]:
    """Return the descriptors that this process got from its parent beside the usual three, for its children to have."""
    found: list[int] = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError, ValueError):  # that of the listing itself is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found
