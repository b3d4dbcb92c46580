"""The filter of system calls of a sandbox: a program of classic BPF, for x86-64 and arm64.

Pure. Everything that is not refused here is allowed: the filter closes what namespaces and mounts leave open. Numbers
are those of the kernel's tables, which never change.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

# Of linux/seccomp.h, linux/audit.h, linux/filter.h.
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000
_EPERM: Final = 1
_ENOSYS: Final = 38
_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN: Final = 0x06
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_FIRST, _SECOND = 16, 24  # the low words of the arguments on little-endian machines
_X32: Final = 0x40000000

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET = 1, 5
_TYPE_MASK: Final = 0xF  # without SOCK_CLOEXEC and SOCK_NONBLOCK
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_NEWUSER: Final = 0x10000000


class Machine(NamedTuple):
    """A processor architecture: its identifier in filters, and its numbers of system calls."""

    architecture: int
    calls: Mapping[str, int]
    has_x32: bool = False


_COMMON: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "file_setattr": 469,
}
MACHINES: Final[Mapping[str, Machine]] = {
    "x86_64": Machine(
        0xC000003E,
        {
            **_COMMON,
            "socket": 41,
            "socketpair": 53,
            "ioctl": 16,
            "keyctl": 250,
            "add_key": 248,
            "request_key": 249,
            "bpf": 321,
            "perf_event_open": 298,
            "userfaultfd": 323,
            "open_by_handle_at": 304,
            "ptrace": 101,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "prlimit64": 302,
            "setpriority": 141,
            "ioprio_set": 251,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "sched_setaffinity": 203,
            "sched_setattr": 314,
            "migrate_pages": 256,
            "move_pages": 279,
            "clone": 56,
            "unshare": 272,
            "setns": 308,
            "mount": 165,
            "umount2": 166,
            "pivot_root": 155,
            "shmget": 29,
            "shmat": 30,
            "shmctl": 31,
            "semget": 64,
            "semop": 65,
            "semctl": 66,
            "msgget": 68,
            "msgsnd": 69,
            "msgrcv": 70,
            "msgctl": 71,
            "semtimedop": 220,
            "mq_open": 240,
            "chmod": 90,
            "fchmod": 91,
            "fchmodat": 268,
            "chown": 92,
            "fchown": 93,
            "lchown": 94,
            "fchownat": 260,
            "utime": 132,
            "utimes": 235,
            "futimesat": 261,
            "utimensat": 280,
            "setxattr": 188,
            "lsetxattr": 189,
            "fsetxattr": 190,
            "removexattr": 197,
            "lremovexattr": 198,
            "fremovexattr": 199,
        },
        has_x32=True,
    ),
    "aarch64": Machine(
        0xC00000B7,
        {
            **_COMMON,
            "socket": 198,
            "socketpair": 199,
            "ioctl": 29,
            "keyctl": 219,
            "add_key": 217,
            "request_key": 218,
            "bpf": 280,
            "perf_event_open": 241,
            "userfaultfd": 282,
            "open_by_handle_at": 265,
            "ptrace": 117,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "prlimit64": 261,
            "setpriority": 140,
            "ioprio_set": 30,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "sched_setaffinity": 122,
            "sched_setattr": 274,
            "migrate_pages": 238,
            "move_pages": 239,
            "clone": 220,
            "unshare": 97,
            "setns": 268,
            "mount": 40,
            "umount2": 39,
            "pivot_root": 41,
            "shmget": 194,
            "shmctl": 195,
            "shmat": 196,
            "semget": 190,
            "semctl": 191,
            "semtimedop": 192,
            "semop": 193,
            "msgget": 186,
            "msgctl": 187,
            "msgrcv": 188,
            "msgsnd": 189,
            "mq_open": 180,
            "fchmod": 52,
            "fchmodat": 53,
            "fchownat": 54,
            "fchown": 55,
            "utimensat": 88,
            "setxattr": 5,
            "lsetxattr": 6,
            "fsetxattr": 7,
            "removexattr": 14,
            "lremovexattr": 15,
            "fremovexattr": 16,
        },
    ),
}
"""By the names that `os.uname().machine` returns."""

_REFUSED: Final = (
    "io_uring_setup",  # opens sockets past the filter
    "io_uring_enter",
    "io_uring_register",
    "keyctl",  # the session keyring is in no namespace
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "open_by_handle_at",
    "ptrace",  # of the first process of the namespace, with which all of them have to end
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
)
_NAMESPACES: Final = ("unshare", "setns", "mount", "umount2", "pivot_root")
_SHARED_MEMORY: Final = (
    "shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open",
)  # fmt: skip
_ATTRIBUTES: Final = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat", "file_setattr",
)  # fmt: skip
"""Some are not on every machine."""
_FIRST_ALONE: Final = ((_FIRST, 0),)
_OF_OTHERS: Final[Mapping[str, Sequence[tuple[int, int]]]] = {
    "prlimit64": _FIRST_ALONE,
    "sched_setparam": _FIRST_ALONE,
    "sched_setscheduler": _FIRST_ALONE,
    "sched_setaffinity": _FIRST_ALONE,
    "sched_setattr": _FIRST_ALONE,
    "migrate_pages": _FIRST_ALONE,
    "move_pages": _FIRST_ALONE,
    "setpriority": ((_FIRST, 0), (_SECOND, 0)),  # PRIO_PROCESS
    "ioprio_set": ((_FIRST, 1), (_SECOND, 0)),  # IOPRIO_WHO_PROCESS
}
"""Calls that change a process, and the values of arguments with which that is the caller: nothing else is allowed. A
thread that names itself by its number is refused, too; programs go on without it."""


class UnknownMachine(Exception):
    """There is no filter for this architecture."""


class Rules(NamedTuple):
    """What a filter refuses beside what each one does."""

    allows_unix_sockets: bool = False
    refuses_namespaces: bool = False
    """For bubblewrap without `--disable-userns`, and for mechanisms without namespaces."""
    refuses_network: bool = False
    """For mechanisms without a network namespace: sockets of the families INET and INET6, too."""
    refuses_shared_memory: bool = False
    """For mechanisms without an IPC namespace."""
    refuses_others: bool = False
    """For mechanisms without a process namespace: limits, priorities and processors of other processes."""
    refuses_attributes: bool = False
    """For mechanisms without mounts: modes, owners, times and attributes of files, which are those of files outside."""


def filter_program(machine: str, rules: Rules = Rules()) -> bytes:  # noqa: B008  # immutable
    """Return the filter as an array of `struct sock_filter`, as the kernel and bubblewrap read it.

    Args:
        machine: The architecture, as `os.uname().machine` returns it.
        rules: What depends on the policy and the mechanism.

    Raises:
        UnknownMachine: There is no filter for it.
    """
    if machine not in MACHINES:
        raise UnknownMachine(f"there is no filter of system calls for {machine}, only for {' and '.join(MACHINES)}")
    return _Assembler(MACHINES[machine]).program(rules)


class _Assembler:
    """Builds the instructions of one program; each block loads the number of the call when it begins."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._code: list[tuple[int, int, int, int]] = []

    def program(self, rules: Rules) -> bytes:
        self._add(_LOAD, _ARCHITECTURE)
        self._add(_EQUAL, self._machine.architecture, 1, 0)
        self._refuse()
        self._add(_LOAD, _NUMBER)
        if self._machine.has_x32:
            self._add(_AT_LEAST, _X32, 0, 1)
            self._refuse()
        families = [_NETLINK] if rules.refuses_network else [_INET, _INET6, _NETLINK]
        self._only("socket", _FIRST, [*families, *([_UNIX] if rules.allows_unix_sockets else [])])
        self._only("socketpair", _SECOND, [_STREAM, _SEQPACKET], _TYPE_MASK)
        self._never("ioctl", _SECOND, [_TIOCSTI, _TIOCLINUX])
        names: list[str] = list(_REFUSED)
        if rules.refuses_namespaces:
            names += _NAMESPACES
            self._call("clone3", [(_RETURN, 0, 0, _REFUSE | _ENOSYS)])
            self._call(
                "clone",
                [
                    (_LOAD, 0, 0, _FIRST),
                    (_AND, 0, 0, _NEWUSER),
                    (_EQUAL, 1, 0, 0),
                    (_RETURN, 0, 0, _REFUSE | _EPERM),
                    (_RETURN, 0, 0, _ALLOW),
                ],
            )
        if rules.refuses_others:
            for name, values in _OF_OTHERS.items():
                self._only_with(name, values)
        if rules.refuses_shared_memory:
            names += _SHARED_MEMORY
        if rules.refuses_attributes:
            names += [each for each in _ATTRIBUTES if each in self._machine.calls]
        for left, name in zip(range(len(names) - 1, -1, -1), names, strict=True):
            # The last one that is unlike skips the refusal, which follows the allowance.
            self._add(_EQUAL, self._machine.calls[name], left + 1, 0)
        self._add(_RETURN, _ALLOW)
        self._refuse()
        return b"".join(struct.pack("<HBBI", *each) for each in self._code)

    def _only(self, name: str, argument: int, allowed: Sequence[int], mask: int | None = None) -> None:
        """Refuse a call unless an argument is one of these values."""
        block = [(_LOAD, 0, 0, argument)]
        if mask is not None:
            block.append((_AND, 0, 0, mask))
        block += [(_EQUAL, left, 0, value) for left, value in _counted(allowed)]
        block += [(_RETURN, 0, 0, _REFUSE | _EPERM), (_RETURN, 0, 0, _ALLOW)]
        self._call(name, block)

    def _only_with(self, name: str, values: Sequence[tuple[int, int]]) -> None:
        """Refuse a call unless all these arguments have these values."""
        block: list[tuple[int, int, int, int]] = []
        for left, (argument, value) in zip(range(len(values) - 1, -1, -1), values, strict=True):
            # One that is unlike skips the others, and the allowance.
            block += [(_LOAD, 0, 0, argument), (_EQUAL, 0, 2 * left + 1, value)]
        self._call(name, [*block, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE | _EPERM)])

    def _never(self, name: str, argument: int, refused: Sequence[int]) -> None:
        """Refuse a call if an argument is one of these values."""
        block = [(_LOAD, 0, 0, argument)]
        block += [(_EQUAL, left, 0, value) for left, value in _counted(refused)]
        block += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE | _EPERM)]
        self._call(name, block)

    def _call(self, name: str, block: Sequence[tuple[int, int, int, int]]) -> None:
        """Add a block that decides about one call; the loaded number is kept for other calls."""
        self._add(_EQUAL, self._machine.calls[name], 0, len(block))
        self._code += block

    def _add(self, code: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self._code.append((code, if_true, if_false, value))

    def _refuse(self) -> None:
        self._add(_RETURN, _REFUSE | _EPERM)


def _counted(values: Sequence[int]) -> list[tuple[int, int]]:
    """Return each value with its distance to the second return behind the list."""
    return [(len(values) - place, value) for place, value in enumerate(values)]
