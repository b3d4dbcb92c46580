"""`pinnace attach` as a process: bytes both ways, ends, signals, back-pressure, and hosts that are not trusted."""

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rpc.attach.conftest import TIMEOUT_S, Host, close_quietly
from tests.rpc.server.test_startup_imports import IMPORT

from pinnace_rpc.host.protocol import Detach, EndAgent, Ended, HostControl, Refused

MANY_BYTES = 4 * 1024 * 1024


def test_bytes_pass_both_ways_and_the_last_message_is_the_exit_code(host: Host) -> None:
    attach, connection = host.attached("--on-eof", "end", "--model", "m")
    assert attach.stdin is not None
    assert attach.stdout is not None
    attach.stdin.write(b'{"type":"get_state"}\n\xff')
    attach.stdin.flush()
    assert connection.read(22) == b'{"type":"get_state"}\n\xff'
    connection.write(b"\x00\xfe out")
    assert os.read(attach.stdout.fileno(), 100) == b"\x00\xfe out"
    connection.write(b"last")
    connection.end(7, "it failed")

    assert attach.wait(TIMEOUT_S) == 7
    assert attach.stdout.read() == b"last"
    assert attach.stderr is not None
    assert attach.stderr.read() == b"pinnace: it failed\n"
    assert connection.request.cwd == str(host.folder)
    assert host.environment.items() <= connection.request.environment.items()
    assert connection.request.start == ("--model", "m")


@pytest.mark.parametrize(("words", "expected"), [(["bot"], Detach()), ([], EndAgent(at_once=False))])
def test_the_end_of_stdin_completes_the_line_and_is_a_message(host: Host, words: list[str], expected: object) -> None:
    attach, connection = host.attached(*words)
    assert attach.stdin is not None
    attach.stdin.write(b"cut")
    attach.stdin.close()

    assert connection.next_control() == expected
    assert connection.data == b"cut\n"
    connection.end()
    assert attach.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_signal_is_an_end_at_once(host: Host, number: signal.Signals, exit_code: int) -> None:
    attach, connection = host.attached()
    attach.send_signal(number)

    assert connection.next_control() == EndAgent(at_once=True)
    connection.write(b"the last record\n")
    connection.end()
    assert attach.wait(TIMEOUT_S) == exit_code
    assert attach.stdout is not None
    assert attach.stdout.read() == b"the last record\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_is_a_detach_at_once_where_the_end_of_stdin_is_one(host: Host, number: signal.Signals) -> None:
    attach, connection = host.attached("bot")
    attach.send_signal(number)

    assert connection.next_control() == Detach(at_once=True)
    connection.end()
    assert attach.wait(TIMEOUT_S) in (128 + number, -number)


@pytest.mark.parametrize(
    ("message", "exit_code", "text"),
    [
        (Ended(0, None), 0, ""),
        (Ended(1, "the agent has failed"), 1, "pinnace: the agent has failed\n"),
        (Refused(1, "as many agents as may run"), 1, "pinnace: as many agents as may run\n"),
        (Ended(2, "No such option: --typo"), 2, "pinnace: No such option: --typo\n"),
        (Refused(69, "no version in common"), 69, "pinnace: no version in common\n"),
        (Ended(75, "the process was replaced"), 75, "pinnace: the process was replaced\n"),
        (None, 75, "pinnace: the connection to the host is lost; attach again\n"),
    ],
)
def test_the_exit_code_is_the_hosts(host: Host, message: HostControl | None, exit_code: int, text: str) -> None:
    """With the reason on stderr. None: the connection breaks."""
    attach = host.attach("bot")
    connection = host.accept()
    if not isinstance(message, Refused):
        connection.accept()
    if message is not None:
        connection.control(message)
    connection.close()

    out, err = attach.communicate(timeout=TIMEOUT_S)
    assert (attach.returncode, out, err.decode()) == (exit_code, b"", text)


def test_a_usage_error_of_an_attach_reaches_no_host(host: Host) -> None:
    attach = host.attach("--on-eof", "wait")

    _, err = attach.communicate(timeout=TIMEOUT_S)
    assert (attach.returncode, err) == (2, b"pinnace: --on-eof takes detach or end\n")
    assert not host.is_asked()


