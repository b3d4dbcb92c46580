"""The mechanisms of the sandbox as the tests use them: each turns a command into a sandboxed one in a `World`."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, cast

from tests.agent.sandbox.mutants import without
from tests.agent.sandbox.world import Command, World, Wrap, processes_named, run, start

import pinnace_agent
from pinnace_agent.config.sandbox_settings import SandboxMode
from pinnace_agent.core.ports.confinement import ProgramStart
from pinnace_agent.sandbox.bubblewrap import GATE_PLACE
from pinnace_agent.sandbox.gate import Gates
from pinnace_agent.sandbox.landlock import LandlockConfinement, landlock_refusal
from pinnace_agent.sandbox.landlock_supervisor import Supervisor
from pinnace_agent.sandbox.launcher import BubblewrapConfinement
from pinnace_agent.sandbox.layout import SandboxPlaces
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.probe import find_bubblewrap

Mechanism = Literal["bubblewrap", "landlock"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("bubblewrap", "landlock")


class _Private:
    """A private folder of another user."""

    def __init__(self, path: str, gates: Gates) -> None:
        self.path = path
        self.gates = gates

    def leaves(self, folders: Iterable[str]) -> None:
        """Leave mount points to the end of the world."""


@contextmanager
def sandbox(
    made: World, mechanism: Mechanism, mode: SandboxMode, *, network: bool = False, verifies: bool = True
) -> Generator[Wrap, None, None]:
    """Make a sandbox of a mechanism around commands in a world.

    Without `verifies`, for sandboxes that lack something, nothing is looked at inside before a command runs.
    """
    # As in the program: below a folder of its own, which is hidden.
    base = tempfile.mkdtemp(prefix="sandboxes-", dir=made.home.parent)
    path = tempfile.mkdtemp(prefix="private-", dir=base)
    gates = tempfile.mkdtemp(prefix="gates-", dir=base)
    for each in (base, path, gates):
        os.chown(each, made.user, made.user)
    private = cast(PrivateFolder, _Private(path, Gates(gates)))  # with what is used of it
    policy = SandboxPolicy(mode=mode, network=network)
    places = SandboxPlaces(
        folder=str(made.project), home=str(made.home), agent_dir=str(made.agent), code=(made.env["SITE"],)
    )
    if mechanism == "landlock":
        yield partial(_under_landlock, LandlockConfinement(policy, places, private, Supervisor()))
    else:
        confinement = BubblewrapConfinement(policy, places, find_bubblewrap(os.environ), private)
        yield partial(_in_bubblewrap, confinement, verifies)
    shutil.rmtree(base, ignore_errors=True)


def refusal(made: World, mechanism: Mechanism) -> str | None:
    """Return why a mechanism can't work here."""
    if mechanism == "landlock":
        return landlock_refusal()
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    # Not the whole sandbox: one that fails where a simple one works is a failure.
    simple = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    done = run(made, Command(made.as_user(simple), made.env))
    return done.stderr.decode() or "it fails" if done.returncode else None


def mutated(wrap: Wrap, places: range) -> Wrap:
    """Return a sandbox of bubblewrap without an option."""

    def wrapped(made: World, arguments: Sequence[str]) -> Command:
        command = wrap(made, arguments)
        start = _program(command)
        begin, bwrap = command.arguments[:start], command.arguments[start:]
        return command._replace(arguments=[*begin, *without(bwrap, places)])

    return wrapped


def outlives_its_parent(made: World, wrap: Wrap, limit_s: float = 1.0) -> bool:
    """Return whether a command still runs some time after the process that has started it was killed (P03)."""
    name = f"orphan-{made.env['WORLD']}"
    command = wrap(made, ["/bin/sh", "-c", f": {name}; echo; sleep 60; :"])
    parent = ["/bin/sh", "-c", '"$@"; :', "sh", *command.arguments]
    with start(made, command._replace(arguments=parent)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait()
        end = time.monotonic() + limit_s
        while (is_there := bool(processes_named(f": {name};"))) and time.monotonic() < end:
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    command.ended()
    return is_there


def bubblewrap_of(command: Command) -> Sequence[str]:
    """Return the part of a command that begins with bubblewrap."""
    return command.arguments[_program(command) :]


def _program(command: Command) -> int:
    return next(place for place, each in enumerate(command.arguments) if Path(each).name == "bwrap")


def _in_bubblewrap(
    confinement: BubblewrapConfinement, verifies: bool, made: World, arguments: Sequence[str]
) -> Command:
    confined = confinement.confine(ProgramStart(arguments, made.env, str(made.project)))
    start = confined.start
    if not verifies:
        confined.expected = ()
    gate = Path(start.arguments[start.arguments.index(GATE_PLACE) - 1])
    for each in (gate, *gate.iterdir()):
        os.chown(each, made.user, made.user)

    def started(pid: int | None) -> None:
        confined.started()
        if pid is not None:
            confined.release(pid)

    return Command(made.as_user(start.arguments), start.env, start.cwd, start.pass_fds, started, confined.close)


# An agent as small as can be, which runs as the user of the world: it has its supervisor run the order.
_AGENT: Final = """import os, sys
sys.path.append(sys.argv[1])
from pinnace_agent.sandbox.landlock_supervisor import Supervisor, launch
order, report = map(int, sys.argv[2:4])
supervisor = Supervisor()
keeper = launch(supervisor, order, report, sys.argv[4], (0, 1, 2))
os.close(report)
for each in (0, 1, 2): os.close(each)
status = os.waitstatus_to_exitcode(os.waitpid(keeper.pid, 0)[1])
supervisor.close()
os._exit(status)
"""


def _under_landlock(confinement: LandlockConfinement, made: World, arguments: Sequence[str]) -> Command:
    confined = confinement.confine(ProgramStart(arguments, made.env, str(made.project)))
    place = str(Path(pinnace_agent.__file__).parents[1])
    given = [*map(str, confined.for_supervisor), str(made.project)]
    command = [made.python, "-I", "-S", "-B", "-c", _AGENT, place, *given]
    return Command(
        made.as_user(command), {}, None, confined.for_supervisor, lambda _: confined.started(), confined.close
    )
