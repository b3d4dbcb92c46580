"""Orders: commands that arrive together or one after the other, in every order, in every state.

All pairs in one write come first, since most ordering faults show there; then pairs one by one; then random triples.
Gates stay shut until everything was sent.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from pinnace_fuzz.judge.campaigns.cases import Command, case, numbered
from pinnace_fuzz.judge.campaigns.states import STATES, ReachedState
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec.profiles.generations import Generation

if TYPE_CHECKING:
    from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
    from pinnace_fuzz.judge.playing.pool import Pool

NAME = "interleavings"
_ALPHABET: tuple[Command, ...] = (
    {"type": "prompt", "message": "ONE"},
    {"type": "prompt", "message": "TWO", "streamingBehavior": "steer"},
    {"type": "prompt", "message": "THREE", "streamingBehavior": "followUp"},
    {"type": "steer", "message": "FOUR"},
    {"type": "follow_up", "message": "FIVE"},
    {"type": "abort"},
    {"type": "compact"},
    {"type": "new_session"},
    {"type": "bash", "command": "echo shell"},
    {"type": "abort_bash"},
    {"type": "abort_retry"},
    {"type": "clear_queue"},
    {"type": "set_session_name", "name": "A NAME"},
    {"type": "get_messages"},
    {"type": "clone"},
)
# Each of these begins or ends work, which exposes ordering faults.
_CORE = frozenset({"prompt", "abort", "compact", "new_session"})
MAX_TOGETHER = 4


def alphabet(generation: Generation) -> list[Command]:
    """Return the commands that a generation knows."""
    return [each for each in _ALPHABET if each["type"] in generation.commands]


def together(state: ReachedState, commands: Sequence[Command], *, is_one_write: bool) -> Scenario:
    """Make a case: the state, then the commands."""
    given = numbered([_unique(each, at) for at, each in enumerate(commands)])
    sends: list[Any] = [{"send": given}] if is_one_write else [{"send": each} for each in given]
    needs = {*state.needs, *(("bash",) if any(each["type"] == "bash" for each in commands) else ()), "llm"}
    more: dict[str, Any] = {} if state.settings is None else {"settings": state.settings}
    return case(NAME, [*state.client, *sends], state.llm, needs=sorted(needs), has_session=True, **more)


def _unique(command: Command, at: int) -> Command:
    if "message" not in command:
        return command
    return {**command, "message": f"{command['message']} {at}"}


def nasty(generation: Generation) -> Iterator[tuple[ReachedState, tuple[Command, ...], bool]]:
    """Yield the cases in which agents are known to lose a message or the order; they come first."""
    idle, busy = STATES["idle"], STATES["llm"]
    prompt: Command = {"type": "prompt", "message": "ONE"}
    steered: Command = {"type": "prompt", "message": "TWO", "streamingBehavior": "steer"}
    abort, new_session = {"type": "abort"}, {"type": "new_session"}
    rows: list[tuple[ReachedState, tuple[Command, ...], bool]] = [
        (idle, (prompt, prompt), True),
        (idle, (prompt, steered), True),
        (idle, (new_session, prompt), True),
        (idle, (prompt, new_session), True),
        (idle, (prompt, abort), True),
        (idle, ({"type": "compact"}, {"type": "compact"}), True),
        (STATES["tools"], (abort,), True),
        (busy, ({"type": "steer", "message": "FOUR"}, new_session), False),
    ]
    for state, commands, is_one_write in rows:
        if all(each["type"] in generation.commands for each in commands):
            yield state, commands, is_one_write


def orders(generation: Generation, chance: Random) -> Iterator[Scenario]:
    """Yield the cases, the most informative ones first."""
    commands = alphabet(generation)
    core = [each for each in commands if each["type"] in _CORE]
    busy = [state for name, state in STATES.items() if name != "idle"]
    first = [(STATES["idle"], pair, True) for pair in itertools.product(core, repeat=2)]
    singles = [(state, (each,), True) for state in busy for each in commands]
    idle = [(STATES["idle"], pair, True) for pair in itertools.product(commands, repeat=2)]
    joined = [(state, pair, True) for state in busy for pair in itertools.product(commands, repeat=2)]
    apart = [(state, pair, False) for state in STATES.values() for pair in itertools.product(commands, repeat=2)]
    for each in (idle, joined, apart):
        chance.shuffle(each)
    rest = [each for group in itertools.zip_longest(joined, idle, apart) for each in group if each is not None]
    for state, chosen, is_one_write in itertools.chain(nasty(generation), first, singles, rest):
        yield together(state, chosen, is_one_write=is_one_write)
    names = list(STATES)
    while True:
        many = [chance.choice(commands) for _ in range(chance.randint(3, MAX_TOGETHER))]
        yield together(STATES[chance.choice(names)], many, is_one_write=chance.random() < 0.7)


def interleavings(run: "CampaignRun", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """Play them until the time is over."""
    for each in orders(run.kit.generation, chance):
        if is_over():
            return
        if run.fits(each):
            run.try_case(pool, each, NAME)
