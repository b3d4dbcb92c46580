"""Finds, measures and kills the processes that one run started, whatever groups they put themselves in.

A process belongs to a run if a variable in its environment says so, which children inherit, or if its parent
belongs to it. So a shell that an agent started in a session of its own is found, also after the agent's end,
and nothing else ever is. A process that has lost its parent and has cleared its environment is found where this one
adopts orphans (`ORPHANS`), as the judge does. Linux only: reads /proc.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

RUN_VARIABLE = "PINNACE_FUZZ_RUN"

PROC = Path("/proc")
_STAT_BYTES: Final = 4096
"""More than a line of `stat` has."""
_READ_BYTES: Final = 65_536
# A killed process is gone within milliseconds, unless it is stuck in the kernel, or waits its turn to end.
KILL_DEADLINE_S = 60.0

_PR_SET_CHILD_SUBREAPER: Final = 36
_ALL_NEW_S: Final = 10.0
"""Within this time the system gives no id of a process twice: it has at least 32,000 to give, one after the other."""


class _Run(NamedTuple):
    begun: int
    """In ticks since the system's start, as /proc/PID/stat has it."""
    last_id: int
    """The id of a process or thread that the system had given last when it began."""
    agents: set[int]
    """Its process, which is no orphan."""


class Orphans:
    """Processes that have lost their parent and are adopted by this one, so that nothing an agent does hides them.

    Of an adopted process that nothing marks, only this is known: it is of a run that had begun before it. It is taken
    for one of a run that ends while no other one had begun by then.
    """

    def __init__(self) -> None:
        """Adopt none."""
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._former: frozenset[int] = frozenset()
        self._is_adopting = False

    @contextlib.contextmanager
    def adopted(self) -> Generator[None]:
        """Adopt orphans of what is started meanwhile, and in the end kill those that are left."""
        import ctypes

        self._former = frozenset(_children(all_stats()))
        library = ctypes.CDLL(None)
        self._is_adopting = library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        try:
            yield
        finally:
            deadline_s = time.monotonic() + KILL_DEADLINE_S
            while (left := self._found(None, all_stats)) and time.monotonic() < deadline_s:
                kill_each(left)
                time.sleep(0.001)
            library.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
            self._is_adopting = False

    def begin(self, run_id: str) -> None:
        """Count a run from now on; before its agent is started."""
        begun, last_id = int(_uptime_s() * os.sysconf("SC_CLK_TCK")), _last_id()
        with self._lock:
            self._runs[run_id] = _Run(begun, last_id, set())

    def started(self, run_id: str, process_id: int) -> None:
        """Take note of a run's agent."""
        with self._lock:
            self._runs[run_id].agents.add(process_id)

    def begun(self, run_id: str) -> int:
        """Return when a run began, in ticks since the system's start; 0: it is not counted."""
        with self._lock:
            return self._runs[run_id].begun if run_id in self._runs else 0

    def look(self, run_id: str) -> "Stats":
        """Look at all processes that can be of a run: of one that has just begun, those that have begun since."""
        with self._lock:
            run = self._runs.get(run_id)
        if run is None or _uptime_s() - run.begun / os.sysconf("SC_CLK_TCK") > _ALL_NEW_S:
            return all_stats()
        found = _process_ids()
        return _stats(given_since(run.last_id, _last_id(), found))

    def end(self, run_id: str) -> None:
        """Count a run no more."""
        with self._lock:
            self._runs.pop(run_id, None)

    def of(self, run_id: str, look: Callable[[], "Stats"]) -> set[int]:
        """Find the living orphans that are of no other run than this one, among what a look at the processes sees."""
        return self._found(run_id, look)

    def _found(self, run_id: str | None, look: Callable[[], "Stats"]) -> set[int]:
        """Find the orphans of a run; None: all."""
        if not self._is_adopting:
            return set()
        # The runs of before and of after the look: no process of one that begins or ends meanwhile is taken for ours.
        runs = self._copied_runs()
        children = _children(look())
        runs |= self._copied_runs()
        if run_id is not None and run_id not in runs:
            return set()
        own = _Run(0, 0, set()) if run_id is None else runs.pop(run_id)
        known = self._former.union(own.agents, *(run.agents for run in runs.values()))
        others = () if run_id is None else tuple(run.begun for run in runs.values())
        found: set[int] = set()
        for process_id, words in children.items():
            start = int(words[19])
            if process_id in known or int(words[3]) == os.getsid(0):
                continue
            if start < own.begun or any(begun <= start for begun in others):
                continue
            if words[0] in ("Z", "X"):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process_id, os.WNOHANG)
            else:
                found.add(process_id)
        return found

    def _copied_runs(self) -> dict[str, _Run]:
        with self._lock:
            return {name: run._replace(agents=set(run.agents)) for name, run in self._runs.items()}


ORPHANS: Final = Orphans()
"""Those of this process."""


Stats: TypeAlias = Mapping[int, list[str]]
"""The processes that were looked at, each with the words of its `stat` from its state on."""


def all_stats() -> Stats:
    """Look at all processes."""
    return _stats(_process_ids())


def _stats(process_ids: Iterable[int]) -> Stats:
    return {process_id: words for process_id in process_ids if (words := stat_of(process_id))}


def given_since(first: int, last: int, ids: Iterable[int]) -> list[int]:
    """Return those of some ids that were given after the first one and up to the last one.

    They are given in order; after the largest the system begins anew.
    """
    if first <= last:
        return [each for each in ids if first < each <= last]
    return [each for each in ids if each > first or each <= last]


def _children(stats: Stats) -> Stats:
    """Return the children of this process."""
    own = str(os.getpid())
    return {process_id: words for process_id, words in stats.items() if words[1] == own}


