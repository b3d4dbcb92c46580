"""The world around a sandbox: a home folder with secrets, a project, and processes and sockets outside.

Everything is made for one test in a folder that a sandbox shows (outside of `/tmp`), and removed at its end. Also runs
the attempts, in one process inside, and judges them outside. Has no knowledge of a mechanism: it is given what turns a
command into a sandboxed one.
"""

import ctypes
import json
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.agent.sandbox.attempts import EXIT, RUN_UNASKED, SECRET, Attempt

from pinnace_agent.files.places_of_keys import keys_at_home

NOBODY: Final = 65534
_HIDDEN: Final = ("/tmp", "/var/tmp", "/dev/shm", "/run")
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_ADD_KEY, _KEYCTL, _INVALIDATE, _SESSION_KEYRING = 248, 250, 21, -3

# Runs pieces of Python, each in a process of its own, and prints for each its id, output and status.
_DRIVER: Final = """import json, os, signal, sys
for name, text in json.loads(sys.argv[1]):
    print("\\036" + name, flush=True)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os.dup2(1, 2); os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        status = 0
        try: exec(text, {})
        except SystemExit as end: status = int(end.code or 0)
        except BaseException as error: print(repr(error)); status = 1
        sys.stdout.flush(); os._exit(status & 255)
    print("\\n\\035" + str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)
"""


class Command(NamedTuple):
    """A command to start."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    """None: the project."""
    descriptors: tuple[int, ...] = ()
    """Those that it inherits."""
    started: Callable[[int | None], object] = lambda _: None
    """Called with its process number when it was started; None: it was not."""
    ended: Callable[[], object] = lambda: None
    """Called when it has ended."""


Wrap = Callable[["World", Sequence[str]], Command]
"""Turns a command into a sandboxed one."""


class World(NamedTuple):
    """What is outside."""

    home: Path
    project: Path
    agent: Path
    session: Path
    env: Mapping[str, str]
    """Facts for attempts and conditions, beside an environment as an agent has."""
    secret: str
    user: int
    python: str
    """An interpreter that the user can start."""

    def as_user(self, arguments: Sequence[str]) -> list[str]:
        """Return a command that runs as the user of the world."""
        if self.user == os.geteuid():
            return list(arguments)
        user = str(self.user)
        return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all", *arguments]


class Outcome(NamedTuple):
    """What an attempt has come to."""

    has_succeeded: bool
    output: str


def place_for_worlds() -> Path | None:
    """Return a folder that sandboxes show and this user may write; None: there is none."""
    root = Path(__file__).resolve().parents[3]
    for place in (root / "build", Path.home(), Path("/opt"), Path("/srv")):
        if any(str(place).startswith(f"{hidden}/") for hidden in _HIDDEN):
            continue
        with suppress(OSError):
            place.mkdir(exist_ok=True)
            if os.access(place, os.W_OK) and (os.geteuid() != 0 or _is_open(place)):
                return place
    return None


def _is_open(place: Path) -> bool:
    """Return whether ordinary users reach a folder: some worlds of root are theirs."""
    return all(each.stat().st_mode & 0o001 for each in (place, *place.parents))


@contextmanager
def world(place: Path, user: int | None = None) -> Generator[World, None, None]:
    """Make a world, for another user if one is given (as root), and remove it at the end."""
    owner = os.geteuid() if user is None else user
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="sandbox-", dir=place))
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        token, secret = root.name, f"secret-{secrets.token_hex(8)}"
        home = root / "home"
        project, agent = home / "project", home / ".pi/agent"
        _make_files(home, secret)
        session = agent / "sessions/a/current.jsonl"
        servers = stack.enter_context(_servers(home, project, token))
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PI_CODING_AGENT_DIR": str(agent),
            "PI_SESSION_FILE": str(session),
            "SSH_AUTH_SOCK": str(home / "s"),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={home}/s",
            "WORLD": token,
            "PROJECT": str(project),
            "AGENT": str(agent),
            "SITE": next(each for each in reversed(sys.path) if each.endswith("-packages")),
            "HOST_UTS": os.readlink("/proc/self/ns/uts"),
            "HOST_CGROUP": os.readlink("/proc/self/ns/cgroup"),
            "HOST_RUN": " ".join(name for name in os.listdir("/run") if name != "mount" and " " not in name),
            "HOST_PID": os.readlink("/proc/self/ns/pid"),
            **servers,
        }
        if owner != os.geteuid():
            for each in (root, *root.rglob("*")):
                os.chown(each, owner, owner, follow_symlinks=False)
            root.chmod(0o755)
        real = os.path.realpath(sys.executable)
        is_shown = not real.startswith(tuple(f"{each}/" for each in _HIDDEN))
        python = real if is_shown and owner == os.geteuid() else "/usr/bin/python3"
        made = World(home, project, agent, session, env, secret, owner, python)
        name = f"outside-{token}"
        victim = subprocess.Popen(
            made.as_user(["/bin/sh", "-c", f": {name}; echo; read never"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OUTSIDE": secret, "PATH": os.environ["PATH"]},
        )
        stack.callback(_end, victim)
        assert victim.stdout is not None
        victim.stdout.readline()
        stack.enter_context(_shared_memory(secret, token, owner, made.env))
        shared = stack.enter_context(_system_v(secret))
        facts = {**env, "VICTIM": str(victim.pid), "VICTIM_NAME": name, "SHARED": str(shared)}
        yield made._replace(env=facts)


def run_batch(made: World, attempts: Sequence[Attempt], wrap: Wrap, *, is_off: bool = False) -> dict[str, Outcome]:
    """Run attempts in one process, and return what each has come to; those that did not run are missing.

    With `is_off` each condition is checked right after its attempt, since what succeeds disturbs what comes later.
    """
    program = [f"export BEGAN=\"$PWD\"; cd '{made.project}' || exit 99"]
    for each in attempts:
        if each.language == "sh":
            checks = is_off and each.proof not in (EXIT, SECRET)
            proof = f"\n( {each.proof} ) > /dev/null 2>&1 && printf '\\034'" if checks else ""
            program.append(
                f"printf '\\036{each.id}\\n'\n( {each.script}\n) 2>&1 < /dev/null\ncode=$?{proof}\n"
                "printf '\\n\\035%d\\n' $code"
            )
    python = json.dumps([(each.id, each.script) for each in attempts if each.language == "py"])
    # Before what disturbs: the folders are still where they were.
    program.insert(1, f'\'{made.python}\' -I -S -c "$DRIVER" "$PIECES"')
    informed = made._replace(env={**made.env, "DRIVER": _DRIVER, "PIECES": python})
    done = run(made, wrap(informed, ["/bin/bash", "-c", "\n".join(program)]))
    found: dict[str, Outcome] = {}
    by_id = {each.id: each for each in attempts}
    for piece in done.stdout.decode("utf-8", "replace").split("\036")[1:]:
        name, _, rest = piece.partition("\n")
        output, _, status = rest.rpartition("\035")
        if status.strip().lstrip("-").isdigit() and name in by_id:
            found[name] = Outcome(_has_succeeded(made, by_id[name], output, int(status), is_off), output.strip())
    if not found:
        raise AssertionError(f"nothing has run: {done.returncode} {done.stderr.decode('utf-8', 'replace')[:2000]}")
    return found


def run(
    made: World, command: Command, *, data: bytes = b"", timeout_s: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run a command and wait for its end."""
    process = start(made, command)
    try:
        output, errors = process.communicate(data, timeout_s)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"still running, after {(error.stdout or b'')[-500:]!r}") from None
    finally:
        process.kill()
        command.ended()
    return subprocess.CompletedProcess(command.arguments, process.returncode, output, errors)


