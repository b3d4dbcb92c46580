"""A process that plays many small cases one after the other, judged all the time by the same observers.

Several times faster than a process for each case. It is given up as soon as it misbehaves; what it showed counts only
when a fresh process shows it again.
"""

import contextlib
import itertools
import json
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.judge.adapter import LaunchOptions
from pinnace_fuzz.judge.judging import EXCESS_RULES
from pinnace_fuzz.judge.playing import load
from pinnace_fuzz.judge.playing.body import MAX_STDOUT_BYTES, Body
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.play import Stopped, perform
from pinnace_fuzz.judge.playing.recording import KIT_ID
from pinnace_fuzz.judge.playing.steps import Stage
from pinnace_fuzz.judge.results import Finding
from pinnace_fuzz.judge.running import folder
from pinnace_fuzz.judge.scenarios.scenario import Close, Exit, Restart, Scenario, Signal
from pinnace_spec.observers import Checks, Judge, Step, Verdict

# A process that has played so much is replaced, so that its session stays small.
MAX_CASES = 60
MAX_LIVES = 2
RESET_S = 10.0
# Fields that do not belong to the state in which the next case begins.
_HARMLESS = ("I-EVT-12", "I-RSP-2", "I-RSP-5", "I-FRM-1", "I-EVT-5")


class Glance(NamedTuple):
    """What one case has shown."""

    scenario: Scenario
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]
    armed: dict[str, int]
    was_first: bool
    """The process was fresh."""
    is_overloaded: bool


class Pool:
    """Plays cases; one process for each kind of settings. Use it as a context manager, in one thread."""

    def __init__(self, kit: AgentUnderTest, launch_options: LaunchOptions) -> None:
        self._kit = kit
        self._launch_options = launch_options
        self._lives: dict[str, _Life] = {}

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._lives):
            self._retire(key)

    def _retire(self, key: str) -> None:
        if (life := self._lives.pop(key, None)) is not None:
            life.close()

    def play(self, scenario: Scenario) -> Glance:
        """Play a case, in the process that is there if the case fits it."""
        key = json.dumps(scenario.settings, sort_keys=True)
        if key in self._lives and self._lives[key].is_used_up:
            self._retire(key)
        if key not in self._lives:
            if len(self._lives) >= MAX_LIVES:
                self._retire(next(iter(self._lives)))
            self._lives[key] = _Life(self._kit, self._launch_options._replace(settings=scenario.settings))
        glance = self._lives[key].play(scenario)
        if not self._lives[key].is_usable:
            self._retire(key)
        return glance


def ends_process(scenario: Scenario) -> bool:
    """Return whether the process can't be reused after a case."""
    return any(isinstance(step, Close | Signal | Exit | Restart) for step in scenario.client)


