"""The process that `forked_agents` forks: it loads what an agent loads, then becomes one agent for each order.

A fork is a sibling of this process and not its child, so the test that asked for it can wait for it. One thread, no
event loop: what is loaded is the same for all, whatever the agents before have done. A fork that starts programs is
itself forked before it begins: the copy is its child, and forks siblings for it in the same way.

An agent that has ended in order waits for its threads and calls what is registered for the exit, as an interpreter
does, and then leaves without taking its modules apart: that would copy all pages that it shares with this process.
"""

import atexit
import ctypes
import fcntl
import gc
import json
import os
import platform
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pinnace_rpc.host.agents.fresh_program import reset_signals
from pinnace_rpc.host.agents.zygote_messages import DESCRIPTOR_SPACE, received_descriptors
from pinnace_rpc.host.agents.zygote_program import added_variables, apply_start, preload

PROGRAM: Final = Path(__file__)
PYTHON: Final = (sys.executable, "-P", "-m")
ROOM: Final = "0" * 48_000
ROOM_VARIABLE: Final = "PINNACE_TEST_ROOM"
"""Given the room, in bytes, for the command lines and the environments of forks; its last word likewise."""
_FIRST_ADDRESS: Final = 45
"""Of the fields of /proc/PID/stat after the name: where the command line begins and ends, and the environment."""
STARTING: Final = "--starting"
"""A word of the command line: forks start programs in turn, and zygotes of agents among them."""
_CLONE_PARENT: Final = 0x8000
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
"""The number of the system call."""
_PR_SET_PDEATHSIG: Final = 1
_STDIO: Final = 3
_MAIN: Final = {"pinnace_rpc": "pinnace_rpc.cli.main"}
"""Where the `main` of a module is that is not in itself."""
_LARGEST_ORDER: Final = 1 << 20
_EXTENSION: Final = Path(__file__).parents[1] / "examples" / "extensions" / "session_name.py"
_TRIAL: Final = (*"--mode rpc --no-session --provider offline --on-eof drain -e".split(), str(_EXTENSION))
_PROMPT: Final = b'{"type":"prompt","message":"Hello"}\n'
_HTTP: Final = (
    *(f"pinnace_agent.llm.{api}.provider" for api in ("openai_chat", "openai_responses", "anthropic", "google")),
    *"pinnace_agent.llm.transport.connections httpcore httpx encodings.idna encodings.utf_8_sig".split(),
    "pinnace_agent.session.interruption",
)
"""What the first agent does not load, whose model is no server."""


def main() -> None:
    """Load, and fork on request until the tests have ended; in a fork, run the program."""
    gc.disable()  # what is loaded stays
    added = added_variables()
    shown = _ShownWords()
    given = {name: value for name, value in os.environ.items() if name not in added}
    connection = socket.socket(fileno=int(sys.argv[1]))
    words = sys.argv[2:]
    for name in (*_modules_of_an_agent(), *_HTTP, *(word for word in words if word != STARTING)):
        with suppress(ImportError):  # made by another module, not found by name
            import_module(name)
    if STARTING in words:
        preload()
        _forks()
    gc.collect()
    gc.freeze()
    gc.enable()
    while True:
        order, descriptors = _serve(connection)
        _become(order, descriptors, added, shown)
        if not order["is_starter"] or (copy := _copied(given, added)) is None:
            break
        shown.show((str(PROGRAM),), {})
        connection = copy
    _leave(import_module(_MAIN.get(order["module"], order["module"])).main())


class _ShownWords:
    """The command line and the environment that /proc shows of this process: what it was started with.

    That is kept where the stack begins, with room for those of forks: a word and a variable that nothing else uses.
    """

    def __init__(self) -> None:
        """Take the room away from the command line and the environment of this process itself."""
        assert sys.argv.pop() == ROOM
        assert os.environ.pop(ROOM_VARIABLE) == ROOM
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        self._start, self._middle, _, self._end = map(int, fields[_FIRST_ADDRESS : _FIRST_ADDRESS + 4])
        self._written = [self._middle - self._start, self._end - self._middle]
        os.environ.update(dict(os.environ))  # the C library's are no longer in there
        self.show((str(PROGRAM),), {})

    def show(self, words: Iterable[str], environment: Mapping[str, str]) -> None:
        """Show these from now on."""
        variables = (f"{name}={value}" for name, value in environment.items())
        for number, (start, end, texts) in enumerate(
            [(self._start, self._middle, words), (self._middle, self._end, variables)]
        ):
            data = b"".join(os.fsencode(text) + b"\0" for text in texts)
            assert len(data) < end - start
            ctypes.memmove(start, data.ljust(self._written[number], b"\0"), max(len(data), self._written[number]))
            self._written[number] = len(data)


