"""Chooses the moves of a chaos run, a rule for each, and leaves out of a failure what it does not need.

The only module here that knows hypothesis.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from pinnace_campaigns.chaos import moves
from pinnace_campaigns.chaos.moves import Move
from pinnace_campaigns.chaos.run import Broken
from pinnace_campaigns.chaos.world import World
from pinnace_spec.profiles.profiles import Profile

MAX_UNSEEN: Final = 20
"""Commands that a client sends while it does not read: fewer than a pipe holds."""
_TRIVIAL: Final = 3
_YEAR_S: Final = 365 * 24 * 3600

answers = st.lists(st.sampled_from(moves.ANSWERS), min_size=1, max_size=3)
restarts = st.sampled_from(moves.RESTARTS)


def _numbers(table: Sequence[object]) -> st.SearchStrategy[int]:
    return st.integers(0, len(table) - 1)


def _one(family: str, table: Sequence[object]) -> st.SearchStrategy[Sequence[object]]:
    return st.tuples(st.just(family), _numbers(table)).map(list)


commands = st.one_of(
    _one("ask", moves.TEXTS),
    _one("ask", moves.TEXTS),
    _one("stop", moves.STOPS),
    _one("shell", moves.SHELLS),
    _one("setting", moves.SETTINGS),
    _one("read", moves.READS),
    _one("replace", ["new_session", "new_session"]),
    _one("compact", [0]),
)
bursts = st.lists(commands, min_size=2, max_size=6)


class Course(NamedTuple):
    """What a run of many scripts has done so far."""

    make: Callable[[Path, Profile], World]
    moves: Counter[str]
    armed: Counter[str]
    probes_s: list[float]
    failures: list[tuple[list[Move], str]]
    """The script up to the failure, and what it was."""
    missing: set[str]
    """What could not be broken here: `disk`, `clock`."""


def make_machine(course: Course) -> type[RuleBasedStateMachine]:
    """Make the machine that plays in worlds of this course."""

    class Chaos(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.script: list[Move] = []
            self.root = Path(tempfile.mkdtemp(prefix="chaos-"))
            self.world: World | None = None

        def play(self, name: str, **drawn: Any) -> None:
            self.script.append(Move(name, drawn))
            try:
                play(self.world, self.script[-1])
            except Exception as error:
                self.fail(error)
                raise

        def fail(self, error: Exception) -> None:
            course.failures.append((list(self.script), f"{type(error).__name__}: {error}"))

        def has(self, name: str) -> bool:
            return self.world is not None and bool(getattr(self.world, name))

        @initialize(protocol=st.sampled_from(["pi", "1.5"]))
        def begin(self, protocol: Profile) -> None:
            self.script.append(Move("begin", {"protocol": protocol}))
            self.world = world = course.make(self.root, protocol)
            course.missing.update(name for name, is_there in world.can_break.items() if not is_there)

        def teardown(self) -> None:
            world, failed = self.world, bool(course.failures) and course.failures[-1][0] == self.script
            names = Counter(each.name for each in self.script[1:])
            # The first script that hypothesis plays is the simplest, one move again and again: it does not count.
            if len(names) > _TRIVIAL:
                course.moves.update(names)
            try:
                if world is not None and failed:
                    world.discard()
                elif world is not None:
                    try:
                        world.close()
                    except Exception as error:
                        self.fail(error)
                        raise
                    finally:
                        course.armed.update(world.armed)
                        course.probes_s.extend(world.probes_s)
            finally:
                shutil.rmtree(self.root, ignore_errors=True)

    for name, (strategies, condition) in RULES.items():
        setattr(Chaos, name, _rule(name, strategies, condition))
    return Chaos


def _rule(name: str, strategies: Mapping[str, Any], condition: Callable[[World], bool]) -> Any:
    def apply(self: Any, **drawn: Any) -> None:
        self.play(name.partition("__")[0], **drawn)

    apply.__name__ = name
    # Both are made for methods with their arguments written down.
    ruled: Any = rule
    limited: Any = precondition

    def can_apply(self: Any) -> bool:
        return self.world is not None and condition(self.world)

    return limited(can_apply)(ruled(**strategies)(apply))


def _is_open(world: World) -> bool:
    return world.is_seeing or world.unseen < MAX_UNSEEN


def _is_seeing(world: World) -> bool:
    return world.is_seeing


def _command(family: str, table: Sequence[object]) -> tuple[Mapping[str, Any], Callable[[World], bool]]:
    return {"family": st.just(family), "pick": _numbers(table)}, _is_open


RULES: Final[Mapping[str, tuple[Mapping[str, Any], Callable[[World], bool]]]] = {
    "ask": ({"kind": _numbers(moves.TEXTS), "answers": answers}, _is_open),
    "ask__again": ({"kind": _numbers(moves.TEXTS), "answers": answers}, _is_seeing),
    # Most faults need an agent at work, and queued messages.
    "ask__held": ({"kind": st.just(0), "answers": st.just(["held"])}, _is_open),
    "ask__queued": ({"kind": st.integers(2, len(moves.TEXTS) - 1), "answers": st.just(["held"])}, _is_open),
    "ask__later": ({"kind": st.just(5), "answers": st.just(["text"])}, _is_open),
    "command__setting": _command("setting", moves.SETTINGS),
    "command__read": _command("read", moves.READS),
    "command__stop": _command("stop", moves.STOPS),
    "command__stop_again": _command("stop", moves.STOPS),
    "command__shell": _command("shell", moves.SHELLS),
    "burst": ({"commands": bursts, "answers": answers}, _is_open),
    "compact": ({"answers": answers}, _is_open),
    "replace": ({"kind": _numbers(moves.SESSIONS), "pick": st.integers(0, 7)}, _is_seeing),
    "line": ({"pick": _numbers(moves.ODD_LINES)}, _is_open),
    "release": ({}, _is_open),
    "pause": ({}, _is_seeing),
    "read_on": ({}, lambda world: world.is_paused and not world.is_frozen),
    "sip": ({"count": st.integers(1, 6), "answers": answers}, _is_seeing),
    "freeze": ({}, lambda world: not world.is_frozen),
    "thaw": ({}, lambda world: world.is_frozen),
    "crash": (
        {
            "commands": st.one_of(st.just([]), bursts),
            "answers": answers,
            "records": st.integers(0, 40),
            "again": restarts,
        },
        _is_open,
    ),
    "vanish": ({"again": restarts}, lambda _: True),
    "leave": ({"again": restarts}, lambda world: not world.is_frozen),
    "terminate": ({"again": restarts}, lambda world: not world.is_frozen),
    "server_away": ({}, lambda world: not world.llm.is_away and _is_open(world)),
    "server_back": ({}, lambda world: world.llm.is_away and _is_open(world)),
    "fill__limit": (
        {"kind": st.just("limit"), "room": st.sampled_from([0, 1, 60, 400, 3000])},
        lambda world: world.disk_fault is None and world.is_seeing,
    ),
    "fill__disk": (
        {"kind": st.just("disk"), "room": st.just(0)},
        lambda world: world.disk_fault is None and world.disk.is_own and _is_open(world),
    ),
    "make_room": ({}, lambda world: world.disk_fault is not None and _is_open(world)),
    "jump": (
        {"offset_s": st.sampled_from([-_YEAR_S, -86400, -3600, -1, 0, 1, 60, 3600, 86400, 20 * _YEAR_S])},
        lambda world: world.clock.is_there and _is_open(world),
    ),
}
"""Name of a move, and behind `__` which of several rules for it -> what is drawn, and when it can be played."""


def play(world: World | None, move: Move) -> None:
    """Play one move."""
    assert world is not None
    getattr(world, move.name)(**move.drawn)


def can_play(world: World, move: Move) -> bool:
    """Return whether a move can be played now."""
    return any(name.partition("__")[0] == move.name and condition(world) for name, (_, condition) in RULES.items())


def run_chaos(course: Course, *, number: int, examples: int, steps: int) -> None:
    """Play scripts of so many steps each.

    Raises:
        Exception: An invariant does not hold; `course.failures` has the scripts.
    """
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        # Without shrinking: hypothesis makes values smaller first, where what counts is to leave moves out (`smaller`).
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        print_blob=False,
    )
    run_state_machine_as_test(seed(number)(make_machine(course)), settings=chosen)


def replay(course: Course, script: Sequence[Move]) -> None:
    """Play a script that was written down; moves that can't be played in their place are skipped.

    Raises:
        Exception: An invariant does not hold.
    """
    root = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        world = course.make(root, script[0].drawn["protocol"])
        try:
            for move in script[1:]:
                if can_play(world, move):
                    course.moves[move.name] += 1
                    play(world, move)
        except BaseException:
            world.discard()
            raise
        world.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def smaller(course: Course, script: Sequence[Move], seconds: float) -> list[Move]:
    """Remove the moves that a failure does not need (`moves.shrink`), but for the first."""
    return [script[0], *moves.shrink(script[1:], lambda tried: is_broken(course, [script[0], *tried]), seconds)]


def is_broken(course: Course, script: Sequence[Move]) -> bool:
    """Play a script; return whether an invariant is violated."""
    try:
        replay(course, script)
    except Broken:
        return True
    return False