def start(made: World, command: Command) -> subprocess.Popen[bytes]:
    """Start a command in the project, in a session of its own, with pipes."""
    pid: int | None = None
    try:
        process = subprocess.Popen(
            command.arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=command.env,
            cwd=command.cwd or made.project,
            pass_fds=command.descriptors,
            start_new_session=True,
        )
        pid = process.pid
        return process
    finally:
        command.started(pid)


def processes_named(name: str) -> list[int]:
    """Return the processes whose command line holds a name."""
    found: list[int] = []
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and name.encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


def off(made: World, arguments: Sequence[str]) -> Command:
    """Return a command without a sandbox."""
    return Command(made.as_user(arguments), made.env)


def _has_succeeded(made: World, attempt: Attempt, output: str, status: int, is_off: bool) -> bool:
    if attempt.proof == EXIT:
        return status == 0
    if attempt.proof == SECRET:
        return made.secret in output
    if is_off:
        return "\034" in output
    if attempt.must_work and status != 0:
        return False
    # As root: what is to be seen is there or not, whoever looks.
    return (
        subprocess.run(["/bin/sh", "-c", attempt.proof], env=made.env, capture_output=True, check=False).returncode == 0
    )


def _make_files(home: Path, secret: str) -> None:
    project, agent = home / "project", home / ".pi/agent"
    texts = {
        home / ".bashrc": "# start",
        home / ".bash_history": secret,
        home / "victim": "victim",
        home / "victim9": "victim",
        home / ".ssh/id_rsa": secret,
        agent / "auth.json": secret,
        agent / "settings.json": "{}",
        agent / "sessions/a/current.jsonl": '{"type":"session"}\n',
        agent / "sessions/a/other.jsonl": secret,
        agent / "extensions/kept.py": "",
        agent / "skills/s/run.sh": "exit 0",
        project / "file": "text",
        **{project / each: "here" for each in RUN_UNASKED},
    }
    for name in keys_at_home():
        if not any((home / name).is_relative_to(each) or each.is_relative_to(home / name) for each in texts):
            texts[home / name] = secret
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (project / "inlink").symlink_to(home / ".ssh/id_rsa")
    git = ["git", "-C", str(project), "-c", "init.defaultBranch=main"]
    for each in (".", "below", "replaced", "moved"):
        subprocess.run([*git, "init", "-q", each], check=True, env={"PATH": os.environ["PATH"], "HOME": str(home)})
    with (project / ".git/config").open("a") as file:
        file.write("[user]\n\tname = x\n\temail = x@example.org\n")
    (project / ".git/hooks").mkdir(exist_ok=True)
    (project / ".git/info").mkdir(exist_ok=True)
    (project / ".git/info/attributes").write_text("")


