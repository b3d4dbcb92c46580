"""The pure chart under arbitrary commands and happenings: random walks, and an exhaustive search for the rows.

`Watcher` knows only triggers and effects. It holds what the protocol promises: each command is answered once, each text
has one fate, brackets nest, one job lives behind each busy state, nothing starts after an abort until something new is
accepted.
"""

import os
from collections import Counter, deque
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import fields
from functools import partial
from inspect import getsource
from operator import attrgetter
from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pinnace_fuzz.harness import coverage
from pinnace_spec.generate.rulebook import row_name
from pinnace_spec.records.command_table import CLIENT_ANSWERS
from pinnace_spec.rules.limits import MAX_QUEUED_MESSAGES
from pinnace_spec.statechart.names import CANCELLABLE, STOPPING, STOPPING_OF
from pinnace_spec.statechart.transitions import ALWAYS, CHART, COMMANDS, JOB_TRIGGERS, REGIONS, Region, Transition
from pinnace_statechart import effects as fx
from pinnace_statechart.actions import ACTIONS
from pinnace_statechart.guards import GUARDS, barrier
from pinnace_statechart.machine import Chart
from pinnace_statechart.queues import MessageQueue
from pinnace_statechart.state import ExtendedState, RetryPolicy
from pinnace_statechart.triggers import NO_REPLY, Command, InternalEvent, Trigger

JOB_OF = {
    "llm": "run",
    "tools": "run",
    "retrying": "timer",
    "preflight": "preflight",
    "persisting": "sync",
    "compacting.manual": "compaction",
    "compacting.prompt": "compaction",
    "compacting.threshold": "compaction",
    "compacting.overflow": "compaction",
    "switching": "switch",
    "settling": "settle_hook",
    "navigating": "navigation",
}
OUTCOMES = {
    "preflight": ("preflight_ok", "preflight_refused", "preflight_handled", "threshold_due"),
    "persisting": ("synced", "sync_failed"),
    "llm": ("llm_tool_calls", "llm_length", "llm_stop", "llm_transient", "llm_overflow", "llm_fatal", "job_failed"),
    "tools": ("tools_done", "job_failed"),
    "retrying": ("delay_over",),
    "compacting.manual": ("compaction_ok", "compaction_failed"),
    "compacting.prompt": ("compaction_ok", "compaction_failed"),
    "compacting.threshold": ("compaction_ok", "compaction_failed"),
    "compacting.overflow": ("compaction_ok", "compaction_failed"),
    "switching": ("switch_ok", "switch_failed", "instance_ready", "reload_ok", "reload_failed"),
    "settling": ("settle_hook_ok", "settle_hook_goes_on", "job_failed"),
    "navigating": ("navigation_ready", "navigation_ok", "navigation_failed"),
}
ASK_OUTCOMES = ("ask_yes", "ask_no", "ask_invalid")
READ_OUTCOMES = ("text_read", "text_handled", "text_failed")
SAVE_OUTCOMES = ("save_ok", "save_failed")
BESIDE_RUN = {"ask", "read", "save"}
REQUESTS: tuple[Literal["go_on", "end"] | None, ...] = (None, "go_on", "end")
# What a cancelled job of each kind may still report.
ABORTED_REPORTS = {
    "preflight": {
        "job_ended",
        "prompt_read",
        "preflight_ok",
        "preflight_refused",
        "preflight_handled",
        "threshold_due",
    },
    "sync": {"job_ended", "synced", "sync_failed"},
    "run": {*OUTCOMES["llm"], "tools_done", "job_ended"},
    "compaction": {"job_ended", "compaction_ok", "compaction_failed"},
    "settle_hook": {"job_ended", "job_failed", "settle_hook_ok", "settle_hook_goes_on"},
    "navigation": {"job_ended", "navigation_ready", "navigation_ok", "navigation_failed"},
}
ALL_COMMANDS = tuple(name for region in REGIONS for name in COMMANDS[region])
TEXTS = ("prompt", "steer", "follow_up")


Snapshot = tuple[dict[Region, str], ExtendedState, dict[str, object]]


def copy_counter(counter: Counter[int]) -> Counter[int]:
    """Copy it as the dict that it is: its own way counts again."""
    copied = Counter[int]()
    dict.update(copied, counter)
    return copied