def test_a_second_signal_does_not_wait_for_the_host(host: Host) -> None:
    attach, connection = host.attached()
    attach.send_signal(signal.SIGTERM)
    connection.next_control()
    attach.send_signal(signal.SIGTERM)

    assert attach.wait(TIMEOUT_S) == 143


def test_a_lost_connection_is_reported_behind_all_output(host: Host) -> None:
    attach, connection = host.attached()
    data = bytes(200_000)  # more than a pipe holds, less than is kept on the way
    connection.write(data)
    connection.close()

    out, err = attach.communicate(timeout=TIMEOUT_S)
    assert out == data
    assert (attach.returncode, err) == (75, b"pinnace: the connection to the host is lost; attach again\n")


def test_a_refusal_reads_nothing_of_stdin(host: Host) -> None:
    read, write = os.pipe()
    os.write(write, b"kept")
    attach = host.attach(stdin=read)
    host.accept().refuse(69, "releases differ")

    _, err = attach.communicate(timeout=TIMEOUT_S)
    assert (attach.returncode, err) == (69, b"pinnace: releases differ\n")
    assert os.read(read, 10) == b"kept"
    os.close(read)
    os.close(write)


def test_a_reader_that_is_gone_ends_the_attach(host: Host) -> None:
    attach, connection = host.attached()
    close_quietly(attach.stdout)

    assert connection.next_control() == EndAgent(at_once=True)
    connection.end()
    assert attach.wait(TIMEOUT_S) == 1


@pytest.mark.parametrize("has_sockets", [False, True])
def test_a_direction_that_stalls_does_not_stall_the_other(host: Host, has_sockets: bool) -> None:
    """Standard streams may be sockets, as those that node gives its children."""
    ours_in, theirs_in = socket.socketpair() if has_sockets else _pipes(towards_child=True)
    ours_out, theirs_out = socket.socketpair() if has_sockets else _pipes(towards_child=False)
    with ours_in, theirs_in, ours_out, theirs_out:
        attach, connection = host.attached(stdin=theirs_in.fileno(), stdout=theirs_out.fileno())
        theirs_in.close()
        theirs_out.close()
        # Nothing is read at the other ends: what fits is what is kept on the way.
        to_host = _fill(ours_in.fileno())
        connection.socket.setblocking(False)
        to_client = _fill_frames(connection.socket)
        assert max(to_host, to_client) < MANY_BYTES

        # One direction flows while the other one is still full, either way.
        connection.socket.settimeout(TIMEOUT_S)
        assert len(connection.read(to_host)) == to_host
        os.write(ours_in.fileno(), b"more\n")
        assert connection.read(5) == b"more\n"
        read = 0
        while read < to_client:
            read += len(os.read(ours_out.fileno(), 65536))
        assert read == to_client
        ours_in.close()
        connection.next_control()
        connection.end()
        assert attach.wait(TIMEOUT_S) == 0


class _End:
    """One end of a pipe, with the methods of a socket that the test uses."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> "_End":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pipes(*, towards_child: bool) -> tuple[_End, _End]:
    read, write = map(_End, os.pipe())
    return (write, read) if towards_child else (read, write)


def _fill(descriptor: int) -> int:
    """Write until nothing was taken for a while; return how much was taken."""
    os.set_blocking(descriptor, False)
    taken = 0
    while select.select([], [descriptor], [], 0.2)[1]:
        taken += os.write(descriptor, b"i" * 4096)
    os.set_blocking(descriptor, True)
    return taken


def _fill_frames(connection: socket.socket) -> int:
    """Send data frames until nothing was taken for a while, the last one whole; return how much data that was."""
    taken = 0
    payload = b"d" + (4000).to_bytes(4, "big") + b"o" * 4000
    while select.select([], [connection], [], 0.2)[1]:
        sent = connection.send(payload)
        assert sent == len(payload)  # a datagram's worth: a socket that is writable takes it whole
        taken += 4000
    return taken


def test_a_signal_ends_an_attach_whose_reader_stalls(host: Host) -> None:
    attach, connection = host.attached()
    connection.socket.setblocking(False)
    _fill_frames(connection.socket)
    attach.send_signal(signal.SIGTERM)

    assert attach.wait(TIMEOUT_S) == 143


def test_blocking_modes_of_standard_streams_stay(host: Host) -> None:
    """They belong to other processes, too: a shell's terminal, for instance."""
    attach, connection = host.attached()
    connection.write(b"x")
    assert attach.stdin is not None
    assert attach.stdout is not None
    assert attach.stdout.read(1) == b"x"

    for stream in (attach.stdin, attach.stdout):
        assert not fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_NONBLOCK


