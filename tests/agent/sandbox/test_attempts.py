"""No attempt of the list gets out of the sandbox, each can without one, and what must work works.

By mechanism, mode and user: as root once as it is, and once as an ordinary user. The attempts of a sandbox run in one
process inside, so that they take a second together.
"""

import os
import shutil
import signal
import time
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from tests.agent.sandbox.attempts import INSIDE, LANDLOCK_GAPS, LANDLOCK_GAPS_OF_WRITING, OUTSIDE, READ_ONLY_GAPS
from tests.agent.sandbox.mechanisms import (
    MECHANISMS,
    Mechanism,
    bubblewrap_of,
    mutated,
    refusal,
    sandbox,
)
from tests.agent.sandbox.mutants import units
from tests.agent.sandbox.world import (
    NOBODY,
    Command,
    World,
    off,
    place_for_worlds,
    processes_named,
    run,
    run_batch,
    start,
    world,
)

from pinnace_agent.config.sandbox_settings import SandboxMode

ALL = (*INSIDE, *OUTSIDE)
PLACE = place_for_worlds()
USERS = [None, NOBODY] if os.geteuid() == 0 else [None]
MODES: list[SandboxMode] = ["workspace-write", "read-only"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PLACE is None, reason="no folder outside of /tmp can be written"),
    pytest.mark.skipif(not Path("/proc/self/ns").is_dir(), reason="needs Linux"),
]

Kind = tuple[Mechanism, SandboxMode, int | None]


def name_of(kind: Kind) -> str:
    return f"{kind[0]}-{kind[1]}-{'user' if kind[2] else 'as-it-is'}"


KINDS: list[Kind] = [(mechanism, mode, user) for mechanism in MECHANISMS for mode in MODES for user in USERS]


@cache
def why_not(mechanism: Mechanism, user: int | None) -> str | None:
    """Return why a mechanism does not work here: those who must have it see to it that it does."""
    if user is not None and shutil.which("setpriv") is None:
        return "needs setpriv"
    assert PLACE is not None
    with world(PLACE, user) as made:
        return refusal(made, mechanism)


@pytest.fixture(params=KINDS, ids=name_of)
def kind(request: pytest.FixtureRequest) -> Kind:
    mechanism, mode, user = request.param
    if reason := why_not(mechanism, user):
        pytest.skip(f"{mechanism}: {reason}")
    return mechanism, mode, user


@pytest.fixture
def made(kind: Kind) -> Generator[World, None, None]:
    assert PLACE is not None
    with world(PLACE, kind[2]) as one:
        yield one


def gaps_of(kind: Kind) -> set[str]:
    """Return what is known not to hold for a kind of sandbox."""
    gaps = set(LANDLOCK_GAPS) if kind[0] == "landlock" else set()
    gaps |= set(LANDLOCK_GAPS_OF_WRITING) if kind[:2] == ("landlock", "workspace-write") else set()
    return gaps | (set(READ_ONLY_GAPS) if kind[1] == "read-only" else set())


def test_no_attempt_succeeds_and_what_must_work_works(kind: Kind, made: World) -> None:
    with sandbox(made, kind[0], kind[1]) as wrap:
        found = run_batch(made, ALL, wrap)

    assert {each.id for each in ALL} == set(found)
    wrong = {each.id: found[each.id].output for each in ALL if found[each.id].has_succeeded != each.must_work}
    assert gaps_of(kind) == set(wrong), wrong


@pytest.mark.parametrize("user", USERS)
def test_the_attempts_succeed_without_a_sandbox(user: int | None) -> None:
    """Otherwise the list would find nothing."""
    who = "root" if user is None and os.geteuid() == 0 else "user"
    possible = [each for each in OUTSIDE if each.off in ("anybody", who)]
    assert PLACE is not None
    with world(PLACE, user) as made:
        found = run_batch(made, (*INSIDE, *possible), off, is_off=True)

    assert {} == {each.id: found.get(each.id) for each in (*INSIDE, *possible) if not found[each.id].has_succeeded}
    assert len(possible) >= 60


# What ends the sandbox, or needs its input, output and status: each in a process of its own.