# What can change of all that a field may hold; the rest is as good as its copy. The search copies states all the time.
COPIES: Mapping[type[object], Callable[[Any], object]] = {
    list: list.copy,
    dict: dict.copy,
    set: set.copy,
    deque: deque.copy,
    Counter: copy_counter,
    MessageQueue: copy,
}


FIELDS: Callable[[ExtendedState], tuple[Any, ...]] = attrgetter(*(field.name for field in fields(ExtendedState)))


def copy_values(values: Mapping[str, object]) -> dict[str, object]:
    """Copy fields with everything in them that can change."""
    return {name: copy(value) if (copy := COPIES.get(type(value))) else value for name, value in values.items()}


def copy_state(state: ExtendedState) -> ExtendedState:
    """Copy an extended state with everything in it that can change."""
    copied: list[Any] = [copy(value) if (copy := COPIES.get(type(value))) else value for value in FIELDS(state)]
    return ExtendedState(*copied)


ROWS: dict[tuple[Region, str, str], list[Transition]] = {}
for _row in CHART:
    ROWS.setdefault((_row.region, _row.trigger, _row.source), []).append(_row)


class QuickChart(Chart):
    """A chart that takes the rows without the machines, for searches: in a third of the time.

    Held to the machines at every row that a search meets in another configuration.
    """

    def _fire(self, region: Region, trigger: Trigger) -> bool:
        context = self._context
        context.trigger = trigger
        for row in ROWS[region, trigger.name, context.configuration[region]]:
            if not row.guard or GUARDS[row.guard](context):
                break
        else:
            return False
        if self._on_row is not None:
            self._on_row(row)
        for name in row.effects:
            ACTIONS[name](context)
        if row.target is not None:
            context.configuration[region] = row.target
        return True


