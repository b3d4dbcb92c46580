"""The zygote: a process with one thread that has loaded all of the agent, and forks an agent on request.

A forked agent shares what is loaded with its siblings and runs the ordinary entry of `pinnace --mode rpc`. The zygote
never runs an event loop, never starts a thread, and never reads what an agent is started with: the forked child reads
its environment itself, so no memory that a later sibling inherits has held it. Linux only.
"""

import gc
import json
import os
import pkgutil
import random
import select
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, NoReturn

from pinnace_rpc.host.agents.fresh_program import reset_signals
from pinnace_rpc.host.agents.zygote_messages import VERSION, receive, send

PROGRAM: Final = ("pinnace", "pinnace_rpc", "pinnace_agent", "pinnace_statechart", "pinnace_spec")
"""The packages of the program."""
ROOMS: Final = (
    *("pinnace_agent", "pinnace_statechart"),
    *("pinnace_rpc.server", "pinnace_rpc.cli", "pinnace_rpc.options", "pinnace_rpc.results", "pinnace_rpc.subagents"),
)
"""Those that are loaded with all their modules."""
NOT_LOADED: Final = ("pinnace_rpc.cli.commands", "pinnace_agent.telemetry.otel", "cryptography")
"""Nothing of mode rpc; and what few agents want, each of which loads it, with threads, as soon as it is forked."""
LATER: Final = (
    *"anyio._backends._trio certifi codecs ctypes decimal difflib email.utils encodings.idna getpass hashlib".split(),
    *"httpx importlib.metadata ipaddress jinja2 jiter jsonschema markdown_it msgspec packaging.requirements".split(),
    *"packaging.specifiers packaging.version pinnace.extensions pinnace_spec.batch.results".split(),
    *"pinnace_spec.profiles.generations pinnace_spec.profiles.profiles pinnace_spec.records.commands pydantic".split(),
    *"pydantic_core pygments.formatters pygments.lexers pygments.util".split(),
    *"resource ruamel.yaml semantic_version shlex ssl unicodedata urllib.request uuid".split(),
)
"""What the loaded modules import in functions. A test compares this with their sources."""
WITH_EXTRA: Final = {"pinnace_agent.mcp.wire": "mcp"}
"""Rooms that import a library which is installed with an extra alone, and that library."""
OPTIONAL: Final = ("PIL.Image",)
"""Likewise, where it is installed."""

_FIRST_FREE: Final = 3
_START_ERROR: Final = 1


class ForkOrder(NamedTuple):
    """What a forked child is to become: descriptors of stdin, stdout, stderr, and of a socket with the rest."""

    stdio: tuple[int, int, int]
    start: int


def main() -> int:
    """Load everything and fork on request, until the host closes its end; in a child, run an agent to its end."""
    # What is loaded stays: looking for garbage in it meanwhile takes a quarter of the time.
    gc.disable()
    added = added_variables()
    zygote = Zygote(int(sys.argv[1]), identity())
    preload()
    from pinnace_rpc.options.closing import protect

    protect()
    gc.collect()
    gc.freeze()
    gc.enable()
    if (order := zygote.serve()) is None:
        return 0
    arguments = become_agent(order, added)
    from pinnace_rpc.cli.main import main as run_agent

    return run_agent(arguments)


def preload() -> None:
    """Load all that an agent may import while it runs: modules of a later release must not join those of this one."""
    not_loaded = (*NOT_LOADED, *(room for room, library in WITH_EXTRA.items() if find_spec(library) is None))
    for room in ROOMS:
        package = import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            if not module.name.endswith("__main__") and not module.name.startswith(not_loaded):
                import_module(module.name)
    for name in LATER:
        import_module(name)
    for name in OPTIONAL:
        with suppress(ImportError):
            import_module(name)


