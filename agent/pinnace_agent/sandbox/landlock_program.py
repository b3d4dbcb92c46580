"""The supervisor of a command under Landlock: a program that starts the command with rules and a filter, and ends it.

It is the parent of the command and child subreaper of everything that the command starts: when the command has exited,
or the agent has, it kills every descendant until none is left. A command can't signal it (scope of Landlock). Exits
with the command's status, 128 + n if signal n has killed it.

Started as `python -I -S`, once for each command: imports the standard library alone. What the command may do stands in
the order that it is given (`landlock`); nothing is decided here.
"""

import ctypes
import errno
import json
import os
import select
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CAPSET: Final[Mapping[str, int]] = {"x86_64": 126, "aarch64": 91}
_PATH_BENEATH: Final = 1
_ABI_QUERY: Final = 1
_SUBREAPER, _NO_NEW_PRIVS, _SECCOMP, _DROP_BOUND, _FILTER = 36, 38, 22, 24, 2
_SETUP_FAILED: Final = 125
_OF_GROUPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_S: Final = 0.1
"""How long other processes of the command may take to end by themselves: the last one of a pipeline, for instance."""

# Bits of the kernel's interface, <linux/landlock.h>.
EXECUTE, WRITE, READ, LIST = 1, 2, 4, 8
TRUNCATE, IOCTL = 1 << 14, 1 << 15
ALL_FILES: Final = (1 << 16) - 1
OF_FILES: Final = EXECUTE | WRITE | READ | TRUNCATE | IOCTL
"""The rights that a rule for a file, and no folder, may give."""
ALL_SCOPES: Final = 3  # abstract sockets, signals
ABI: Final = 6
STARTED: Final = b"started"


class Order(NamedTuple):
    """What the supervisor is to do."""

    rules: Sequence[tuple[str, int]]
    """Paths and the rights below each."""
    filter: str
    """The seccomp program, in hexadecimal digits."""
    agent: int
    """The process number of the agent, whose end ends the command."""
    report: int
    """The descriptor on which `STARTED` is written once the process is restricted."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel has; 0: none, or it is switched off."""
    found: int = _libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), _ABI_QUERY)
    return max(0, found)


def supervise(order: Order, arguments: Sequence[str]) -> int:
    """Run the command, end everything that it has started, and return its exit code."""
    libc = _libc()
    _check(libc.prctl(_SUBREAPER, 1, 0, 0, 0))
    agent = _agent_handle(order.agent)
    command = os.fork()
    if command == 0:
        _become(order, arguments)
    os.close(order.report)
    code = _wait(command, agent)
    _end_descendants()
    return code


def _agent_handle(agent: int) -> int:
    """Return a handle that becomes readable when the agent ends."""
    try:
        handle = os.pidfd_open(agent)
    except OSError as error:
        raise SystemExit(_SETUP_FAILED) from error
    if os.getppid() != agent:  # it has ended before, and its number may be another's
        raise SystemExit(_SETUP_FAILED)
    return handle


def _become(order: Order, arguments: Sequence[str]) -> None:
    """Restrict this process for good and replace it by the command. Does not return."""
    try:
        for number in (*_OF_GROUPS, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        restrict(order)
        os.write(order.report, STARTED)
        os.close(order.report)
        os.execvp(arguments[0], list(arguments))
    except OSError as error:
        # After the report it is the command's own failure, as a shell would put it.
        os.write(2, f"{arguments[0]}: {error.strerror}\n".encode())
        os._exit(127 if error.errno == errno.ENOENT else 126)
    finally:
        os._exit(_SETUP_FAILED)


def restrict(order: Order) -> None:
    """Apply the rules, the scopes and the filter to this process, and give up all capabilities.

    Raises:
        OSError: Something could not be applied; the process must not go on.
    """
    libc = _libc()
    _check(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    attributes = _Ruleset(ALL_FILES, 0, ALL_SCOPES)
    ruleset = _check(libc.syscall(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(24), 0))
    for path, rights in order.rules:
        try:
            place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # removed meanwhile: nothing is allowed
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rule = _Beneath(rights if is_folder else rights & OF_FILES, place)
        if rule.allowed:
            _check(libc.syscall(ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(place)
    _drop_capabilities(libc)
    _check(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    program = bytes.fromhex(order.filter)
    filters = _Filter(len(program) // 8, program)
    _check(libc.prctl(_SECCOMP, _FILTER, ctypes.byref(filters), 0, 0))


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    number = 0
    while libc.prctl(_DROP_BOUND, number, 0, 0, 0) == 0:
        number += 1
    if os.geteuid() == 0 and ctypes.get_errno() != errno.EINVAL:  # EINVAL: there is no further one
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(libc.syscall(CAPSET[os.uname().machine], header, none))


def _wait(command: int, agent: int) -> int:
    """Wait until the command has exited or the agent has; return the exit code."""
    handle = os.pidfd_open(command)
    # poll: a descriptor may have a number that select can't take
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    waiting.register(agent, select.POLLIN)
    while not (ready := dict(waiting.poll())):
        pass
    if handle not in ready:
        return _SETUP_FAILED  # its reader has ended
    status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    _await_the_last(agent)
    return 128 - status if status < 0 else status


def _await_the_last(agent: int) -> None:
    """Leave other processes of the command a moment to end by themselves."""
    import time

    end = time.monotonic() + GRACE_S
    pause = 0.001
    while _has_children() and time.monotonic() < end and not select.select([agent], [], [], pause)[0]:
        pause = min(pause * 2, 0.02)


def _has_children() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _end_descendants() -> None:
    """Kill every descendant until none is left: one whose parent was killed becomes a child of this process."""
    while _has_children():
        for pid in _descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _descendants(root: int) -> list[int]:
    found: list[int] = []
    todo = [root]
    while todo:
        for child in _children(todo.pop()):
            found.append(child)
            todo.append(child)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                children += map(int, file.read().split())
    return children


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def main() -> None:
    """Run the command that follows the descriptor of an order."""
    for number in _OF_GROUPS:  # meant for the command, which is in the same group
        signal.signal(number, signal.SIG_IGN)
    with open(int(sys.argv[2]), "rb") as file:
        order = Order(*json.load(file))
    sys.exit(supervise(order, sys.argv[3:]))