class Watcher:
    """Judges a chart by what goes in and what comes out."""

    def __init__(self, max_queued: int = MAX_QUEUED_MESSAGES, kind: type[Chart] = Chart) -> None:
        state = ExtendedState(retry=RetryPolicy(max_attempts=1), max_queued=max_queued)
        self.taken: list[Transition] = []
        self.chart = kind(state, on_row=self.taken.append)
        self.sent: dict[int, Command] = {}
        self.answers: Counter[int] = Counter()
        self.fate: dict[int, str] = {}  # of texts: queued, delivered, returned, refused
        self.order: dict[str, int] = {}
        self.jobs: dict[int, str] = {}
        self.open: list[str] = []
        self.retry_open = False
        self.blocked_until = 0  # no run may start for a text that arrived before this abort
        self.blocked = False
        self.closed = False
        self.appended: set[int] = set()  # texts in the session whose prompt has no answer yet (R-SES-05)
        self.saved: set[int] = set()  # texts in the session as queued (R-QUE-12)
        self.shells: set[int] = set()
        self.commands: set[int] = set()  # of extensions

    def snapshot(self) -> Snapshot:
        """Return all that a watcher and its chart remember."""
        kept = copy_values(vars(self))
        del kept["chart"], kept["taken"]
        return self.chart.configuration, copy_state(self.chart.state), kept

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which stays usable."""
        configuration, state, kept = snapshot
        vars(self).update(copy_values(kept))
        self.chart.restore(configuration, copy_state(state))

    def step(self, trigger: Trigger) -> None:
        """Take a trigger and judge its effects."""
        if isinstance(trigger, Command) and trigger.ref == NO_REPLY:
            self.blocked, self.blocked_until = True, max(self.sent, default=0)
        elif isinstance(trigger, Command):
            self.sent[trigger.ref] = trigger
            if trigger.name == "abort" and trigger.queue != "continue":
                self.blocked, self.blocked_until = True, trigger.ref
            elif trigger.name == "abort":
                self.blocked = False
        elif trigger.name == "stop_abort":
            self.blocked, self.blocked_until = True, 10**9
        for effect in self.chart.step(trigger):
            self._judge(effect)
        self._check_jobs()

    def _answer(self, ref: int) -> None:
        self.answers[ref] += 1
        assert self.answers[ref] == 1, f"{self.sent[ref]} answered twice"

    def _accepted_text(self, ref: int) -> None:
        if ref > self.blocked_until:
            self.blocked = False

    def _judge(self, effect: fx.Effect) -> None:  # noqa: PLR0912  # one case an effect
        assert not self.closed or isinstance(effect, fx.Answer | fx.DefaultDialogs), f"{effect} after close"
        match effect:
            case fx.Accept():
                self._answer(effect.ref)
                command = self.sent[effect.ref]
                if effect.disposition == "started" and command.name == "prompt":
                    assert effect.ref in self.appended | self.saved, "answered before its text was saved"
                if command.name in TEXTS and effect.disposition != "handled":
                    assert effect.ref in self.saved | self.appended, "answered before its text was saved"
                if command.name in TEXTS:
                    self._accepted_text(effect.ref)
                    if effect.disposition == "handled":
                        self.fate[effect.ref] = "handled"
                    else:
                        self.fate.setdefault(effect.ref, "queued")
                self._return(*(effect.cleared or ((), ())))
                if command.name == "abort":
                    assert self.open == []
                    assert not self.retry_open
            case fx.Refuse():
                self._answer(effect.ref)
                assert effect.ref not in self.appended, "refused, and its text stays in the branch"
                if self.sent[effect.ref].name in TEXTS:
                    assert self.fate.setdefault(effect.ref, "refused") == "refused"
            case fx.Answer() | fx.Perform() | fx.AcceptCompact() | fx.AnswerNavigation() | fx.AnswerShell():
                self._answer(effect.ref)
            case fx.StartJob():
                self._start(effect.job, effect.kind)
            case fx.StartTimer():
                self._start(effect.job, "timer")
            case fx.CancelTimer():
                del self.jobs[effect.job]
            case fx.CancelAsk():
                del self.jobs[effect.job]
            case fx.StartShell():
                self.shells.add(effect.ref)
            case fx.StartCommand():
                self.commands.add(effect.ref)
            case fx.AgentStart():
                assert self.open == []
                assert not self.blocked, "a run starts after an abort though nothing new was accepted"
                late = [ref for ref, command in self.sent.items() if command.name == "abort" and not self.answers[ref]]
                assert [] == late, "a run starts before an abort is answered"
                self.open.append("agent")
            case fx.TurnStart():
                assert self.open == ["agent"]
                self.open.append("turn")
            case fx.AppendPrompt():
                assert self.fate.get(effect.item.ref) is None
                self.appended.add(effect.item.ref)
            case fx.DropPrompt():
                self.appended.remove(effect.ref)
            case fx.Deliver():
                self._deliver(effect)
            case fx.CallModel():
                assert self.open == ["agent", "turn"]
            case fx.TurnEnd():
                assert self.open.pop() == "turn"
            case fx.AgentEnd():
                assert self.open.pop() == "agent"
            case fx.CloseRun():
                assert self.open
                self.open.clear()
            case fx.CompactionStart():
                assert self.open == []
                self.open.append("compaction")
            case fx.CompactionEnd():
                assert self.open.pop() == "compaction"
            case fx.RetryStart():
                self.retry_open = True
            case fx.RetryEnd():
                assert self.retry_open
                self.retry_open = False
            case fx.AgentSettled():
                assert self.open == []
                assert not self.retry_open
            case fx.ReturnQueued():
                for item in effect.items:
                    assert self.fate[item.ref] in {"queued", "leaving"}
                    self.fate[item.ref] = "leaving"
            case fx.QueueUpdate():
                self._queue(effect)
            case fx.Close():
                self.closed = True
                assert not self.jobs
                assert not self.commands
                assert "leaving" not in self.fate.values(), self.fate
                assert self.saved >= {ref for ref, fate in self.fate.items() if fate == "queued"}, self.fate
                assert self.chart.state.queue_paused or "queued" not in self.fate.values()
                assert all(self.answers[ref] == 1 for ref in self.sent if self._is_answered(ref))
            case _:
                pass

    def _is_answered(self, ref: int) -> bool:
        return self.sent[ref].name not in CLIENT_ANSWERS

    def _start(self, job: int, kind: str) -> None:
        assert job not in self.jobs
        self.jobs[job] = kind

    def _deliver(self, effect: fx.Deliver) -> None:
        ref = effect.item.ref
        assert self.open == ["agent", "turn"]
        assert effect.is_appended == (ref in self.appended)
        self.appended.discard(ref)
        assert self.fate.get(ref, "own") in {"own", "queued", "leaving"}, f"{ref} was {self.fate[ref]}"
        self.fate[ref] = "delivered"

    def _return(self, steering: tuple[str, ...], follow_up: tuple[str, ...]) -> None:
        for text in (*steering, *follow_up):
            assert self.fate[int(text)] == "leaving"
            self.fate[int(text)] = "returned"

    def _queue(self, effect: fx.QueueUpdate) -> None:
        """Texts are unique here, so a queue's content is the list of its refs."""
        waiting = {int(text) for text in (*effect.steering, *effect.follow_up)}
        for name, texts in (("steering", effect.steering), ("follow_up", effect.follow_up)):
            assert list(texts) == sorted(texts, key=int), f"{name} is not first in, first out"
        for ref in [ref for ref, fate in self.fate.items() if fate == "queued" and ref not in waiting]:
            self.fate[ref] = "leaving"  # delivered next, or returned by an answer
        for ref in waiting:
            self.fate[ref] = "queued"

    def _check_jobs(self) -> None:
        run = self.chart.run
        kinds = Counter(kind for kind in self.jobs.values() if kind not in BESIDE_RUN)
        assert bool(self.appended) == (run in {"persisting", "stopping.persisting"})
        if run in STOPPING:
            assert kinds == Counter([JOB_OF[state] for state in CANCELLABLE if STOPPING_OF[state] == run][:1]), (
                run,
                kinds,
            )
        else:
            job = next((kind for kind in ("instance", "reload") if kind in kinds), JOB_OF.get(run))
            assert kinds == (Counter([job]) if run in JOB_OF else Counter()), (run, kinds)
        asking = [job for job, kind in self.jobs.items() if kind == "ask"]
        assert len(asking) == (self.chart.configuration["session"] == "confirming")
        state = self.chart.state
        assert [job for job, kind in self.jobs.items() if kind == "read"] == [state.reading_job] * bool(state.reading)
        assert [job for job, kind in self.jobs.items() if kind == "save"] == [state.saving_job] * bool(state.saving)
        if state.saving is not None and state.saving_after == "withdraw":
            # All that comes waits behind it, so whether its end lifts the pause makes no difference.
            assert len(state.steering) + len(state.follow_up) == 0, "queued beside a text that an abort returns"
        if run == "idle":
            assert state.queue_paused or not (len(state.steering) or len(state.follow_up)), "idle and owed (C-2)"
            assert not state.streaming or state.saving is not None
            assert self.open == []
            assert not self.retry_open
            assert not self.appended

    def report(
        self, name: str, *, threshold_due: bool = False, requested: Literal["go_on", "end"] | None = None
    ) -> None:
        """Let the living job report."""
        state = self.chart.state
        job = state.confirming_job if name.startswith("ask_") else state.job
        content = None
        if name.startswith("text_"):
            assert state.reading is not None
            job, content = state.reading_job, (state.reading.text, ())
        elif name.startswith("save_"):
            assert state.saving is not None
            job = state.saving_job
            if name == "save_ok":
                self.saved.add(state.saving.ref)
        elif name == "prompt_read" and state.pending_prompt is not None:
            content = (state.pending_prompt.text, ())
        if not self._goes_on(name, requested):
            self.jobs.pop(job, None)
        self.step(InternalEvent(name, job, threshold_due=threshold_due, content=content, requested=requested))

    def _goes_on(self, name: str, requested: str | None) -> bool:
        """Whether the job lives on after this report."""
        if name in {"prompt_read", "navigation_ready"}:
            return True
        if name.startswith(("ask_", "text_", "save_")):
            return False
        if self.chart.run in STOPPING:
            return False
        queued = len(self.chart.state.steering) or len(self.chart.state.follow_up)
        if name == "tools_done":
            return requested != "end" or bool(len(self.chart.state.steering))
        is_requested = bool(queued) or requested == "go_on"
        return name in {"llm_tool_calls", "llm_length"} or (name == "llm_stop" and is_requested)

    def end_shell(self) -> None:
        """Let a shell command end."""
        self.step(InternalEvent("shell_ended", ref=self.shells.pop()))

    @property
    def can_begin_instance(self) -> bool:
        """Whether the agent is idle: who wants extensions to be loaded again asks that first."""
        state = self.chart.state
        is_switching = state.confirming or state.confirmed_switch
        is_waiting = state.deferred_commands or is_switching or state.pending_compact or state.reading or state.saving
        return self.chart.run == "idle" and not (state.streaming or is_waiting or self.closed)

    def begin_instance(self) -> None:
        """Let extensions be loaded: at the start, or again."""
        self.step(InternalEvent("begin_instance"))

    def end_command(self) -> None:
        """Let a command of an extension end."""
        self.step(InternalEvent("command_ended", ref=self.commands.pop()))

    def add_custom(self, name: str, ref: int) -> None:
        """Let an extension queue a message, which no file has."""
        self.saved.add(ref)
        self.step(Command(name, ref, text=str(ref), custom="message"))

    def reach_limit(self) -> None:
        """Let a limit end the run."""
        self.step(Command("abort", NO_REPLY, limit="maxTurns"))

    @property
    def can_reach_limit(self) -> bool:
        """Whether something works that a limit may end."""
        return self.chart.state.streaming and self.chart.run not in {"idle", *STOPPING, "switching"}

    def reports(self) -> list[str]:
        """What the living jobs may report now."""
        run = self.chart.run
        names = list(OUTCOMES.get(run, ()))
        if run == "preflight":
            own = self.chart.state.pending_prompt
            names += ["prompt_read"] if own is not None and own.unread else []
        if run == "switching":
            names = [name for name in names if name.startswith(self.jobs[self.chart.state.job])]
        if run in STOPPING:
            names = sorted(ABORTED_REPORTS[self.jobs[self.chart.state.job]])
        if self.chart.configuration["session"] == "confirming":
            names.extend(ASK_OUTCOMES)
        if self.chart.state.reading is not None:
            names.extend(READ_OUTCOMES)
        if self.chart.state.saving is not None:
            names.extend(SAVE_OUTCOMES)
        return names