def test_an_attach_loads_little(host: Host) -> None:
    """What it loads is most of what it costs: 10 ms for `typing`, 20 ms for the table of options."""
    attach = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-P", "-m", "pinnace_rpc", "attach"],
        env=host.environment,
        cwd=host.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    connection = host.accept()
    connection.accept()
    connection.next_control()
    connection.end()
    _, err = attach.communicate(timeout=TIMEOUT_S)
    loaded = {name.decode() for name in IMPORT.findall(err)}

    assert attach.returncode == 0
    ours = {name for name in loaded if name.startswith("pinnace")}
    assert ours == {
        "pinnace_rpc",
        "pinnace_rpc.attach",
        "pinnace_rpc.attach.finding",
        "pinnace_rpc.attach.pump",
        "pinnace_rpc.options",
        "pinnace_rpc.options.words",
        "pinnace_rpc.options.closing",
        "pinnace_rpc.cli",
        "pinnace_rpc.cli.commands",
        "pinnace_rpc.cli.commands.attach",
        "pinnace_rpc.cli.main",
        "pinnace_rpc.options.release",
        "pinnace_rpc.options.streams",
        "pinnace_rpc.host",
        "pinnace_rpc.host.locations",
    }
    heavy = {"typing", "tempfile", "subprocess", "importlib.metadata", "threading", "trio", "orjson", "dataclasses"}
    assert set() == loaded & heavy


def test_no_host_and_none_to_be_started(host: Host, folder: Path) -> None:
    environment = {**host.environment, "PI_CODING_AGENT_DIR": str(folder / "other")}
    attach = host.attach("--no-start", env=environment)

    _, err = attach.communicate(timeout=TIMEOUT_S)
    assert attach.returncode == 69
    assert err.decode() == f"pinnace: no host runs for {folder}/other: start it with `pinnace host`\n"


@pytest.mark.parametrize("fault", ["a link", "other users may enter"])
def test_a_folder_that_is_not_the_users_alone_is_refused(host: Host, folder: Path, fault: str) -> None:
    """What is in it may be a stranger's socket, and the first message has keys."""
    if fault == "a link":
        host.path.parent.rename(folder / "elsewhere")
        host.path.parent.symlink_to(folder / "elsewhere")
    else:
        host.path.parent.chmod(0o755)
    attach = host.attach()

    _, err = attach.communicate(timeout=TIMEOUT_S)
    assert attach.returncode == 1
    assert f"pinnace: {host.path.parent}: " in err.decode()
    assert fault in err.decode()


FOREIGN = """\
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.setresuid(65534, 65534, 65534)
listener.listen()
print("listening", flush=True)
connection, _ = listener.accept()
print(len(connection.recv(100)), flush=True)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_host_of_another_user_gets_nothing(host: Host) -> None:
    """Not even where it could put its socket into the right folder."""
    host.path.unlink()
    foreign = subprocess.Popen([sys.executable, "-c", FOREIGN, str(host.path)], stdout=subprocess.PIPE, text=True)
    assert foreign.stdout is not None
    assert foreign.stdout.readline() == "listening\n"
    attach = host.attach()

    _, err = attach.communicate(timeout=TIMEOUT_S)
    assert attach.returncode == 1
    assert b"belongs to user 65534, not to you (0)" in err
    out, _ = foreign.communicate(timeout=TIMEOUT_S)
    assert out == "0\n"