class _Life:
    """One process, from its start to its end."""

    def __init__(self, kit: AgentUnderTest, launch_options: LaunchOptions) -> None:
        self.played = 0
        self.is_usable = True
        self._kit = kit
        self._numbers = itertools.count(1)
        self._stack = contextlib.ExitStack()
        root: Path = self._stack.enter_context(folder(kit))
        self._llm = self._stack.enter_context(FakeLlm(asides=kit.adapter.asides))
        self._prepared = kit.adapter.prepare(kit.command, root, self._llm.base_url, launch_options)
        elsewhere = partial(kit.adapter.elsewhere, self._prepared)
        self._body = Body(self._prepared.command, self._prepared, is_fresh=True, elsewhere=elsewhere)
        self._judging = Judge(kit.generation, checks=Checks(is_ours=kit.binds_ours, patience=kit.patience))
        self._judged = 0

    @property
    def is_used_up(self) -> bool:
        """Whether a further case could exceed the limit of an agent's output."""
        return self.played >= MAX_CASES or self._body.recording.kept_bytes > MAX_STDOUT_BYTES // 2

    def play(self, scenario: Scenario) -> Glance:
        was_first = self.played == 0
        self.played += 1
        before = self._judged
        armed_before = dict(self._judging.report.armed)
        waited_s, begun = load.waiting_s(self._body.process.pid), self._body.recording.begun_s
        begun = begun if was_first else time.monotonic()
        stage = Stage(scenario, self._kit, self._llm, self._prepared, self._start_again, f"{next(self._numbers)}.")
        stage.body = self._body
        stage.is_warm = not was_first
        self._body.cursor = self._body.mark()
        self._llm.forget()
        for line in scenario.llm:
            self._llm.add(stage.holes.answer(line.answer))
        try:
            stopped = perform(stage, scenario, self._kit)
        finally:
            stage.close()
        # The cleanup of such a case would hide the finding.
        if stopped is None and not stage.is_doubtful and not ends_process(scenario):
            stopped = self._reset(stage, scenario)
        verdicts = self._feed()
        findings = [_finding(each) for each in verdicts]
        if stopped is not None or stage.is_doubtful or ends_process(scenario) or not self._body.alive:
            self.is_usable = False
            self._end()
            findings += [_finding(each) for each in self._feed() + self._judging.finish(self._body.trace().end)]
        if stopped is not None and stopped.trouble != "unimplemented":
            findings.append(_of_trouble(stopped))
        if any(each.level == "violation" and each.source not in _HARMLESS for each in findings):
            self.is_usable = False
        loaded = self._kit.meter.since(begun, load.waiting_s(self._body.process.pid) - waited_s)
        steps = tuple(self._body.recording.step(at) for at in range(before, len(self._body.recording.lines)))
        armed = {name: n - armed_before.get(name, 0) for name, n in self._judging.report.armed.items()}
        return Glance(scenario, tuple(findings), steps, armed, was_first, loaded.is_overloaded)

    def close(self) -> None:
        try:
            self._body.close()
            if self._body.trace().end.how != "exit":
                self._kit.adapter.dismiss(self._prepared)
        finally:
            with contextlib.suppress(Exception):
                self._stack.close()

    def _start_again(self, command: object, is_fresh: bool) -> Body:
        raise AssertionError("a case that starts again gets processes of its own")

    def _feed(self) -> list[Verdict]:
        lines = self._body.recording.lines
        found: list[Verdict] = []
        while self._judged < len(lines):
            found += self._judging.feed(self._body.recording.step(self._judged))
            self._judged += 1
        return found

    def _reset(self, stage: Stage, scenario: Scenario) -> Stopped | None:
        """Make the state as it was: an empty queue, an empty session."""
        known = self._kit.generation.commands
        names = [name for name in ("clear_queue", "new_session") if name in known]
        try:
            for name in names:
                own = f"{KIT_ID}{name}-{self.played}"
                self._body.send({"id": own, "type": name})
                self._body.wait_response(own, RESET_S * self._kit.patience)
        except (DriverTimeout, AgentGone) as error:
            text = str(error).partition("\n")[0]
            if self._body.has_ended(error):
                return Stopped("crash", f"{self._body.ending()}; {text}", -1)
            return Stopped("step", text, -1)
        return None

    def _end(self) -> None:
        with contextlib.suppress(AgentGone, DriverTimeout):
            self._body.end(self._kit.adapter.quit, self._kit.patience)
        self._body.close()


def _finding(verdict: Verdict) -> Finding:
    return Finding(
        verdict.invariant,
        verdict.rules,
        verdict.text,
        verdict.level,
        0,
        verdict.steps,
        is_timed=verdict.is_timed,
    )


def _of_trouble(stopped: Stopped) -> Finding:
    source = {"crash": "crash", "hang": "hang", "start": "start", "excess": "excess"}.get(stopped.trouble, "step")
    rules = {"step": ("R-RSP-01",), "excess": EXCESS_RULES}.get(source, ("R-ERR-02",))
    return Finding(source, rules, stopped.text, "violation", is_timed=source not in ("crash", "excess"))