def make_command(name: str, ref: int, option: int = 0, *, unread: bool = False) -> Command:
    """Make a command; texts are their refs, so that they are unique."""
    return Command(
        name,
        ref,
        text=str(ref),
        behavior=(None, "steer", "followUp")[option % 3] if name == "prompt" else None,
        queue=("hold", "clear", "continue")[option % 3],
        mode=("all", "one-at-a-time")[option % 2],
        enabled=bool(option % 2),
        unread=unread and name in TEXTS,
    )


class ChartMachine(RuleBasedStateMachine):
    """Random walks: any command at any time, any report of a living job."""

    def __init__(self) -> None:
        super().__init__()
        self.watcher = Watcher()
        self.refs = 0
        self.stopped = False

    @initialize(auto_retry=st.booleans(), auto_compaction=st.booleans(), has_extensions=st.booleans())
    def choose(self, auto_retry: bool, auto_compaction: bool, has_extensions: bool) -> None:
        self.has_extensions = has_extensions
        self.watcher.step(InternalEvent("instance_began", enabled=has_extensions))
        state = self.watcher.chart.state
        state.retry = RetryPolicy(enabled=auto_retry, max_attempts=1)
        state.auto_compaction = auto_compaction

    @precondition(lambda self: not self.stopped)
    @rule(
        name=st.one_of(st.sampled_from(("prompt", "steer", "follow_up", "abort")), st.sampled_from(ALL_COMMANDS)),
        option=st.integers(0, 2),
    )
    def command(self, name: str, option: int) -> None:
        self.refs += 1
        self.watcher.step(make_command(name, self.refs, option, unread=self.has_extensions))

    @precondition(lambda self: self.watcher.reports())
    @rule(data=st.data(), threshold_due=st.booleans(), requested=st.sampled_from(REQUESTS))
    def report(self, data: st.DataObject, threshold_due: bool, requested: Literal["go_on", "end"] | None) -> None:
        name = data.draw(st.sampled_from(self.watcher.reports()))
        self.watcher.report(name, threshold_due=threshold_due, requested=requested)

    @precondition(lambda self: self.watcher.shells)
    @rule()
    def shell_ends(self) -> None:
        self.watcher.end_shell()

    @precondition(lambda self: self.watcher.can_begin_instance)
    @rule(sure=st.integers(0, 9))
    def begin_instance(self, sure: int) -> None:
        if sure == 0:
            self.watcher.begin_instance()

    @precondition(lambda self: self.watcher.commands)
    @rule()
    def command_ends(self) -> None:
        self.watcher.end_command()

    @precondition(lambda self: self.watcher.can_reach_limit)
    @rule(sure=st.integers(0, 9))
    def reach_limit(self, sure: int) -> None:
        if sure == 0:
            self.watcher.reach_limit()

    @rule(name=st.sampled_from(JOB_TRIGGERS), job=st.integers(0, 3))
    def stale_report(self, name: str, job: int) -> None:
        state = self.watcher.chart.state
        if job not in {state.job, state.confirming_job, state.reading_job, state.saving_job}:
            before = deepcopy(state)
            self.watcher.step(InternalEvent(name, job))
            assert before.deferred_commands == state.deferred_commands
            assert before.job == state.job

    @rule(name=st.sampled_from(("stop_abort", "stop_drain")), sure=st.integers(0, 9))
    def stop(self, name: str, sure: int) -> None:
        if sure == 0 and not self.watcher.closed:
            self.stopped = True
            self.watcher.step(InternalEvent(name))

    def teardown(self) -> None:
        """Whatever happened, the process can be ended: every command is answered then (C-16)."""
        if not self.watcher.closed:
            self.watcher.step(InternalEvent("stop_abort"))
        for _ in range(100):
            if self.watcher.closed:
                break
            while self.watcher.shells:
                self.shell_ends()
            while self.watcher.commands:
                self.command_ends()
            if names := self.watcher.reports():
                self.watcher.report(names[0])
        assert self.watcher.closed
        unanswered = [command for ref, command in self.watcher.sent.items() if not self.watcher.answers[ref]]
        assert [c for c in unanswered if c.name not in CLIENT_ANSWERS] == []


ChartMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_random_walks_keep_every_promise = ChartMachine.TestCase


def fingerprint(watcher: Watcher) -> str:
    """Two states with the same fingerprint have the same future, up to the numbers of jobs and commands."""
    state = watcher.chart.state
    return repr(
        (
            tuple(watcher.chart.configuration.items()),
            len(state.steering),
            len(state.follow_up),
            state.queue_paused,
            state.streaming,
            state.pending_prompt and state.pending_prompt.unread,
            state.reading and (state.reading.name, state.reading.behavior),
            state.saving and (state.saving.name, state.saving.behavior, state.saving_after),
            len(state.running_extension_commands),
            state.has_extensions,
            state.settle_hook_due,
            state.cancelled,
            [(c.name, c.behavior, c.queue, c.unread) for c in state.deferred_commands],
            [c.ref for c in state.deferred_commands] == sorted(c.ref for c in state.deferred_commands),
            state.confirming and state.confirming.name,
            state.confirmed_switch and state.confirmed_switch.name,
            state.pending_compact is not None,
            state.compact_ref > 0,
            state.compaction,
            state.retry_open,
            state.attempt,
            state.overflow_tried,
            state.auto_compaction,
            state.threshold_checked,
            len(state.shells),
            len(state.finished_shells),
            len(state.aborts),
            sorted(watcher.jobs.values()),
        )
    )


