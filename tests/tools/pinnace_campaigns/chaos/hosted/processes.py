"""The processes around one agent folder: host, zygote and agents, found by what they are, and attaches.

A process belongs to the run if its environment names the run's folder, the zygote by its module path. Linux only: reads
/proc.
"""

import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.chaos.hosted.client_log import ClientLog
from pinnace_fuzz.harness.pump import Pump
from pinnace_fuzz.process_tree import descriptors_of, parent_of, processes_with, words_of
from pinnace_fuzz.records import LineSplitter, encode_records, parse_record

_ZYGOTE: Final = b"zygote_program"
_ATTACH: Final = b"attach"
_LOOP: Final = "anon_inode:[eventpoll]"
_DRAIN_S: Final = 60.0


class LivingProcesses(NamedTuple):
    """The living processes of a run at one moment, by their ids."""

    everyone: list[int]
    host: int | None
    """The one that its lock names."""
    zygote: int | None
    """Of that host."""
    agents: list[int]
    """Also those whose host has died."""


def find_processes(root: Path, agent_dir: Path) -> LivingProcesses:
    """Find those whose environment names `root`; the host is the one of `agent_dir`.

    An agent that was forked has the command and the parent of the zygote, and may be older than the next zygote; but an
    event loop, which no zygote has.
    """
    everyone = processes_with(str(root).encode())
    words = {pid: words_of(pid) for pid in everyone}
    host = _locked_by(agent_dir / "host" / "host.lock")
    if host not in everyone or b"host" not in words[host]:
        host = None
    forked = [pid for pid in everyone if any(_ZYGOTE in word for word in words[pid])]
    loopless = (pid for pid in forked if _LOOP not in descriptors_of(pid))
    zygote = next((pid for pid in loopless if host is not None and parent_of(pid) == host), None)
    fresh = [pid for pid in everyone if b"--mode" in words[pid] and _ATTACH not in words[pid]]
    return LivingProcesses(everyone, host, zygote, sorted({*forked, *fresh} - {zygote}))


def _locked_by(path: Path) -> int | None:
    try:
        pid: int = json.loads(path.read_bytes())["pid"]
    except (OSError, ValueError, KeyError):
        return None
    return pid


def signal_each(pids: Sequence[int], number: int) -> None:
    """Send a signal to those that still are there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class AttachProcess:
    """One `pinnace attach`, whose records go to a log."""

    def __init__(
        self, words: Sequence[str], log: ClientLog, news: threading.Condition, env: Mapping[str, str], folder: Path
    ) -> None:
        """Start it; `news` guards the log and is notified of each read. Its stderr goes to a file in `folder`."""
        self._log = log
        self._news = news
        self._lines = LineSplitter()
        self.is_ignored = False
        """Another process has taken its place: what it still writes is not the client's."""
        with (folder / f"{log.name}.stderr").open("ab") as stderr:
            self.process = subprocess.Popen[bytes](
                words,
                cwd=env["HOME"],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        self._pump = Pump(os.dup(self.process.stdout.fileno()), self._take, "attach-stdout")
        self.process.stdout.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def _take(self, data: bytes, _time_s: float) -> None:
        with self._news:
            for line in self._lines.feed(data):
                if not self.is_ignored:
                    self._log.take(parse_record(line))
            self._news.notify_all()

    def write(self) -> None:
        """Write what the log has to be written."""
        with self._news:
            commands = self._log.to_write()
        assert self.process.stdin is not None
        if commands and not self.process.stdin.closed:
            with suppress(BrokenPipeError):  # it is ending; the next one gets them
                self.process.stdin.write(encode_records(commands))

    def leave(self) -> None:
        """End its stdin: it detaches."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> int:
        """Read the rest after it was killed, has left or was cut off; return the exit code."""
        code = self.process.wait(_DRAIN_S)
        self._pump.join(_DRAIN_S)
        self._pump.close()
        with suppress(BrokenPipeError):
            self.leave()
        if not self.is_ignored:
            with self._news:
                self._log.disconnect()
        return code
