"""Promela bodies and Python bodies of the same names do the same: random paths of the model, effect by effect."""

import re
from pathlib import Path
from typing import Literal

import pytest

from pinnace_campaigns.model_check.paths import ModelPath, ModelStep, read_path
from pinnace_campaigns.model_check.spin import walk
from pinnace_spec.generate.promela.names import SETS
from pinnace_spec.generate.promela.promela import model_text
from pinnace_spec.rules.limits import MAX_QUEUED_MESSAGES
from pinnace_spec.statechart.transitions import CHART
from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart
from pinnace_statechart.state import ExtendedState, RetryPolicy
from pinnace_statechart.triggers import Command, InternalEvent, Trigger

pytestmark = pytest.mark.peer

# Both hold for each path, and a set's paths take a second each on a busy machine.
PATHS_PER_SET = 3
COMMANDS = 6


def word(effect: fx.Effect) -> str:  # noqa: PLR0911  # one a kind of effect
    """Say what an effect asks for, as the models tell it."""
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", type(effect).__name__).lower()
    match effect:
        case fx.Accept():
            return f"{effect.disposition or 'ok'} {effect.ref}"
        case fx.Answer() | fx.Perform() | fx.AcceptCompact() | fx.AnswerNavigation() | fx.AnswerShell():
            return f"ok {effect.ref}"
        case fx.Refuse():
            return f"refuse {effect.ref}"
        case fx.QueueUpdate():
            return f"queues {len(effect.steering)} {len(effect.follow_up)}"
        case fx.StartJob():
            return f"job {effect.kind}" if effect.kind in {"ask", "read", "save"} else f"job j_{effect.kind}"
        case fx.StartTimer():
            return "job j_timer"
        case fx.AppendPrompt():
            return f"append {effect.item.ref}"
        case fx.DropPrompt():
            return f"drop {effect.ref}"
        case fx.Deliver():
            return f"deliver {effect.item.ref}"
        case fx.AgentEnd():
            return f"agent_end {int(effect.will_retry)}"
        case fx.AgentSettled():
            return f"settled {int(effect.aborted)}"
        case fx.RetryEnd():
            return f"retry_end {int(effect.success)}"
        case fx.CompactionEnd():
            return f"compaction_end {int(effect.outcome == 'ok')}"
        case fx.DefaultDialogs():
            return f"default_dialogs {int(effect.for_good)}"
        case fx.StartShell() | fx.RecordShell() | fx.KeepShell() | fx.ResolveDialog() | fx.StartCommand():
            return f"{name} {effect.ref}"
        case _:
            return name


def trigger_of(step: ModelStep, chart: Chart, *, has_extensions: bool) -> Trigger:
    """Return a step's trigger with what the statechart's bodies look at."""
    name, state = step.trigger, chart.state
    if step.is_command or name == "abort":
        return Command(
            name,
            step.number,
            text=str(step.number),
            behavior=(None, "steer", "followUp")[step.option] if name == "prompt" else None,
            queue=("hold", "clear", "continue")[step.option] if name == "abort" else "hold",
            mode="all" if step.option else "one-at-a-time",
            enabled=bool(step.option),
            unread=has_extensions,
        )
    if name.startswith("ask_"):
        return InternalEvent(name, state.confirming_job)
    if name.startswith("text_"):
        return InternalEvent(name, state.reading_job, content=("text", ()))
    if name.startswith("save_"):
        return InternalEvent(name, state.saving_job)
    requested: Literal["go_on", "end"] | None = None
    if step.option:
        requested = "go_on" if name == "llm_stop" else "end"
    return InternalEvent(name, state.job, ref=step.number, threshold_due=step.is_due, requested=requested)


def follow(path: ModelPath, *, has_extensions: bool, max_queued: int = MAX_QUEUED_MESSAGES) -> None:
    state = ExtendedState(retry=RetryPolicy(max_attempts=1), has_extensions=has_extensions)
    state.max_queued = max_queued
    state.steering.mode = "all" if path.is_steering_all else "one-at-a-time"
    state.follow_up.mode = "all" if path.is_follow_up_all else "one-at-a-time"
    chart = Chart(state)
    for number, step in enumerate(path.steps):
        told = tuple(map(word, chart.step(trigger_of(step, chart, has_extensions=has_extensions))))
        assert step.outputs == told, f"step {number + 1} of\n" + "\n".join(map(str, path.steps))


@pytest.mark.parametrize("chosen", SETS)
def test_the_chart_reports_on_a_path_of_the_model_what_the_model_reports(
    spin: list[str], chosen: str, tmp_path: Path
) -> None:
    values = {"N": COMMANDS, "SET": list(SETS).index(chosen)}
    text = model_text("run", CHART)
    flags = SETS[chosen].flags
    max_queued = 1 if "FULL" in flags else MAX_QUEUED_MESSAGES
    paths = [read_path(lines) for lines in walk(text, tmp_path, values, range(1, PATHS_PER_SET + 1))]
    for path in paths:
        follow(path, has_extensions="EXT" in flags, max_queued=max_queued)

    # A path may end with its first step, when the input ends; not all of them do.
    assert sum(len(path.steps) for path in paths) > COMMANDS