def test_status_signals_and_streams_are_kept(kind: Kind, made: World) -> None:
    """A01, A02, A10 to A12."""
    with sandbox(made, kind[0], kind[1]) as wrap:
        ended = run(made, wrap(made, ["/bin/sh", "-c", "exit 7"]))
        killed = run(made, wrap(made, ["/bin/sh", "-c", "kill -SEGV $$"]))
        # What comes behind the command is waited for, but no longer than a busy machine may take: one try has to do it.
        words = ["/bin/bash", "-c", "cat; echo error >&2; echo late > >(sleep 0.02; cat)"]
        for _ in range(20):
            streams = run(made, wrap(made, words), data=b"in\n")
            if b"late" in streams.stdout:
                break

    assert 7 == ended.returncode
    assert 128 + signal.SIGSEGV == killed.returncode
    assert (b"in\nlate\n", b"error\n") == (streams.stdout, streams.stderr.replace(b"Segmentation fault\n", b""))


def test_p01_nothing_outlives_its_command(kind: Kind, made: World) -> None:
    name = f"left-{made.env['WORLD']}"
    daemon = f": {name}; echo; sleep 60; :"
    script = f"""exec 3< <(setsid sh -c '{daemon}'); read -u 3
exec 4< <(setsid sh -c '({daemon}) & exit'); read -u 4"""
    with sandbox(made, kind[0], kind[1]) as wrap:
        done = run(made, wrap(made, ["/bin/bash", "-c", script]))

    assert 0 == done.returncode
    until_none_is_named(name)


@pytest.mark.parametrize("kind", [each for each in KINDS if each[0] == "bubblewrap"], ids=name_of, indirect=True)
def test_p04_a_signal_to_everybody_stays_inside(kind: Kind, made: World) -> None:
    """Runs nowhere but in a process namespace of its own, which the script checks once more."""
    inside = '[ "$(readlink /proc/self/ns/pid)" ] && [ "$(readlink /proc/self/ns/pid)" != "$HOST_PID" ] || exit 3'
    with sandbox(made, kind[0], kind[1]) as wrap:
        command = wrap(made, ["/bin/bash", "-c", f"{inside}; echo begin; kill -9 -1; sleep 60"])
        assert "--unshare-pid" in command.arguments
        done = run(made, command)

    assert b"begin\n" == done.stdout
    assert 3 != done.returncode
    os.kill(int(made.env["VICTIM"]), 0)


@pytest.mark.parametrize("kind", [each for each in KINDS if each[0] == "bubblewrap"], ids=name_of, indirect=True)
def test_p02_a_killed_sandbox_takes_all_processes_with_it(kind: Kind, made: World) -> None:
    """As an abort: SIGKILL to the group of what was started, with processes in sessions of their own.

    Under Landlock the registry of child processes ends them, as without a sandbox.
    """
    name = f"left-{made.env['WORLD']}"
    each = f"setsid sh -c 'trap \"\" TERM; : {name}; sleep 60' &"
    script = f"trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do {each} done; echo; wait"
    with sandbox(made, kind[0], kind[1]) as wrap:
        command = wrap(made, ["/bin/bash", "-c", script])
        with start(made, command) as process:
            assert process.stdout is not None
            process.stdout.readline()
            os.killpg(process.pid, signal.SIGKILL)
        command.ended()

    until_none_is_named(name)


def until_none_is_named(name: str) -> None:
    end = time.monotonic() + 60
    while processes_named(name):
        assert time.monotonic() < end, "a process has outlived its sandbox"
        time.sleep(0.01)


@pytest.mark.parametrize(
    "option", ["--unshare-ipc", "--ro-bind /proc/sys", "--seccomp", "--bind {project}/.git ", "--unshare-net"]
)
def test_a_sandbox_with_one_argument_less_is_found(option: str) -> None:
    """A sample: `tests/benchmarks/sandbox_attempts.py` drops each argument alone."""
    if reason := why_not("bubblewrap", None):
        pytest.skip(reason)
    assert PLACE is not None
    with world(PLACE) as made, sandbox(made, "bubblewrap", "workspace-write", verifies=False) as wrap:
        command = wrap(made, ["true"])
        wanted = option.format(project=made.project)
        places = next(places for text, places in units(bubblewrap_of(command)) if text.startswith(wanted))
        finish(command)
        found = run_batch(made, ALL, mutated(wrap, places))

    assert any(found[each.id].has_succeeded for each in OUTSIDE if each.id in found)


def finish(command: Command) -> None:
    """Close what a command that is not started holds."""
    command.started(None)
    command.ended()
