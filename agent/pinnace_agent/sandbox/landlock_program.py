"""The supervisor of commands under Landlock: a program that forks a keeper for each, which restricts, runs and ends it.

One supervisor serves an agent for as long as both live, so that a command does not wait for the start of an
interpreter. For each order it forks a **keeper**: a child of the agent, not of the supervisor (CLONE_PARENT), so that
the agent waits for it as for any program of its own, and so that a supervisor that dies takes no command with it. The
keeper is the parent of the command and child subreaper of everything that the command starts: when the command has
exited, or the agent has, it kills every descendant until none is left, and those of no other command. It exits with the
command's status, 128 + n if signal n has killed it. A command can signal neither (scope of Landlock).

Started as `python -I -S`: imports the standard library and one module that needs no more, and stays in one thread,
which forking without the interpreter's knowledge needs. What a command may do stands in its order (`landlock`);
nothing is decided here. The agent's side of the socket is `landlock_supervisor`.
"""

import ctypes
import errno
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pinnace_agent.sandbox.opened import LinkOnTheWay, open_without_links

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CAPSET: Final[Mapping[str, int]] = {"x86_64": 126, "aarch64": 91}
_CLONE: Final[Mapping[str, int]] = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT: Final = 0x8000
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


REPLY: Final = struct.Struct("=i")
"""The answer to an order: the process number of the keeper, or the negative number of an error."""


class KeeperOrder(NamedTuple):
    """What a keeper is to do: the content of a file, whose descriptor is the first of those that come with it."""

    rules: Sequence[tuple[str, int, int, int]]
    """Paths, the rights below each, and the device and the number of the file or folder that was there."""
    filter: str
    """The seccomp program, in hexadecimal digits."""
    arguments: Sequence[str]
    """The program and its arguments."""
    env: Mapping[str, str]
    """The program's environment, whole: nothing is inherited."""


class Descriptors(NamedTuple):
    """What comes with an order."""

    order: int
    report: int
    """`STARTED` is written there once the process is restricted."""
    folder: int
    """The folder to run in."""
    stdin: int
    stdout: int
    stderr: int


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


def serve(channel: socket.socket, agent: int) -> None:
    """Fork a keeper for each order, until the agent or its end of the channel is gone.

    Args:
        channel: Orders come from it: packets of one byte with `Descriptors`. Each is answered before the next is read.
        agent: The process number of the agent, the parent of this process.
    """
    for number in _OF_GROUPS:  # meant for others of the agent's group
        signal.signal(number, signal.SIG_IGN)
    gone = os.pidfd_open(agent)
    if os.getppid() != agent:  # it has ended before, and its number may be another's
        return
    waiting = select.poll()
    waiting.register(gone, select.POLLIN)
    waiting.register(channel, select.POLLIN)
    while gone not in dict(waiting.poll()):
        data, received, _, _ = socket.recv_fds(channel, 1, len(Descriptors._fields), socket.MSG_CMSG_CLOEXEC)
        if not data:
            return
        keeper = _fork_for_the_parent()
        if keeper == 0:
            _keep(Descriptors(*received), channel, agent, gone)
        for each in received:
            os.close(each)
        if keeper < 0:
            channel.send(REPLY.pack(keeper))


def _fork_for_the_parent() -> int:
    """Fork a child of this process' parent; return its number, 0 in it, or the negative number of an error."""
    # `os.fork` can't do that. A PyDLL keeps the interpreter locked meanwhile, so that the child has the lock.
    flags = _CLONE_PARENT | signal.SIGCHLD
    pid: int = ctypes.PyDLL(None, use_errno=True).syscall(_CLONE[os.uname().machine], flags, 0, 0, 0, 0)
    return -ctypes.get_errno() if pid < 0 else pid


def _keep(given: Descriptors, channel: socket.socket, agent: int, gone: int) -> None:
    """Run the command of an order, end everything that it has started, and exit as it did. Does not return."""
    code = _SETUP_FAILED
    try:
        os.setsid()
        # By the keeper, before it runs anything: an agent that gets no answer knows that nothing runs.
        channel.send(REPLY.pack(os.getpid()))
        channel.close()
        for number, each in enumerate((given.stdin, given.stdout, given.stderr)):
            os.dup2(each, number)
            os.close(each)
        if os.getppid() == agent:
            os.fchdir(given.folder)
            os.close(given.folder)
            with open(given.order, "rb") as file:
                order = KeeperOrder(*json.load(file))
            code = supervise(order, given.report, gone)
    except OSError as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(code)


def supervise(order: KeeperOrder, report: int, agent: int) -> int:
    """Run the command, end everything that it has started, and return its exit code.

    Args:
        order: What to run.
        report: Gets `STARTED` once the process is restricted; it is closed.
        agent: Becomes readable when the agent ends.
    """
    _check(_libc().prctl(_SUBREAPER, 1, 0, 0, 0))
    command = os.fork()
    if command == 0:
        _become(order, report)
    os.close(report)
    code = _wait(command, agent)
    _end_descendants()
    return code


def _become(order: KeeperOrder, report: int) -> None:
    """Restrict this process for good and replace it by the command. Does not return."""
    try:
        for number in (*_OF_GROUPS, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        restrict(order)
        os.write(report, STARTED)
        os.close(report)
        os.execvpe(order.arguments[0], list(order.arguments), order.env)
    except OSError as error:
        # After the report it is the command's own failure, as a shell would put it.
        os.write(2, os.fsencode(f"{order.arguments[0]}: {error.strerror}\n"))
        os._exit(127 if error.errno == errno.ENOENT else 126)
    finally:
        os._exit(_SETUP_FAILED)


def restrict(order: KeeperOrder) -> None:
    """Apply the rules, the scopes and the filter to this process, and give up all capabilities.

    Raises:
        OSError: Something could not be applied; the process must not go on.
    """
    libc = _libc()
    _check(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    attributes = _Ruleset(ALL_FILES, 0, ALL_SCOPES)
    ruleset = _check(libc.syscall(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(24), 0))
    for path, rights, device, inode in order.rules:
        try:
            place = open_without_links(path)
        except (FileNotFoundError, LinkOnTheWay):
            continue  # removed or replaced meanwhile: nothing is allowed
        status = os.fstat(place)
        is_same = (status.st_dev, status.st_ino) == (device, inode)
        rule = _Beneath(rights if stat.S_ISDIR(status.st_mode) else rights & OF_FILES, place)
        if not is_same:  # something else by now: nothing is allowed there, either
            rule.allowed = 0
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
    """Serve the agent whose number follows that of the channel."""
    with socket.socket(fileno=int(sys.argv[2])) as channel:
        serve(channel, int(sys.argv[3]))
