"""Sequences: a state machine of hypothesis that writes scripts, step by step, and plays each when it is written.

Commands that have transitions in the presumed state of the script are chosen more often, but no command is left out,
since every command is legal in every state. A new finding is claimed and raised, so that hypothesis shrinks it; after a
number of tries the run continues with other scripts. With a database of examples, those that are known come first.
"""

from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from pinnace_fuzz.judge.campaigns.cases import Command, case
from pinnace_fuzz.judge.campaigns.interleavings import alphabet
from pinnace_fuzz.judge.campaigns.shrinking import size
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_spec.profiles.generations import Generation
from pinnace_spec.statechart.transitions import CHART

if TYPE_CHECKING:
    from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
    from pinnace_fuzz.judge.campaigns.findings import Sighting
    from pinnace_fuzz.judge.playing.pool import Pool

NAME = "sequences"
EXAMPLES = 40
STEPS = 9
# Plays that hypothesis may spend on making one example smaller.
MAX_SHRINKS = 12
_MORE: tuple[Command, ...] = (
    {"type": "get_state"},
    {"type": "set_steering_mode", "mode": "all"},
    {"type": "set_follow_up_mode", "mode": "all"},
    {"type": "set_auto_retry", "enabled": False},
    {"type": "set_auto_compaction", "enabled": False},
    {"type": "set_model", "provider": "fake", "modelId": "m2"},
    {"type": "set_thinking_level", "level": "high"},
    {"type": "cycle_model"},
    {"type": "get_session_stats"},
    {"type": "get_fork_messages"},
    {"type": "get_last_assistant_text"},
    {"type": "get_entries"},
)
_LINES: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ["some ", "text"]},
    "gated": {"text": ["some ", "text"]},
    "half": {"text": ["some "]},
    "tool": {"tool": {"name": "bash", "args": {"command": "echo from the tool"}}},
    "tools": {
        "tool": [{"name": "bash", "args": {"command": "echo a"}}, {"name": "bash", "args": {"command": "echo b"}}]
    },
    "transient": {"error": 529},
    "fatal": {"error": 401},
    "overflow": {"overflow": True},
    "cut": {"text": ["some "], "cut": "rst"},
    "length": {"text": ["some"], "finish": "length"},
}


@cache
def weights(state: str) -> Mapping[str, int]:
    """Weigh each command in a state of the statechart: by its transitions and their effects."""
    found: dict[str, int] = {}
    for row in CHART:
        if row.source == state or row.region != "run":
            found[row.trigger] = (
                found.get(row.trigger, 0) + 1 + (row.target not in (None, row.source)) + (len(row.effects) > 1)
            )
    return found


class _Script:
    """A script that is being written, with an estimate of the state that it leads to."""

    def __init__(self) -> None:
        self.client: list[Any] = []
        self.llm: list[Mapping[str, Any]] = []
        self.gates: list[str] = []
        self.state = "idle"
        self.sent = 0

    def say(self, command: Command, *, is_joined: bool) -> None:
        self.sent += 1
        record = {"id": f"c{self.sent}", **command}
        if "message" in record:
            record["message"] = f"TEXT {self.sent}"
        last = as_object(self.client[-1]) if self.client else None
        group = as_list((last or {}).get("send"))
        if is_joined and group is not None:
            group.append(record)
        else:
            self.client.append({"send": [record]})
        self._guess(str(command["type"]))

    def _guess(self, command: str) -> None:
        if command in ("prompt", "steer", "follow_up") and self.state == "idle":
            line: Mapping[str, Any] = self.llm[-1] if self.llm else {}
            is_gated = "gate" in line or any(isinstance(each, dict) for each in as_list(line.get("text")) or ())
            self.state = "llm" if is_gated else "retrying" if line.get("error") == 529 else "idle"
        elif command == "compact" and self.state == "idle":
            self.state = "compacting.manual"
        elif command in ("abort", "new_session", "clone"):
            self.state = "idle"

    def answer(self, kind: str) -> None:
        line = dict(_LINES[kind])
        if kind in ("gated", "half"):
            gate = f"g{len(self.gates)}"
            self.gates.append(gate)
            if kind == "gated":
                line["gate"] = gate
            else:
                line["text"] = [*line["text"], {"gate": gate}, "text"]
        self.llm.append(line)

    def open_all(self) -> None:
        if self.gates:
            self.client.append({"open": list(self.gates)})
        self.state = "idle"

    def scenario(self) -> Scenario:
        # A line that was added later may have been asked for earlier: nothing becomes quiet before a shut gate.
        opened = [{"open": list(self.gates)}] if self.gates else []
        client = [part for step in self.client for part in ((*opened, step) if step == "quiet" else (step,))]
        return case(NAME, client, self.llm, needs=["bash", "llm", "tools"], has_session=True)