@contextmanager
def _servers(home: Path, project: Path, token: str) -> Generator[dict[str, str], None, None]:
    """Answer whoever connects, on each kind of socket."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:

        def listen(family: int, address: object, kind: int = socket.SOCK_STREAM) -> socket.socket:
            made = stack.enter_context(socket.socket(family, kind))
            if isinstance(address, Path):
                folder = os.open(address.parent, os.O_RDONLY)  # the whole path may be too long for a socket
                made.bind(f"/proc/self/fd/{folder}/{address.name}")
                os.close(folder)
                address.chmod(0o777)
            else:
                made.bind(address)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                made.listen()
            selector.register(made, selectors.EVENT_READ)
            return made

        tcp4 = listen(socket.AF_INET, ("127.0.0.1", 0))
        udp4 = listen(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
        facts = {"TCP4": str(tcp4.getsockname()[1]), "UDP4": str(udp4.getsockname()[1]), "TCP6": "1", "RUN_SOCKET": ""}
        with suppress(OSError):  # no IPv6
            facts["TCP6"] = str(listen(socket.AF_INET6, ("::1", 0)).getsockname()[1])
        listen(socket.AF_UNIX, b"\0" + token.encode())
        listen(socket.AF_UNIX, home / "s")
        listen(socket.AF_UNIX, project / "s")
        listen(socket.AF_UNIX, project / "datagrams", socket.SOCK_DGRAM)
        if os.access("/run", os.W_OK):
            facts["RUN_SOCKET"] = f"/run/{token}"
            stack.callback(os.unlink, facts["RUN_SOCKET"])
            listen(socket.AF_UNIX, Path(facts["RUN_SOCKET"]))
        stack.enter_context(_late_socket(project, partial(listen, socket.AF_UNIX, kind=socket.SOCK_DGRAM)))
        ended, end = socket.socketpair()
        selector.register(ended, selectors.EVENT_READ)

        def serve() -> None:
            while True:
                for key, _ in selector.select():
                    server = key.fileobj
                    assert isinstance(server, socket.socket)
                    if server is ended:
                        return
                    with suppress(OSError):
                        if server.type == socket.SOCK_STREAM:
                            connection, _ = server.accept()
                            with connection:
                                connection.settimeout(5)
                                connection.sendall(connection.recv(1))
                        else:
                            data, sender = server.recvfrom(10)
                            if sender:
                                server.sendto(data, sender)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield facts
        finally:
            end.send(b"x")
            thread.join()
            ended.close()
            end.close()


@contextmanager
def _late_socket(project: Path, listen: Callable[[Path], object]) -> Generator[None, None, None]:
    """Make the socket `late` when the pipe `knock` is opened for reading: after the sandbox was set up."""
    os.mkfifo(project / "knock")
    # The folder may be moved.
    folder, knock = os.open(project, os.O_PATH), os.open(project / "knock", os.O_PATH)
    is_ending = False

    def appear() -> None:
        os.close(os.open(f"/proc/self/fd/{knock}", os.O_WRONLY))
        if not is_ending:
            with suppress(OSError):
                listen(Path(f"/proc/self/fd/{folder}/late"))

    thread = threading.Thread(target=appear, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_ending = True
        reader = os.open(f"/proc/self/fd/{knock}", os.O_RDONLY | os.O_NONBLOCK)
        thread.join()
        for each in (reader, folder, knock):
            os.close(each)


@contextmanager
def _shared_memory(secret: str, token: str, owner: int, env: Mapping[str, str]) -> Generator[None, None, None]:
    """Keep a secret in shared memory of POSIX and in the session keyring."""
    path = Path("/dev/shm") / token
    path.write_text(secret)
    os.chown(path, owner, -1)
    key = _LIBC.syscall(_ADD_KEY, b"user", token.encode(), secret.encode(), len(secret), _SESSION_KEYRING)
    if key > 0:
        _LIBC.syscall(_KEYCTL, 5, key, 0x3F3F3F3F)  # for every user: only the sandbox is to be in the way
    try:
        yield
    finally:
        path.unlink()
        if key > 0:
            _LIBC.syscall(_KEYCTL, _INVALIDATE, key)


@contextmanager
def _system_v(secret: str) -> Generator[int, None, None]:
    """Keep a secret in shared memory of System V."""
    _LIBC.shmat.restype = ctypes.c_void_p
    number = _LIBC.shmget(0, 4096, 0o1666)
    place = _LIBC.shmat(number, None, 0)
    ctypes.memmove(place, secret.encode(), len(secret))
    try:
        yield number
    finally:
        _LIBC.shmdt(ctypes.c_void_p(place))
        _LIBC.shmctl(number, 0, None)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
