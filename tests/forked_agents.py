"""Starts the agents of tests by forking a process that has loaded their modules, in a tenth of the time of a start.

What a test starts with `python -P -m pinnace_rpc`, by any means of `subprocess`, is such a fork wherever nothing that
only a new interpreter applies is asked for. It is a process of its own and the test's own child, with the same pipes,
session, environment, folder and end. Three things differ: `/proc` shows the command line and the environment of the
process that was forked; what an agent imports before the end of its first prompt is loaded already, with HTTP, and with
the library of MCP where servers are configured; and modules are not taken apart at its end. Every other command is left
alone: subcommands, `-X importtime`, other users, signals that are ignored.

FRESH_AGENTS=1 starts each agent in a new interpreter. Decides what is forked; must not know what an agent does.
"""

import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.source_tree import PYTHONPATH

from pinnace_rpc.host.agents.zygote import can_fork, start_only
from pinnace_rpc.host.agents.zygote_messages import rights

VARIABLE: Final = "FRESH_AGENTS"
COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
PROGRAM: Final = Path(__file__).with_name("forked_agent_program.py")
LARGEST_ORDER: Final = 150_000
"""In bytes: what a socket takes in one packet with its default buffer."""
MCP: Final = ("pinnace_agent.mcp.wire.link", "pinnace_agent.mcp.wire.stdio", "pinnace_agent.mcp.wire.http")
"""What an agent with MCP servers loads before it connects to them: half a second of a processor, the library."""
_UNSET: Final = -1
_DEFAULTS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("preexec_fn", "executable", "gid", "gids", "uid")),
    "shell": False,
    "close_fds": True,
    "pass_fds": (),
    "umask": _UNSET,
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

    def install(self) -> None:
        """Have `subprocess` fork from now on."""
        forks = self

        def begin(process: "subprocess.Popen[Any]", *arguments: Any) -> None:
            # By name: their order is not promised.
            asked = _parameters.bind(process, *arguments).arguments
            if not forks.fork(process, asked):
                _begin(process, *arguments)

        # There is no public place below Popen, run, and the calls of trio and asyncio.
        subprocess.Popen._execute_child = begin  # type: ignore[attr-defined]

    def fork(self, process: Any, asked: Mapping[str, Any]) -> bool:
        """Make a new `Popen` a fork; False: it has to be started."""
        order = _order(asked)
        if order is None:
            return False
        with self._lock:
            loaded = self._loaded_for(order["environment"], MCP if _has_servers(order) else ())
            data = json.dumps(order).encode()
            if loaded is None or len(data) > LARGEST_ORDER:
                return False
            names = ("p2cread", "c2pwrite", "errwrite")
            theirs = [asked[name] if asked[name] != _UNSET else own for own, name in enumerate(names)]
            process.pid = loaded.fork(data, theirs)
        process._child_created = True
        _close_theirs(process, asked)
        return True

    def _loaded_for(self, environment: Mapping[str, str], modules: tuple[str, ...]) -> "_Loaded | None":
        kept = start_only(environment)
        others = {name: value for name, value in kept.items() if name != "PYTHONPATH"}
        if kept.get("PYTHONPATH", PYTHONPATH) != PYTHONPATH:  # what is found elsewhere may act when it is loaded
            return None
        if not others.items() <= self._inherited.items():  # too rare to be worth a process of its own
            return None
        key = modules, tuple(sorted(kept.items()))
        if key not in self._loaded:
            if not can_fork(kept):
                return None
            self._loaded[key] = _Loaded(kept, modules)
        return self._loaded[key]


class _Loaded:
    """A process to fork; it ends when this one has ended."""

    def __init__(self, environment: Mapping[str, str], modules: Iterable[str]) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _connections.add(self._connection.fileno())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", PROGRAM, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=dict(environment),
                cwd="/",
            )

    def fork(self, order: bytes, stdio: Sequence[int]) -> int:
        """Fork; returns the id of the new process."""
        self._connection.sendmsg([order], rights(stdio))
        answer = self._connection.recv(64)
        assert answer, "the process that agents are forked from has ended"
        return int(answer)


def _order(asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a fork is to become; None if it has to be a new interpreter."""
    command, folder = asked["args"], asked["cwd"]
    if not isinstance(command, Sequence) or tuple(command[: len(COMMAND)]) != COMMAND:
        return None
    words = [os.fsdecode(word) for word in command[len(COMMAND) :]]
    if not words or not words[0].startswith("-"):  # a host and what talks to it are found by what /proc shows
        return None
    if any(asked[name] != default for name, default in _DEFAULTS.items()):
        return None
    if folder is not None and not Path(os.fsdecode(folder)).is_dir():
        return None
    given = os.environ if asked["env"] is None else asked["env"]
    return {
        "words": words,
        "cwd": os.fsdecode(folder) if folder is not None else os.getcwd(),
        "environment": {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()},
        "has_session": asked["start_new_session"],
        "umask": _umask(),
        "memory": None,
    }


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
