"""The filter of system calls, executed as the kernel does."""

import struct

import pytest

from pinnace_agent.sandbox.seccomp import MACHINES, Rules, UnknownMachine, filter_program

ALLOWED, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
INET, INET6, UNIX, NETLINK, PACKET, VSOCK = 2, 10, 1, 16, 17, 40
STREAM, DGRAM, SEQPACKET, CLOEXEC = 1, 2, 5, 0o2000000


NOTHING = Rules()
CHANGING = "prlimit64 sched_setparam sched_setscheduler sched_setaffinity sched_setattr migrate_pages move_pages"
OF_OTHERS: dict[str, list[tuple[int, ...]]] = {
    **{name: [(0, 7), (4711, 7)] for name in CHANGING.split()},
    "setpriority": [(0, 0, 5), (0, 4711, 5), (1, 0, 5), (2, 0, 5), (2, 4711, 5)],
    "ioprio_set": [(1, 0, 5), (1, 4711, 5), (2, 0, 5), (3, 0, 5), (3, 4711, 5)],
}
"""Calls that change a process: arguments with which it is the caller, then others."""


def run(machine: str, call: int, *arguments: int, rules: Rules = NOTHING, architecture: int | None = None) -> int:
    """Run the filter on one system call and return its answer."""
    known = MACHINES[machine].architecture
    values = [*arguments, *([0] * 6)][:6]
    data = struct.pack("<IIQ6Q", call, known if architecture is None else architecture, 0, *values)
    code = [
        struct.unpack_from("<HBBI", filter_program(machine, rules), 8 * i)
        for i in range(len(filter_program(machine, rules)) // 8)
    ]
    accumulator = place = 0
    while True:
        operation, if_true, if_false, value = code[place]
        place += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                place += if_true if accumulator == value else if_false
            case 0x35:
                place += if_true if accumulator >= value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(hex(operation))


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def number(machine: str, name: str) -> int:
    return MACHINES[machine].calls[name]


@pytest.mark.parametrize("family", [UNIX, PACKET, VSOCK, 3, 38])
def test_sockets_of_other_families_are_refused(machine: str, family: int) -> None:
    assert EPERM == run(machine, number(machine, "socket"), family, STREAM)


@pytest.mark.parametrize("family", [INET, INET6, NETLINK])
def test_sockets_of_the_network_are_allowed(machine: str, family: int) -> None:
    assert ALLOWED == run(machine, number(machine, "socket"), family, STREAM | CLOEXEC)


def test_unix_sockets_are_allowed_by_their_setting_alone(machine: str) -> None:
    assert ALLOWED == run(machine, number(machine, "socket"), UNIX, rules=Rules(allows_unix_sockets=True))
    assert EPERM == run(machine, number(machine, "socket"), VSOCK, rules=Rules(allows_unix_sockets=True))


def test_a_family_of_more_than_32_bits_is_read_as_the_kernel_does(machine: str) -> None:
    assert EPERM == run(machine, number(machine, "socket"), (INET << 32) | VSOCK)


def test_pairs_of_datagram_sockets_are_refused(machine: str) -> None:
    pair = number(machine, "socketpair")

    assert EPERM == run(machine, pair, UNIX, DGRAM | CLOEXEC)
    assert ALLOWED == run(machine, pair, UNIX, STREAM | CLOEXEC) == run(machine, pair, UNIX, SEQPACKET)


def test_input_for_a_terminal_is_refused(machine: str) -> None:
    ioctl = number(machine, "ioctl")

    assert EPERM == run(machine, ioctl, 0, 0x5412) == run(machine, ioctl, 0, 0x541C)
    assert ALLOWED == run(machine, ioctl, 0, 0x5401)


@pytest.mark.parametrize(
    "name",
    "io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key bpf perf_event_open userfaultfd "
    "open_by_handle_at ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp".split(),
)
def test_such_calls_are_refused(machine: str, name: str) -> None:
    assert EPERM == run(machine, number(machine, name))


def test_other_calls_are_allowed(machine: str) -> None:
    of_others = {number(machine, name) for name in OF_OTHERS}
    refused = set(MACHINES[machine].calls.values()) - of_others

    assert {ALLOWED} == {run(machine, call) for call in range(470) if call not in refused}


def test_namespaces_are_left_to_bubblewrap_unless_it_is_old(machine: str) -> None:
    clone, user = number(machine, "clone"), 0x10000000
    old = Rules(refuses_namespaces=True)

    assert ALLOWED == run(machine, clone, user) == run(machine, number(machine, "clone3"))
    assert EPERM == run(machine, clone, user, rules=old)
    assert ALLOWED == run(machine, clone, 0x11, rules=old)
    assert ENOSYS == run(machine, number(machine, "clone3"), rules=old)
    for name in ("unshare", "setns", "mount", "umount2", "pivot_root"):
        assert ALLOWED == run(machine, number(machine, name))
        assert EPERM == run(machine, number(machine, name), rules=old)


def test_mechanisms_without_namespaces_refuse_more(machine: str) -> None:
    alone = Rules(refuses_network=True, refuses_shared_memory=True)

    assert EPERM == run(machine, number(machine, "socket"), INET, rules=alone)
    assert EPERM == run(machine, number(machine, "socket"), INET6, rules=alone)
    assert EPERM == run(machine, number(machine, "shmget"), rules=alone)
    assert EPERM == run(machine, number(machine, "mq_open"), rules=alone)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_without_a_process_namespace_no_other_process_is_changed(machine: str, name: str) -> None:
    alone, own, others = Rules(refuses_others=True), OF_OTHERS[name][0], OF_OTHERS[name][1:]

    assert ALLOWED == run(machine, number(machine, name), *own, rules=alone)
    assert {EPERM} == {run(machine, number(machine, name), *each, rules=alone) for each in others}
    assert {ALLOWED} == {run(machine, number(machine, name), *each) for each in (own, *others)}
    assert EPERM == run(machine, number(machine, "bpf"), rules=alone)


def test_attributes_of_files_are_refused_where_nothing_is_to_be_written_and_no_mount_refuses_that(machine: str) -> None:
    alone = Rules(refuses_attributes=True)

    for name in "fchmod fchmodat fchmodat2 fchown fchownat utimensat setxattr fsetxattr removexattr".split():
        assert ALLOWED == run(machine, number(machine, name))
        assert EPERM == run(machine, number(machine, name), rules=alone)
    assert machine != "x86_64" or EPERM == run(machine, number(machine, "chmod"), rules=alone)
    assert ALLOWED == run(machine, number(machine, "clone3"), rules=alone)


def test_calls_of_another_architecture_are_refused(machine: str) -> None:
    assert EPERM == run(machine, 20, architecture=0x40000003)


def test_x32_numbers_are_refused() -> None:
    assert EPERM == run("x86_64", 0x40000000 + 39)


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(UnknownMachine, match="riscv64"):
        filter_program("riscv64")