def processes_of(run_id: str, *, with_orphans: bool = False) -> list[int]:
    """Find the ids of the living processes of a run; zombies are not alive."""
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    looked: list[Stats] = []

    def look() -> Stats:
        """Look at the processes, once for both questions."""
        looked.append(ORPHANS.look(run_id))
        return looked[-1]

    found: set[int] = ORPHANS.of(run_id, look) if with_orphans else set()
    stats = looked[-1] if looked else look()
    return _found(lambda variables: mark in variables.split(b"\0"), found, stats, ORPHANS.begun(run_id))


def processes_with(mark: bytes) -> list[int]:
    """Find the ids of the living processes with these bytes in their environment, and of their descendants."""
    return _found(lambda variables: mark in variables, set(), all_stats())


def _found(is_meant: Callable[[bytes], bool], found: set[int], stats: Stats, since: int = 0) -> list[int]:
    """Find living processes by their environment, and their descendants.

    Args:
        is_meant: Decides by the environment of a process.
        found: Those that are meant whatever it says.
        stats: The processes among which they are.
        since: None of them, and nothing that they start, is older than this, in ticks since the system's start. Of what
            is older the environment is not read: that costs more than everything else here.
    """
    parents: dict[int, int] = {}
    for process_id, words in stats.items():
        if _is_alive(words) and int(words[19]) >= since:
            parents[process_id] = int(words[1])
            if is_meant(_environment(process_id)):
                found.add(process_id)
    # While it executes another program, a process has no environment for a moment; its parent has.
    while children := {child for child, parent in parents.items() if parent in found} - found:
        found |= children
    return sorted(found)


def words_of(process_id: int) -> list[bytes]:
    """Return the command of a process; empty: it has ended meanwhile."""
    line = _read(process_id, "cmdline")
    return line.removesuffix(b"\0").split(b"\0") if line else []


def descriptors_of(process_id: int) -> list[str]:
    """Return what the open descriptors of a process are, sorted; none: it has ended meanwhile."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        for entry in (PROC / str(process_id) / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(entry))
    return sorted(found)


def kill_each(process_ids: Iterable[int]) -> None:
    """Send SIGKILL to those that still are there."""
    for process_id in process_ids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)


def kill_all(run_id: str, known: Iterable[int] = ()) -> list[int]:
    """Kill every process of a run; return the ids of those that are still there after all.

    A process that was found once is waited for: when its parent has ended it may be found no more, and a killed one
    lives on until it has its turn.

    Args:
        run_id: The run.
        known: Processes of it that were found before.
    """
    starts: dict[int, str] = {}

    def look(ids: Iterable[int]) -> list[int]:
        starts.update((each, words[19]) for each in ids if each not in starts and (words := stat_of(each)))
        # What has another start has got the id of one that has ended.
        return sorted(each for each in starts if _is_alive(words := stat_of(each)) and words[19] == starts[each])

    look(known)
    deadline_s = time.monotonic() + KILL_DEADLINE_S
    empty_looks = 0
    # Two looks: one that lost its parent while it executed another program shows at the second.
    while time.monotonic() < deadline_s:
        left = look(processes_of(run_id, with_orphans=True))
        empty_looks = 0 if left else empty_looks + 1
        if empty_looks == 2:
            return []
        kill_each(left)
        time.sleep(0.001)  # there is no notification for the end of a process that is not a child
    return look(processes_of(run_id, with_orphans=True))


def await_end(run_id: str, timeout_s: float) -> list[int]:
    """Wait until a run has no living process; return the ids of those that live on after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    pause_s = 0.002
    while (left := processes_of(run_id, with_orphans=True)) and time.monotonic() < deadline_s:
        time.sleep(pause_s)  # as above
        pause_s = min(1.5 * pause_s, 0.05)  # of an old run each look reads every process of the machine
    return left


def memory_kib(process_id: int, field: str = "VmRSS") -> int:
    """Read a process' memory in KiB: `VmRSS` is what it uses, `VmHWM` the most that it ever did.

    Raises:
        ProcessLookupError: There is no such process, or only its zombie.
    """
    for line in _read(process_id, "status").decode(errors="replace").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise ProcessLookupError(process_id)


def is_alive(process_id: int) -> bool:
    """Return whether a process runs; one that has ended and is not waited for does not."""
    return _is_alive(stat_of(process_id))


def state_of(process_id: int) -> str:
    """Return what the system says of a process, such as R (it runs), S (it waits), T (it is stopped); X: it is gone."""
    fields = stat_of(process_id)
    return fields[0] if fields else "X"


def parent_of(process_id: int) -> int:
    """Return the parent of a process; 0: it is gone."""
    fields = stat_of(process_id)
    return int(fields[1]) if fields else 0


def stat_of(process_id: int) -> list[str]:
    """Return the fields of a process behind its name, as proc(5) has them; empty: it is gone."""
    # The name, in parentheses, may have any characters.
    line = _read(process_id, "stat", _STAT_BYTES)
    return line[line.rfind(b")") + 1 :].decode(errors="replace").split()


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdecimal()]


def _last_id() -> int:
    """Return the id that the system has given last, to a process or a thread."""
    return int((PROC / "loadavg").read_bytes().split()[-1])


def _uptime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_alive(words: list[str]) -> bool:
    return bool(words) and words[0] not in ("Z", "X")


def _environment(process_id: int) -> bytes:
    return _read(process_id, "environ")


def _read(process_id: int, name: str, most: int | None = None) -> bytes:
    """Read a file of a process; empty: it has ended meanwhile, or it is not ours to read.

    Without a file object, and if it has no more than `most` bytes, with one call: each look reads one for every process
    of the machine.
    """
    try:
        descriptor = os.open(f"/proc/{process_id}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if most is not None:
            return os.read(descriptor, most)
        parts: list[bytes] = []
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
