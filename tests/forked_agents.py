"""Starts the agents of tests by forking a process that has loaded their modules, in a tenth of the time of a start.

What a test starts with `python -P -m pinnace_rpc`, by any means of `subprocess`, is such a fork wherever nothing that
only a new interpreter applies is asked for. It is a process of its own and the test's own child, with the same pipes,
session, environment, folder and end, and /proc shows it as one. Two things differ: what an agent imports before the end
of its first prompt is loaded already, with HTTP, and with the library of MCP where servers are configured; and modules
are not taken apart at its end. Subcommands are forks, too. Every other command is left alone: `-X importtime`, other
users, signals that are ignored.

Adapters of editors, hosts, and what attaches to them or starts them fork in turn what they would start in new
interpreters: hosts, first agents, and the zygotes of the others. So do batches, whose agents are tied to them as by
`setpriv`. Each of these has one more child for that, which was forked before it began and has loaded what a zygote
loads. What it starts has no limit that was set on it later.

FRESH_AGENTS=1 starts each process in a new interpreter, as does the fixture `fresh_agents` in a test. Decides what is
forked; must not know what an agent does.
"""

import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.forked_agent_program import PROGRAM, PYTHON, ROOM, ROOM_VARIABLE, STARTING
from tests.source_tree import PYTHONPATH

from pinnace_rpc.host.agents.zygote import can_fork, start_only
from pinnace_rpc.host.agents.zygote_messages import rights

VARIABLE: Final = "FRESH_AGENTS"
AGENT: Final = "pinnace_rpc"
COMMAND: Final = (*PYTHON, AGENT)
STARTED_BY_PROGRAMS: Final = (AGENT, *(f"pinnace_rpc.host.agents.{name}_program" for name in ("fresh", "zygote")))
"""The modules that a host or an adapter runs in new interpreters."""
STARTERS: Final = ("host", "attach", "acp", "batch")
"""Subcommands that start programs; `acp` is also a mode."""
LEASH: Final = ("--pdeathsig", "TERM", "--")
"""What `setpriv` is told by a program whose processes are to end with it."""
LARGEST_ORDER: Final = len(ROOM)
"""In bytes: what /proc can show of it; less than a socket takes in one packet with its default buffer."""
MCP: Final = ("pinnace_agent.mcp.wire.link", "pinnace_agent.mcp.wire.stdio", "pinnace_agent.mcp.wire.http")
"""What an agent with MCP servers loads before it connects to them: half a second of a processor, the library."""
_UNSET: Final = -1
_DEFAULTS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("preexec_fn", "executable", "gid", "gids", "uid")),
    "shell": False,
    "close_fds": True,
    "process_group": _UNSET,
}
"""Arguments of `Popen` that the fork does not apply, where they differ."""

_begin: Final = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_parameters: Final = inspect.signature(_begin)


_connections: Final[set[int]] = set()


def open_descriptors() -> set[int]:
    """Return the descriptors of this process, without those to the processes that are forked, which stay."""
    found = {int(name) for name in os.listdir("/proc/self/fd")}
    return found - _connections


