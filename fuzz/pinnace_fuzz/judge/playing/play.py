"""Plays a scenario against an agent: gates decide what comes before what, waits end with the record waited for.

Plain threads and real time. Judges nothing but whether the script could be played to its end and whether what its own
steps ask for was true; traces are judged by `judging`. Every process that it starts has ended when it returns.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.ledger import LlmTimeout, ReceivedRequest
from pinnace_fuzz.judge.adapter import LaunchOptions, Prepared
from pinnace_fuzz.judge.playing import load
from pinnace_fuzz.judge.playing.body import Body, ProcessTrace
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.steps import Persisted, Stage, StepFailed, UnknownCommand
from pinnace_fuzz.judge.scenarios.scenario import Scenario

PROBE_S = 8.0

Trouble = Literal["step", "crash", "hang", "excess", "unimplemented", "start"]


class Stopped(NamedTuple):
    """Why a script was not played to its end."""

    trouble: Trouble
    text: str
    step: int
    """Number of the step in the script, from 0; -1: behind the last one."""


class Played(NamedTuple):
    """What came of playing a scenario."""

    scenario: Scenario
    stopped: Stopped | None
    faults: tuple[str, ...]
    """What a step asked for and was not true."""
    traces: tuple[ProcessTrace, ...]
    requests: tuple[ReceivedRequest, ...]
    unscripted: tuple[int, ...]
    persisted: tuple[Persisted, ...]
    load: load.Load
    seconds: float
    folders: Mapping[str, Path]
    kit_closed_stdin: bool
    """The script left the end to the tester."""


class Player:
    """Plays one scenario in processes of its own."""

    def __init__(self, kit: AgentUnderTest, scenario: Scenario, root: Path) -> None:
        self._kit = kit
        self._scenario = kit.adapter.as_played(scenario)
        self._root = root
        self._traces: list[ProcessTrace] = []
        self._prepared: Prepared | None = None
        self._waiting_s = 0.0

    def play(self) -> Played:
        """Play it.

        Raises:
            HarnessFault: The tester itself failed.
        """
        begun_s = time.monotonic()
        scenario = self._scenario
        with FakeLlm(asides=self._kit.adapter.asides) as llm:
            launch_options = LaunchOptions(
                scenario.session, scenario.settings, scenario.files, scenario.model, scenario.arguments, scenario.env
            )
            self._prepared = self._kit.adapter.prepare(self._kit.command, self._root, llm.base_url, launch_options)
            stage = Stage(scenario, self._kit, llm, self._prepared, self._start)
            try:
                for line in scenario.llm:
                    llm.add(stage.holes.answer(line.answer))
                stopped = perform(stage, scenario, self._kit, after_each=self._collect)
            finally:
                kit_closed_stdin = not stage.has_ended_input
                self._finish(stage)
            return Played(
                scenario,
                stopped,
                tuple(stage.faults),
                tuple(self._traces),
                tuple(llm.requests),
                tuple(llm.unscripted),
                tuple(stage.persisted),
                self._kit.meter.since(begun_s, self._waiting_s),
                time.monotonic() - begun_s,
                self._prepared.folders,
                kit_closed_stdin,
            )

    def _start(self, command: Sequence[str], is_fresh: bool) -> Body:
        assert self._prepared is not None
        return Body(command, self._prepared, is_fresh, partial(self._kit.adapter.elsewhere, self._prepared))

    def _collect(self, stage: Stage) -> None:
        for body in stage.ended:
            self._traces.append(body.trace())
        stage.ended.clear()

    def _finish(self, stage: Stage) -> None:
        """End the last process in order, or by force."""
        self._collect(stage)
        stage.close()
        body = stage.body
        if body is None:
            return
        self._waiting_s = load.waiting_s(body.process.pid)
        with contextlib.suppress(AgentGone, DriverTimeout):
            body.end(self._kit.adapter.quit, self._kit.patience)
        body.close()
        self._traces.append(body.trace())
        if self._prepared is not None and any(each.end.how != "exit" for each in self._traces):
            self._kit.adapter.dismiss(self._prepared)


def perform(
    stage: Stage, scenario: Scenario, kit: AgentUnderTest, after_each: Callable[[Stage], None] = lambda stage: None
) -> Stopped | None:
    """Carry out a script; return why it was not played to its end, or None."""
    at = -1
    try:
        if stage.body is None:
            stage.begin()
        for number, step in enumerate(scenario.client):
            at = number
            stage.perform(step)
            after_each(stage)
        at = -1
        stage.settle()
    except (StepFailed, DriverTimeout, LlmTimeout, AgentGone) as error:
        return _explain(stage, kit, error, at)
    except OSError as error:
        if stage.body is None:
            return Stopped("start", str(error), at)
        raise
    return None


def _explain(stage: Stage, kit: AgentUnderTest, error: Exception, at: int) -> Stopped:
    """Find out what it means that a step failed: is the agent gone, deaf, or just not doing what was wanted?"""
    text = str(error).partition("\n")[0]
    if isinstance(error, UnknownCommand):
        return Stopped("unimplemented", text, at)
    body = stage.body
    if body is None:
        return Stopped("start", text, at)
    if body.was_killed:
        return Stopped("step", text, at)
    if body.journal.excess:
        return Stopped("excess", body.journal.excess, at)
    if body.has_ended(error):
        if kit.adapter.is_one_prompt and not body.was_ended_by_signal:
            return Stopped("step", text, at)
        return Stopped("crash", f"{body.ending()}; {text}", at)
    if isinstance(error, StepFailed) or stage.has_ended_input:
        return Stopped("step", text, at)
    deaf = stage.why_deaf(PROBE_S * kit.patience)
    if deaf is None:
        return Stopped("step", text, at)
    # One that was ending when it was asked is no deaf one.
    if body.has_ended(deaf):
        return Stopped("crash", f"{body.ending()}; {text}", at)
    return Stopped("hang", text, at)


def play(kit: AgentUnderTest, scenario: Scenario, root: Path) -> Played:
    """Play a scenario once, in a folder of its own."""
    return Player(kit, scenario, root).play()