class Zygote:
    """The loop that forks and reaps."""

    def __init__(self, connection: int, identity: Mapping[str, object]) -> None:
        """Take over the socket to the host.

        Args:
            connection: Its descriptor.
            identity: That of the files that are loaded, taken before they were.
        """
        self._connection = socket.socket(fileno=connection)
        self._identity = identity
        self._children: dict[int, tuple[int, int]] = {}  # the number and id of each, by pidfd
        self._poll = select.poll()

    def serve(self) -> ForkOrder | None:
        """Fork on request and report exits; None: the host has closed its end. Returns in each child, too."""
        self._poll.register(self._connection, select.POLLIN)
        self._send({"ready": VERSION})
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._children:
                    self._reap(descriptor)
                    continue
                message, descriptors = receive(self._connection)
                if message is None:
                    return None
                if (order := self._fork(message["fork"], descriptors)) is not None:
                    return order

    def _fork(self, number: int, descriptors: list[int]) -> ForkOrder | None:
        """Fork a child; returns what it has to become in the child, and None in the zygote."""
        try:
            if (reason := self._obstacle()) is not None:
                self._send({"refused": number, "reason": reason})
                return None
            stdin, stdout, stderr, start = descriptors
            pid = os.fork()
            if pid == 0:
                # Closed with all others. No object must close a number that has another meaning by then.
                self._connection.detach()
                descriptors.clear()
                return ForkOrder((stdin, stdout, stderr), start)
            handle = os.pidfd_open(pid)
            self._children[handle] = number, pid
            self._poll.register(handle, select.POLLIN)
            self._send({"forked": number, "pid": pid}, handle)
        except OSError as error:  # no process, no descriptor
            self._send({"refused": number, "reason": str(error)})
        finally:
            for each in descriptors:
                os.close(each)
        return None

    def _obstacle(self) -> str | None:
        """Return why no agent may be forked any more."""
        if len(os.listdir("/proc/self/task")) != 1:
            return "a module has started a thread"
        if identity() != self._identity:
            return "the program or the interpreter was replaced"
        return None

    def _reap(self, handle: int) -> None:
        number, pid = self._children.pop(handle)
        self._poll.unregister(handle)
        os.close(handle)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._send({"exited": number, "status": status})

    def _send(self, message: Mapping[str, object], *descriptors: int) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the host has ended: the next receive ends the loop
            send(self._connection, message, descriptors)


def added_variables() -> dict[str, str]:
    """Return the variables that the interpreter has added to those it was started with: a locale, instead of C."""
    with open("/proc/self/environ", "rb") as file:
        given = {os.fsdecode(each.partition(b"=")[0]) for each in file.read().split(b"\0")}
    return {name: value for name, value in os.environ.items() if name not in given}


def identity() -> dict[str, object]:
    """Return what differs after an upgrade: the files of the interpreter and of the program, and what is installed.

    An installation adds a folder to one of those that modules are found in.
    """
    found: dict[str, object] = {}
    for path in (*sys.path, sys.executable):
        with suppress(OSError):
            found[path] = _stamp(os.stat(path))
    todo = [path for name in PROGRAM for path in import_module(name).__path__]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found[entry.path] = _stamp(entry.stat())
                elif entry.name != "__pycache__" and entry.is_dir():
                    todo.append(entry.path)
    return found


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def become_agent(order: ForkOrder, added: Mapping[str, str]) -> list[str]:
    """Turn a forked child into what a new interpreter would be, and return the agent's command line.

    Args:
        order: The descriptors.
        added: Variables of the environment that a new interpreter would have added itself.
    """
    os.setsid()
    reset_signals()
    with socket.socket(fileno=order.start) as connection:
        try:
            start = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
        except (ValueError, OSError):  # the host has given up
            os._exit(_START_ERROR)
        try:
            apply_start(start, added)
        except (OSError, ValueError) as error:
            _refuse(connection, str(error))
        connection.sendall(b"started")
    keep_stdio(order.stdio)
    arguments = ["--mode", "rpc", *start["arguments"]]
    sys.argv[1:] = arguments
    return arguments


def keep_stdio(stdio: Iterable[int]) -> None:
    """Make descriptors stdin, stdout and stderr, and close all others."""
    for target, descriptor in enumerate(stdio):
        os.dup2(descriptor, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= _FIRST_FREE:
            with suppress(OSError):  # that of the listing is closed
                os.close(int(name))


def apply_start(start: Mapping[str, Any], added: Mapping[str, str]) -> None:
    """Take over the umask, the folder, the environment and the limit of memory that a process is started with.

    Args:
        start: `umask`, `cwd`, `environment`, and `memory` in bytes, or None for no limit.
        added: Variables of the environment that a new interpreter would have added itself.

    Raises:
        OSError, ValueError: The folder can't be entered, or the environment can't be one.
    """
    os.umask(start["umask"])
    os.chdir(start["cwd"])
    os.environ.clear()
    os.environ.update({**added, **start["environment"]})
    time.tzset()
    random.seed()
    tempfile.tempdir = None
    if (limit := start["memory"]) is not None:
        import resource

        with suppress(OSError, ValueError):  # a lower limit stays
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _refuse(connection: socket.socket, error: str) -> NoReturn:
    with suppress(OSError):
        connection.sendall(error.encode("utf-8", "backslashreplace"))
    os._exit(_START_ERROR)


if __name__ == "__main__":
    sys.exit(main())
