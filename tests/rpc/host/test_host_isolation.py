"""Who can reach what: agents of one host hold no keys of each other, and other users reach no host."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.host.attached import Connection, HostProcess, Record, command, environment_of, started

from pinnace_rpc.host.protocol import AskStatus, ListAgents

OTHER_USER = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def other_user() -> Generator[None]:
    """Be another user, for files as well as for the other ends of sockets."""
    os.setegid(OTHER_USER)
    os.seteuid(OTHER_USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def environ(pid: int) -> str:
    """Return the environment that a process was started with, if it shows that to others; agents show root alone."""
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except PermissionError:
        return ""


def shell(connection: Connection, text: str) -> str:
    output: str = connection.ask({"id": "sh", "type": "bash", "command": text})["data"]["output"]
    return output


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the files of a host with what is in them: as they were together, though it renames some meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def holders(folder: Path, key: str) -> set[str]:
    """Return the folders of a host in which files have a text."""
    files = contents(folder)
    assert any(path.suffix == ".jsonl" for path in files)
    return {path.parent.name for path, data in files.items() if key.encode() in data}


@linux
@pytest.mark.usefixtures("fresh_agents")  # what a fork shows has much room at its end
def test_no_agent_has_a_key_of_another_one(host: HostProcess) -> None:
    """A forked one and one of a new interpreter, and what the host writes and reports."""
    keys = {name: f"sk-{name}-alone-{os.urandom(8).hex()}" for name in ("one", "two", "fresh")}
    journals = host.folder / "agent" / "host" / "agents"
    environments = {name: {**host.environment, "SOME_API_KEY": key} for name, key in keys.items()}
    environments["fresh"]["LC_ALL"] = "C.UTF-8"  # only a start applies it
    agents = {name: host.attach(name, environment=environments[name]) for name in keys}
    for connection in agents.values():
        connection.send({"id": "p", "type": "prompt", "message": "hi"})
        connection.until(type="agent_settled")

    reported = json.dumps([host.ask(AskStatus()), host.ask(ListAgents(watches=False))])
    rows: list[Record] = host.ask(ListAgents(watches=False))["agents"]
    processes = {row["name"]: environ(row["pid"]) for row in rows}
    of_host = environ(host.process.pid)
    assert all(key not in reported + of_host and not holders(host.folder, key) for key in keys.values())

    for name, connection in agents.items():
        shown = shell(connection, "env; tr '\\0' '\\n' < /proc/$PPID/environ")
        assert keys[name] in shown
        for other in keys.keys() - {name}:
            assert keys[other] not in shown + processes[name]
    assert {name: {name} for name in keys} == {name: holders(journals, key) for name, key in keys.items()}
    for connection in agents.values():
        connection.socket.close()


@as_root
def test_another_user_reaches_neither_the_socket_nor_a_journal(host: HostProcess) -> None:
    """Also one who knows every path."""
    with host.attach() as connection:
        connection.ask({"id": "1", "type": "get_state"})
    host.folder.chmod(0o755)
    (host.folder / "agent").chmod(0o755)
    own = [host.folder / "agent" / "host", Path(host.socket_path).parent]
    paths = [path for folder in own for path in folder.rglob("*")]
    assert {"journal.json", "host.lock", "host.sock"} <= {path.name for path in paths}
    with other_user():
        for folder in own:
            with pytest.raises(PermissionError):
                os.listdir(folder)
        for path in paths:
            with pytest.raises(PermissionError):
                os.stat(path)
        with socket.socket(socket.AF_UNIX) as connection, pytest.raises(PermissionError):
            connection.connect(host.socket_path)
    for path in (path for path in paths if path.is_file()):
        assert path.stat().st_mode & 0o077 == 0, path


@as_root
def test_another_user_who_gets_to_the_socket_is_refused(host: HostProcess) -> None:
    """However the modes were changed: the host asks the system whose the other end is."""
    for path in (host.folder, Path(host.socket_path).parent):
        path.chmod(0o755)
    Path(host.socket_path).chmod(0o666)
    for request in (AskStatus(), ListAgents(watches=False), host.request(agent="main")):
        with other_user():
            refused = host.refusal(request)
        assert f"belongs to user {OTHER_USER}" in refused.error
    assert host.ask(ListAgents(watches=False))["agents"] == []


def _link(path: Path) -> None:
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir(0o700)
    path.symlink_to(elsewhere)


def _of_another_user(path: Path) -> None:
    path.mkdir(0o700)
    os.chown(path, OTHER_USER, OTHER_USER)


@pytest.mark.parametrize("place", ["socket", "files"])
@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        pytest.param(_link, "is a link", id="link"),
        pytest.param(Path.touch, "is no folder", id="file"),
        pytest.param(_of_another_user, f"belongs to user {OTHER_USER}", id="another-user", marks=as_root),
    ],
)
def test_a_folder_that_was_made_beforehand_is_refused(
    folder: Path, prepare: Callable[[Path], None], reason: str, place: str
) -> None:
    """In the temporary files, which all users share, the name of the socket's folder can be guessed."""
    environment = environment_of(folder)
    del environment["XDG_RUNTIME_DIR"]
    environment["TMPDIR"] = str(folder)
    (folder / "agent").mkdir()
    path = folder / f"pinnace-{os.getuid()}" if place == "socket" else folder / "agent" / "host"
    prepare(path)

    refused = subprocess.run(command(), env=environment, capture_output=True, text=True, check=False)

    assert refused.returncode == 1
    assert f"{path}: {reason}" in refused.stderr
    assert list(path.parent.glob("elsewhere/*")) == []


