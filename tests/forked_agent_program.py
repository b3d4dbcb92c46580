"""The process that `forked_agents` forks: it loads what an agent loads, then becomes one agent for each order.

A fork is a sibling of this process and not its child, so the test that asked for it can wait for it. One thread, no
event loop: what is loaded is the same for all, whatever the agents before have done.

An agent that has ended in order waits for its threads and calls what is registered for the exit, as an interpreter
does, and then leaves without taking its modules apart: that would copy all pages that it shares with this process.
"""

import atexit
import ctypes
import gc
import json
import os
import platform
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pinnace_rpc.host.agents.fresh_program import reset_signals
from pinnace_rpc.host.agents.zygote_messages import DESCRIPTOR_SPACE, received_descriptors
from pinnace_rpc.host.agents.zygote_program import added_variables, apply_start, keep_stdio

_CLONE_PARENT: Final = 0x8000
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
"""The number of the system call."""
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
    connection = socket.socket(fileno=int(sys.argv[1]))
    for name in (*_modules_of_an_agent(), *_HTTP, *sys.argv[2:]):
        with suppress(ImportError):  # made by another module, not found by name
            import_module(name)
    gc.collect()
    gc.freeze()
    gc.enable()
    order, stdio = _serve(connection)
    _become(order, stdio, added)
    from pinnace_rpc.cli.main import main as run

    _leave(run())


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


def _serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork on request; returns in each fork, with its order and its stdin, stdout and stderr."""
    while True:
        data, ancillary, *_ = connection.recvmsg(_LARGEST_ORDER, DESCRIPTOR_SPACE)
        if not data:
            sys.exit(0)
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


def _become(order: dict[str, Any], stdio: list[int], added: dict[str, str]) -> None:
    """Be what a new interpreter would be."""
    if order["has_session"]:
        os.setsid()
    reset_signals()
    apply_start(order, added)
    keep_stdio(stdio)
    sys.argv[1:] = order["words"]


if __name__ == "__main__":
    main()