class _Enough(BaseException):
    """Ends a round. Not an Exception: hypothesis would treat it as a failure and shrink it for minutes.

    A database keeps the example that it cuts, and loses it when that is played next.
    """


class _Chase:
    """The goal of the search: the smallest script for each new finding."""

    def __init__(
        self, run: "CampaignRun", pool: "Pool", is_over: Callable[[], bool], *, is_known_first: bool = False
    ) -> None:
        """Begin; `is_known_first`: play what the database holds, where a finding counts even if it is known."""
        self._run = run
        self._pool = pool
        self._is_over = is_over
        self._is_known_first = is_known_first
        self.smallest: dict[str, tuple[Scenario, Sighting]] = {}
        self._plays = 0

    def play(self, scenario: Scenario) -> None:
        """Play a script; raise its first new finding."""
        from pinnace_fuzz.judge.campaigns.findings import sightings

        if self._is_over() or (self._plays > MAX_SHRINKS and not self._is_known_first):
            raise _Enough
        glance = self._run.glance(self._pool, scenario, NAME)
        seen = sightings(glance)
        new = [each for each in seen if not self._run.is_known(each)]
        for sighting in new:
            before = self.smallest.get(sighting.signature)
            if before is None or size(scenario) < size(before[0]):
                self.smallest[sighting.signature] = (scenario, sighting)
        if self.smallest:
            self._plays += 1
        if new or (seen and self._is_known_first):
            raise _caught((new or seen)[0].signature)  # what does not fail would be removed from the database


@cache
def _exception(signature: str) -> type[Exception]:
    # One type for each: hypothesis then keeps them apart while it makes examples smaller.
    return type(f"Caught {signature}", (Exception,), {})


def _caught(signature: str) -> Exception:
    return _exception(signature)(signature)


def machine(chase: _Chase, generation: Generation) -> type[Any]:
    """Make the state machine for one round."""
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

    commands = [*alphabet(generation), *(each for each in _MORE if each["type"] in generation.commands)]

    class Sequences(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.script = _Script()

        @rule(data=st.data(), is_joined=st.booleans())
        def say(self, data: st.DataObject, is_joined: bool) -> None:
            heavy = weights(self.script.state)
            ordered = sorted(commands, key=lambda each: -heavy.get(str(each["type"]), 0))
            # Commands with much effect in this state are first, and listed twice.
            command = data.draw(st.sampled_from([*ordered[: len(ordered) // 2], *ordered]))
            self.script.say(command, is_joined=is_joined)

        @rule(kind=st.sampled_from(sorted(_LINES)))
        def answer(self, kind: str) -> None:
            self.script.answer(kind)

        @precondition(lambda self: bool(self.script.gates))
        @rule()
        def open_gates(self) -> None:
            self.script.open_all()

        @precondition(lambda self: self.script.sent > 0)
        @rule()
        def settle(self) -> None:
            self.script.open_all()
            self.script.client.append("quiet")

        @precondition(lambda self: self.script.sent > 0)
        @rule(
            kind=st.sampled_from(["agent_start", "delta", "tool_start", "retry_start", "compaction_start", "settled"])
        )
        def look(self, kind: str) -> None:
            if self.script.state != "idle":
                self.script.client.append({"try": kind})

        def teardown(self) -> None:
            if self.script.sent:
                chase.play(self.script.scenario())

    return Sequences


def sequences(run: "CampaignRun", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """CampaignRun in rounds, each with a seed of its own, until the time is over."""
    if not {"llm", "tools", "bash"} <= run.kit.capabilities:
        return
    from unittest import SkipTest

    from hypothesis import HealthCheck, Phase, seed, settings
    from hypothesis.errors import HypothesisException
    from hypothesis.stateful import run_state_machine_as_test

    database = run.database
    wanted = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=database,
        report_multiple_bugs=True,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
    )
    known = settings(wanted, phases=(Phase.reuse,))
    is_known_first = run.begins_with_known()
    while not (is_over() or run.is_over):
        chase = _Chase(run, pool, is_over, is_known_first=is_known_first)
        found = seed(chance.randrange(2**32))(machine(chase, run.kit.generation))
        try:
            run_state_machine_as_test(found, settings=known if is_known_first else wanted)
        except (_Enough, HypothesisException, ExceptionGroup):
            pass  # over, flaky, or several at once: the findings are in `smallest`
        except SkipTest:
            pass  # the database holds nothing yet
        except Exception as error:
            if not type(error).__name__.startswith("Caught "):
                raise
        is_known_first = False
        for scenario, sighting in chase.smallest.values():
            if run.claim(sighting):
                run.follow_up(pool, scenario, sighting, NAME)