def read_where(what: str) -> set[tuple[str, str]]:
    """Return the states and triggers of which a guard reads a field of the report; elsewhere it changes nothing."""
    guards = {name for name, guard in GUARDS.items() if f".{what}" in getsource(guard)}
    assert guards
    assert not any(row.guard in guards for row in CHART if row.trigger == ALWAYS)
    return {(row.source, row.trigger) for row in CHART if row.guard in guards}


READ_THRESHOLD = read_where("threshold_due")
READ_REQUESTS = read_where("requested")


# One command of each kind of rows; what differs in nothing but its name adds no new behaviour, and is walked above.
SEARCHED: tuple[tuple[str, int], ...] = (
    *((name, option) for name in ("prompt", "abort") for option in range(3)),
    *((name, 0) for name in ("steer", "follow_up", "clear_queue", "compact", "abort_retry", "new_session")),
    *((name, 0) for name in ("bash", "abort_bash", "get_state", "set_model", "set_queue_mode", "set_auto_compaction")),
)


# Three commands reach every row in seconds; four take a minute and belong to the long campaign.
SEARCHED_COMMANDS = 4 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 3


# The same where extensions read every text and are asked before the agent settles.
SEARCHED_WITH_EXTENSIONS: tuple[tuple[str, int], ...] = (
    *((name, option) for name in ("prompt", "abort") for option in range(2)),
    *((name, 0) for name in ("steer", "follow_up", "compact", "new_session", "extension_command")),
)
# A line forms behind a text that is read.
SEARCHED_LINES: tuple[tuple[str, int], ...] = (("prompt", 0), ("steer", 0))
# What extensions do while a compaction that a client asked for is cancelled, and shells that end while they settle.
SEARCHED_COMPACTIONS: tuple[tuple[str, int], ...] = (("compact", 0), ("abort", 0), ("steer", 0))
SEARCHED_CANCELLED: tuple[tuple[str, int], ...] = (("compact", 0), ("abort", 0), ("extension_command", 0))
SEARCHED_SHELLS: tuple[tuple[str, int], ...] = (("prompt", 0), ("bash", 0))
# A text that is being saved while extensions settle, and that an abort returns.
SEARCHED_RETURNED: tuple[tuple[str, int], ...] = (("prompt", 0), ("steer", 0), ("abort", 1))
# Moves to another entry, what they are cancelled by, and what is beside them.
_MOVE: tuple[str, int] = ("navigate_tree", 0)
SEARCHED_MOVES: tuple[tuple[str, int], ...] = (_MOVE, ("abort", 0), ("steer", 0), ("new_session", 0))
SEARCHED_MOVES_READ: tuple[tuple[str, int], ...] = (_MOVE, ("abort", 1), ("steer", 0))
SEARCHED_MOVES_BESIDE: tuple[tuple[str, int], ...] = (_MOVE, ("abort", 0), ("extension_command", 0), ("bash", 0))
SEARCHED_MOVES_FULL: tuple[tuple[str, int], ...] = (_MOVE, ("abort", 0))
# Reloads: what is refused, what waits behind one, and what ends it.
_RELOAD: tuple[str, int] = ("reload", 0)
SEARCHED_RELOADS: tuple[tuple[str, int], ...] = (_RELOAD, ("abort", 0), ("steer", 0), ("new_session", 0))
SEARCHED_RELOADS_BESIDE: tuple[tuple[str, int], ...] = (_RELOAD, ("prompt", 0), ("extension_command", 0), ("bash", 0))
# Where one text fills the queues.
SEARCHED_FULL: tuple[tuple[str, int], ...] = (("prompt", 0), ("steer", 0), ("abort", 0), ("compact", 0))
SEARCHED_TEXTS: tuple[tuple[str, int], ...] = (("prompt", 0), ("prompt", 1), ("steer", 0), ("follow_up", 0))