STRANGER = f"""\
import errno, json, os, socket, sys, threading
os.setgroups([])
os.setresgid({OTHER_USER}, {OTHER_USER}, {OTHER_USER})
os.setresuid({OTHER_USER}, {OTHER_USER}, {OTHER_USER})
got = []

def serve(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.listen()
    def accept():
        while True:
            connection, _ = listener.accept()
            got.append(len(connection.recv(100)))
    threading.Thread(target=accept, daemon=True).start()

def steal(path):
    with open(path, "rb") as file:
        return len(file.read())

acts = dict(
    connect=lambda path: socket.socket(socket.AF_UNIX).connect(path), list=os.listdir, read=steal,
    write=lambda path: open(path, "ab").close(), remove=os.unlink, rename=os.rename, link=os.symlink,
    make=os.mkdir, mode=os.chmod, serve=serve, got=lambda: got,
)
for line in sys.stdin:
    name, *words = json.loads(line)
    try:
        print(json.dumps(["done", acts[name](*words)]), flush=True)
    except OSError as error:
        print(json.dumps([errno.errorcode[error.errno], None]), flush=True)
"""


class Stranger:
    """A process of another user, for good: it does what it is asked and reports the result, or the system's error."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def do(self, *words: object) -> tuple[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        how, result = json.loads(self._process.stdout.readline())
        return how, result


@pytest.fixture
def stranger() -> Generator[Stranger]:
    with subprocess.Popen(
        [sys.executable, "-c", STRANGER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        yield Stranger(process)


@pytest.fixture
def shared(folder: Path) -> Path:
    """A folder in which every user may create files, like that of temporary ones."""
    folder.chmod(0o755)
    path = folder / "shared"
    path.mkdir()
    path.chmod(0o1777)
    return path


@as_root
def test_a_second_user_gets_nothing_from_a_host_and_takes_no_path_from_under_it(
    folder: Path, shared: Path, stranger: Stranger
) -> None:
    with started(folder, {**environment_of(folder), "XDG_RUNTIME_DIR": str(shared)}) as host:
        with host.attach() as connection:
            shell(connection, "echo secret")
        folders = [shared / "pinnace", *(path for path in (folder / "agent" / "host").rglob("*") if path.is_dir())]
        files = [path for each in folders for path in each.iterdir() if not path.is_dir()]
        assert {"host.sock", "host.lock"} <= {path.name for path in (*files, folder / "agent" / "host" / "host.lock")}

        assert {stranger.do("list", str(path))[0] for path in folders} == {"EACCES"}
        for act in ("read", "write", "remove"):
            assert {stranger.do(act, str(path))[0] for path in files} == {"EACCES"}, act
        assert stranger.do("connect", host.socket_path)[0] == "EACCES"
        assert stranger.do("rename", str(shared / "pinnace"), str(shared / "mine"))[0] in ("EPERM", "EACCES")
        assert stranger.do("link", "/", str(shared / "pinnace"))[0] == "EEXIST"

        assert host.ask(AskStatus())["pid"] == host.process.pid


@contextmanager
def stopped(process: "subprocess.Popen[str]") -> Generator[None]:
    """Keep a child from running."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    yield
    process.send_signal(signal.SIGCONT)


@as_root
@pytest.mark.parametrize("plant", ["folder", "open folder", "link"])
def test_what_a_second_user_has_put_in_the_place_of_a_host_is_refused_and_gets_nothing(
    folder: Path, shared: Path, stranger: Stranger, plant: str
) -> None:
    """Where every user may rename everything, too: attach would send keys, and a host listen where others connect."""
    shared.chmod(0o777)
    place, made = shared / "pinnace", shared / ("mine" if plant == "link" else "pinnace")
    reason = f"{place}: is a link" if plant == "link" else f"{place}: belongs to user {OTHER_USER}"
    with started(folder, {**environment_of(folder), "XDG_RUNTIME_DIR": str(shared)}) as host:
        acts: list[tuple[object, ...]] = [
            ("rename", str(place), str(shared / "taken")),
            ("make", str(made)),
            ("serve", f"{made}/host.sock"),
            ("mode", str(made), 0o777 if plant == "open folder" else 0o700),
        ]
        acts += [("link", str(made), str(place))] if plant == "link" else []
        with stopped(host.process):  # it looks once a second whether its folder is there, and makes it anew
            assert [("done", None)] * len(acts) == [stranger.do(*act) for act in acts]

        attached = host.attach_program("main")
        host.end()
        refused = host.run()

    assert (1, 1) == (attached.returncode, refused.returncode)
    assert reason in attached.stderr
    assert reason in refused.stderr
    assert stranger.do("got") == ("done", [])