def _modules_of_an_agent() -> list[str]:
    """Have a first agent answer a prompt, with an extension, and return what it has loaded, in that order."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        asked, asking = os.pipe()
        os.write(asking, _PROMPT)
        os.close(asking)
        nothing = os.open(os.devnull, os.O_RDWR)
        for target, descriptor in enumerate((asked, nothing, nothing)):
            os.dup2(descriptor, target)
        os.environ["HOME"] = "/nonexistent"
        sys.argv[1:] = _TRIAL
        from pinnace_rpc.cli.main import main as run

        run()
        with open(writing, "w", encoding="utf-8") as pipe:
            pipe.write("\n".join(name for name, module in sys.modules.items() if _can_load(module)))
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        names = pipe.read().split()
    _, status = os.wait()
    assert status == 0, "the first agent has failed"
    return names


def _can_load(module: ModuleType) -> bool:
    """Whether it is found by its name: not the program, and not the extension."""
    found = getattr(module, "__spec__", None)
    return found is not None and found.origin != str(_EXTENSION)


def _forks() -> ModuleType:
    """Import what has a program's starts be forks; Python leaves its folder out with -P."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    module = import_module("tests.forked_agents")
    sys.path.pop(0)
    return module


def _copied(given: Mapping[str, str], added: Mapping[str, str]) -> socket.socket | None:
    """Fork what this process forks from now on; returns the connection in that copy, and None in this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        nothing, kept = os.open(os.devnull, os.O_RDWR), theirs.detach()
        _keep((nothing, nothing, nothing), kept)
        return socket.socket(fileno=kept)
    theirs.close()
    forks = _forks()
    forks.NestedForks(ours, given, added).install(forks.STARTED_BY_PROGRAMS)
    return None


def _serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork on request; returns in each fork, with its order and its stdin, stdout and stderr."""
    while True:
        data, ancillary, *_ = connection.recvmsg(_LARGEST_ORDER, DESCRIPTOR_SPACE)
        if not data:
            os._exit(0)
        descriptors = received_descriptors(ancillary)
        begun, beginning = os.pipe()
        if (pid := _fork_sibling()) == 0:
            connection.detach()  # closed with all others, as is the pipe
            return json.loads(data), descriptors
        for descriptor in (*descriptors, beginning):
            os.close(descriptor)
        # A start returns when its process has its session, its folder and the system's handlers: signals and looks at
        # /proc may come at once.
        os.read(begun, 1)
        os.close(begun)
        connection.send(str(pid).encode())


def _fork_sibling() -> int:
    """Fork as `os.fork` does, with a child of this process' parent."""
    # PyDLL keeps the interpreter's lock, which the C library's own fork would, too.
    call = ctypes.PyDLL(None).syscall
    ctypes.pythonapi.PyOS_BeforeFork()
    # No memory of a thread's identity is updated: the C library asks the system for it since glibc 2.34.
    flags = ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD)
    pid = int(call(ctypes.c_long(_CLONE[platform.machine()]), flags, *[ctypes.c_void_p(None)] * 4))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid


def _leave(code: int) -> None:
    """End the process with this code."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # closed: the interpreter has words for it
        sys.exit(code)
    os._exit(code)


def _become(order: dict[str, Any], descriptors: Sequence[int], added: dict[str, str], shown: _ShownWords) -> None:
    """Be what a new interpreter would be."""
    if order["has_session"]:
        os.setsid()
    reset_signals()
    if order["is_leashed"]:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    apply_start(order, added)
    stdio, passed = descriptors[:_STDIO], descriptors[_STDIO:]
    # A passed one is named by the one word of the command line.
    kept = fcntl.fcntl(passed[0], fcntl.F_DUPFD, _STDIO) if passed else None
    sys.argv[1:] = order["words"] if kept is None else [str(kept)]
    shown.show((*PYTHON, order["module"], *sys.argv[1:]), order["environment"])
    _keep(stdio, kept)
    _open_streams()


def _open_streams() -> None:
    """Open the streams of text anew: whether one is a terminal, or has a place, was asked of what was there before."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        former = getattr(sys, name)
        is_written_at_once = former.write_through  # as PYTHONUNBUFFERED asks
        binary = open(descriptor, f"{mode}b", 0 if is_written_at_once else -1, closefd=False)  # noqa: SIM115  # stays
        stream = TextIOWrapper(
            binary,
            former.encoding,
            former.errors,
            newline="\n",
            line_buffering=name == "stderr" or os.isatty(descriptor),
            write_through=is_written_at_once,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _keep(stdio: Sequence[int], kept: int | None) -> None:
    """Make descriptors stdin, stdout and stderr, and close all others but one."""
    for target, descriptor in enumerate(stdio):
        os.dup2(descriptor, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= _STDIO and int(name) != kept:
            with suppress(OSError):  # that of the listing is closed
                os.close(int(name))


if __name__ == "__main__":
    main()