def explore(
    commands: int,
    searched: tuple[tuple[str, int], ...],
    *,
    has_extensions: bool = False,
    max_queued: int = MAX_QUEUED_MESSAGES,
) -> set[Transition]:
    """Take every sequence of up to `commands` commands, with every order of reports, once a distinct state.

    What needs fewer commands comes first, so a state that is found again after more of them has no new future.
    From each configuration with and without a barrier every other command is tried as well, one step deep. Returns the
    rows that were taken.
    """
    reached: set[Transition] = set()
    met_before: set[tuple[object, ...]] = set()
    seen: set[tuple[bool, str]] = set()
    tried: set[str] = set()
    watcher = Watcher(max_queued, QuickChart)
    machines = Chart(on_row=watcher.taken.append)
    watcher.step(InternalEvent("instance_began", enabled=has_extensions))
    make = partial(make_command, unread=has_extensions)
    todo: deque[tuple[Snapshot, int, bool, str]] = deque([(watcher.snapshot(), 0, False, fingerprint(watcher))])
    while todo:
        here, sent, stopped, known_by = todo.popleft()
        if (stopped, known_by) in seen:
            continue
        seen.add((stopped, known_by))
        watcher.restore(here)
        run, reports = watcher.chart.run, watcher.reports()
        moves = [partial(watcher.report, name) for name in reports]
        moves += [partial(watcher.report, n, threshold_due=True) for n in reports if (run, n) in READ_THRESHOLD]
        if has_extensions:
            moves += [
                partial(watcher.report, name, requested=requested)
                for name in reports
                if (run, name) in READ_REQUESTS
                for requested in REQUESTS[1:]
            ]
        moves += [partial(watcher.end_shell)] if watcher.shells else []
        moves += [partial(watcher.end_command)] if watcher.commands else []
        moves += [partial(watcher.begin_instance)] if has_extensions and watcher.can_begin_instance else []
        moves += [partial(watcher.reach_limit)] if watcher.can_reach_limit else []
        stops = [partial(watcher.step, InternalEvent(name)) for name in ("stop_abort", "stop_drain")]
        sends = [partial(watcher.step, make(name, sent + 1, option)) for name, option in searched]
        is_full = len(watcher.chart.state.steering) + len(watcher.chart.state.follow_up) >= max_queued
        closed = barrier(watcher.chart._context)  # pyright: ignore[reportPrivateUsage]
        guards = repr((watcher.chart.configuration, closed, len(watcher.shells), is_full))
        every: list[Callable[[], None]] = []
        if not (guards in tried or watcher.closed or stopped):
            every = [partial(watcher.step, make(name, sent + 1, n)) for name in ALL_COMMANDS for n in range(3)]
            every += [partial(watcher.step, InternalEvent("instance_began", enabled=has_extensions))]
            every += [partial(watcher.add_custom, name, sent + 1) for name in ("steer", "follow_up")]
            every += [partial(watcher.step, InternalEvent(name)) for name in ("queue_restored", "queue_announced")]
            every += [partial(watcher.step, InternalEvent("queue_restored", enabled=True))]
        tried.add(guards)
        for move in (*moves, *stops, *every, *(sends if sent < commands and not stopped else ())):
            watcher.restore(here)
            watcher.taken.clear()
            move()
            if (met := (*here[0].values(), *map(id, watcher.taken))) not in met_before:
                met_before.add(met)
                reached.update(watcher.taken)
                check_by_the_machines(watcher, machines, here, move)
            next_sent, next_stopped = sent + (move in sends), stopped or move in stops
            if move in every:
                continue
            if (next_stopped, found := fingerprint(watcher)) not in seen:
                put = todo.append if next_sent > sent else todo.appendleft
                put((watcher.snapshot(), next_sent, next_stopped, found))
    return reached