class Forks:
    """The processes that are forked, by what only the start of an interpreter applies, and by what they have loaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], _Loaded] = {}
        self._inherited = start_only(os.environ)
        self._inherited.pop("PYTHONPATH", None)

    def install(self, modules: Iterable[str] = (AGENT,)) -> None:
        """Have `subprocess` fork these modules from now on."""
        forks, known = self, frozenset(modules)

        def begin(process: "subprocess.Popen[Any]", *arguments: Any) -> None:
            # By name: their order is not promised.
            asked = _parameters.bind(process, *arguments).arguments
            if not forks.fork(process, asked, known):
                _begin(process, *arguments)

        # There is no public place below Popen, run, and the calls of trio and asyncio.
        subprocess.Popen._execute_child = begin  # type: ignore[attr-defined]

    def fork(self, process: Any, asked: Mapping[str, Any], modules: Container[str]) -> bool:
        """Make a new `Popen` a fork; False: it has to be started."""
        order = None if os.environ.get(VARIABLE) else _order(asked, modules)
        if order is None:
            return False
        with self._lock:
            loaded = self._loaded_for(order)
            data = json.dumps(order).encode()
            if loaded is None or len(data) > LARGEST_ORDER:
                return False
            names = ("p2cread", "c2pwrite", "errwrite")
            theirs = [asked[name] if asked[name] != _UNSET else own for own, name in enumerate(names)]
            pid = loaded.fork(data, [*theirs, *asked["pass_fds"]])
        if pid is None:
            return False
        process.pid = pid
        process._child_created = True
        _close_theirs(process, asked)
        return True

    def _loaded_for(self, order: Mapping[str, Any]) -> "_Loaded | None":
        kept = start_only(order["environment"])
        others = {name: value for name, value in kept.items() if name != "PYTHONPATH"}
        if kept.get("PYTHONPATH", PYTHONPATH) != PYTHONPATH:  # what is found elsewhere may act when it is loaded
            return None
        if not others.items() <= self._inherited.items():  # too rare to be worth a process of its own
            return None
        words = (STARTING,) if order["is_starter"] else MCP if _has_servers(order) else ()
        key = words, tuple(sorted(kept.items()))
        if key not in self._loaded:
            if not can_fork(kept):
                return None
            self._loaded[key] = _Loaded.start(kept, words)
        return self._loaded[key]


class NestedForks(Forks):
    """Forks the process that a fork has beside it, which was forked from the same one."""

    def __init__(self, connection: socket.socket, given: Mapping[str, str], added: Mapping[str, str]) -> None:
        """Ask over a connection, for processes that what is forked, which has this environment, can be.

        An interpreter has added variables to it at its start, which its children may have or not.
        """
        super().__init__()
        self._beside = _Loaded(connection)
        self._added = start_only(added)
        self._kept = {**self._added, **start_only(given)}

    def _loaded_for(self, order: Mapping[str, Any]) -> "_Loaded | None":
        return self._beside if {**self._added, **start_only(order["environment"])} == self._kept else None


class _Loaded:
    """A process to fork; it ends when this one has ended."""

    def __init__(self, connection: socket.socket, process: "subprocess.Popen[bytes] | None" = None) -> None:
        self._connection = connection
        self._process = process
        _connections.add(connection.fileno())

    @classmethod
    def start(cls, environment: Mapping[str, str], words: Iterable[str]) -> "_Loaded":
        """Start it, with the names of what it is to load beside the agent."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", PROGRAM, str(theirs.fileno()), *words, ROOM],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**environment, ROOM_VARIABLE: ROOM},
                cwd="/",
            )
        return cls(ours, process)

    def fork(self, order: bytes, descriptors: Sequence[int]) -> int | None:
        """Fork; returns the id of the new process, or None where there is none: a start says why."""
        try:
            self._connection.sendmsg([order], rights(descriptors))
            answer = self._connection.recv(64)
        except OSError:
            return None
        return int(answer) if answer and int(answer) > 0 else None


def _order(asked: Mapping[str, Any], modules: Container[str]) -> dict[str, Any] | None:
    """Return what a fork is to become; None if it has to be a new interpreter."""
    command, folder = asked["args"], asked["cwd"]
    if not isinstance(command, Sequence):
        return None
    is_leashed = os.path.basename(os.fsdecode(command[0])) == "setpriv" and tuple(command[1 : 1 + len(LEASH)]) == LEASH
    if is_leashed:
        command = command[1 + len(LEASH) :]
    if tuple(command[: len(PYTHON)]) != PYTHON:
        return None
    module, *words = map(os.fsdecode, command[len(PYTHON) :])
    if module not in modules or not words:
        return None
    if any(asked[name] != default for name, default in _DEFAULTS.items()) or len(asked["pass_fds"]) > 1:
        return None
    if asked["pass_fds"] and words != [str(each) for each in asked["pass_fds"]]:  # its number changes
        return None
    if folder is not None and not Path(os.fsdecode(folder)).is_dir():
        return None
    given = os.environ if asked["env"] is None else asked["env"]
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
    if any("\0" in each for pair in environment.items() for each in pair):
        return None
    return {
        "module": module,
        "words": words,
        "is_starter": module == AGENT and (words[0] in STARTERS or _mode(words) in STARTERS),
        "cwd": os.fsdecode(folder) if folder is not None else os.getcwd(),
        "environment": environment,
        "has_session": asked["start_new_session"],
        "is_leashed": is_leashed,
        "umask": asked["umask"] if asked["umask"] != _UNSET else _umask(),
        "memory": None,
    }


def _mode(words: Sequence[str]) -> str | None:
    """Return the mode that a command line asks for in the usual way."""
    return words[words.index("--mode") + 1] if "--mode" in words[:-1] else None


def _has_servers(order: Mapping[str, Any]) -> bool:
    """Whether the agent will find MCP servers: only such an agent may have their library loaded."""
    environment = order["environment"]
    folder = environment.get("PI_CODING_AGENT_DIR") or Path(environment.get("HOME", "/nonexistent"), ".pi", "agent")
    return any(path.exists() for path in (Path(folder, "mcp.json"), Path(order["cwd"], ".pi", "mcp.json")))


def _close_theirs(process: Any, asked: Mapping[str, Any]) -> None:
    """Close the ends of the child here, as a start does."""
    nothing = getattr(process, "_devnull", None)
    for child, parent in (("p2cread", "p2cwrite"), ("c2pwrite", "c2pread"), ("errwrite", "errread")):
        if asked[child] != _UNSET and asked[parent] != _UNSET and asked[child] != nothing:
            os.close(asked[child])
    if nothing is not None:
        os.close(nothing)
    process._closed_child_pipe_fds = True


def _umask() -> int:
    """Return that of this process, which only setting it would tell otherwise."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("Umask:")[2].split(maxsplit=1)[0], 8)