def check_by_the_machines(watcher: Watcher, machines: Chart, here: Snapshot, move: Callable[[], None]) -> None:
    """Take a move once more with the machines, which must take the same rows. Leaves the watcher as it was."""
    quick, behind, taken = watcher.chart, watcher.snapshot(), list(watcher.taken)
    watcher.chart = machines
    watcher.restore(here)
    watcher.taken.clear()
    move()
    assert (watcher.taken, machines.configuration) == (taken, behind[0])
    watcher.chart = quick
    watcher.restore(behind)


@pytest.mark.slow
def test_every_row_is_reached_and_every_promise_kept_within_a_few_commands() -> None:
    """The table has no dead row, and no short conversation breaks a promise, whatever the jobs report."""
    reached = set[Transition]().union(
        explore(SEARCHED_COMMANDS, SEARCHED),
        explore(SEARCHED_COMMANDS - 1, SEARCHED_WITH_EXTENSIONS, has_extensions=True),
        explore(SEARCHED_COMMANDS, SEARCHED_LINES, has_extensions=True),
        explore(SEARCHED_COMMANDS + 1, SEARCHED_COMPACTIONS, has_extensions=True),
        explore(SEARCHED_COMMANDS, SEARCHED_CANCELLED, has_extensions=True),
        explore(SEARCHED_COMMANDS - 1, SEARCHED_SHELLS, has_extensions=True),
        explore(SEARCHED_COMMANDS, SEARCHED_RETURNED, has_extensions=True),
        explore(SEARCHED_COMMANDS, SEARCHED_MOVES),
        explore(SEARCHED_COMMANDS + 1, SEARCHED_MOVES_READ, has_extensions=True),
        explore(SEARCHED_COMMANDS, SEARCHED_MOVES_BESIDE, has_extensions=True),
        explore(SEARCHED_COMMANDS - 1, SEARCHED_MOVES_FULL, max_queued=0),
        explore(SEARCHED_COMMANDS, SEARCHED_RELOADS),
        explore(SEARCHED_COMMANDS - 1, SEARCHED_RELOADS_BESIDE, has_extensions=True),
        explore(SEARCHED_COMMANDS, SEARCHED_FULL, max_queued=1),
        explore(SEARCHED_COMMANDS - 1, SEARCHED_TEXTS, has_extensions=True, max_queued=0),
    )

    coverage.note_rows(row_name(row) for row in reached)
    assert [] == [row for row in CHART if row not in reached]
