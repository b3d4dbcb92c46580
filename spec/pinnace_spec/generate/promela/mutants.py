"""Faults for the models: a changed row or body each, and the property that must find it.

They show that the models' properties bite. A fault that changes nothing (its row or its text is gone) is an error, so
that the list can't outlive the chart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_spec.generate.promela.promela import BODIES, model_text
from pinnace_spec.generate.promela.properties import ModelName
from pinnace_spec.generate.promela.rows import Bodies, PromelaError
from pinnace_spec.statechart.transitions import ALWAYS, Transition

_Change = Callable[[Transition], Transition | None]


class Mutant(NamedTuple):
    """A fault; searched with `commands` commands of the set `chosen` it breaks `property`."""

    name: str
    text: str
    property: str
    chosen: str = "core"
    commands: int = 3
    model: ModelName = "run"
    change: _Change | None = None
    """What each row becomes; None leaves it out."""
    bodies: Mapping[str, tuple[str, str]] = {}
    """Old and new text within a body."""
    guards: Mapping[str, str] = {}
    """Guards that only the changed rows have, and their bodies."""


def mutated(mutant: Mutant, rows: Sequence[Transition]) -> str:
    """Return the model's text with the fault in it.

    Raises:
        PromelaError: It changes nothing.
    """
    changed = tuple(rows)
    if mutant.change is not None:
        changed = tuple(row for row in map(mutant.change, rows) if row is not None)
        if changed == tuple(rows):
            raise PromelaError(f"mutant {mutant.name} changes no row")
    actions = dict(BODIES.actions)
    for name, (old, new) in mutant.bodies.items():
        if old not in actions.get(name, ""):
            raise PromelaError(f"mutant {mutant.name}: the body of {name} has changed")
        actions[name] = actions[name].replace(old, new)
    return model_text(mutant.model, changed, Bodies({**BODIES.guards, **mutant.guards}, actions))


def _drop(effect: str, trigger: str = "", source: str = "") -> _Change:
    """Leave an effect out, everywhere or in the rows of a trigger, a source."""
    return lambda row: (
        row._replace(effects=tuple(each for each in row.effects if each != effect))
        if _fits(row, trigger, source)
        else row
    )


def _fits(row: Transition, trigger: str, source: str) -> bool:
    return trigger in {"", row.trigger} and source in {"", row.source}


def _insert(effect: str, index: int, trigger: str, source: str) -> _Change:
    """Put an effect into a row."""
    return lambda row: (
        row._replace(effects=(*row.effects[:index], effect, *row.effects[index:]))
        if _fits(row, trigger, source)
        else row
    )


def _swap(first: str, second: str, trigger: str) -> _Change:
    """Exchange two effects."""

    def change(row: Transition) -> Transition:
        if row.trigger != trigger or not {first, second} <= set(row.effects):
            return row
        other = {first: second, second: first}
        return row._replace(effects=tuple(other.get(each, each) for each in row.effects))

    return change


def _without(trigger: str, guard: str) -> _Change:
    """Leave rows out."""
    return lambda row: None if (row.trigger, row.guard) == (trigger, guard) else row


def _idle_at_abort(row: Transition) -> Transition:
    """An abort that does not wait for the job's end."""
    if row.trigger == "abort" and row.source in {"llm", "tools"} and row.target == "stopping.run":
        kept = tuple(each for each in row.effects if each != "cancel_job")
        return row._replace(target="idle", effects=(*kept, "settle", "answer_aborts"))
    return row


def _texts_overtake(row: Transition) -> Transition:
    """Texts that wait for a save and a question, but not for a session command behind which they came."""
    is_of_texts = row.guard == "barrier" and row.trigger in {"steer", "follow_up"}
    return row._replace(guard="saving_or_asking") if is_of_texts else row


def _recorded_at_once(row: Transition) -> Transition:
    """What a shell has said is recorded whatever works."""
    return row._replace(effects=("record_shell",)) if row.effects == ("keep_shell",) else row


def _compact_unanswered(row: Transition) -> Transition:
    """A compaction that is cut short answers no command."""
    if row.trigger != "job_ended":
        return row
    return row._replace(effects=tuple(each for each in row.effects if not each.startswith("refuse_compact")))


MUTANTS: Final = (
    Mutant(
        "held_at_admission",
        "A prompt's arrival lifts the hold, not its acceptance.",
        "silence",
        "queues",
        4,
        change=_insert("resume_queue", 0, "prompt", "idle"),
    ),
    Mutant(
        "compact_ignores_held",
        "A compaction's end starts what an abort parked.",
        "silence",
        "core",
        4,
        change=_insert("resume_queue", 0, "compaction_ok", "compacting.manual"),
    ),
    Mutant("hold_forgotten", "An abort parks nothing.", "silence", bodies={"admit_abort": ("held = (o != 2)", "skip")}),
    Mutant(
        "abort_leaves_line",
        "An abort answers nothing of what waits.",
        "silence",
        "barriers",
        4,
        change=_drop("withdraw_waiting", "abort"),
    ),
    Mutant("idle_at_abort", "An abort does not wait for the job's end.", "settled_closed", change=_idle_at_abort),
    Mutant(
        "settle_always",
        "The agent settles although texts are owed.",
        "nothing_after_settled",
        "queues",
        bodies={"settle": ("period && !OWED && !SETTLE_HOOK_DUE", "period")},
    ),
    Mutant(
        "settle_late",
        "An abort is answered before the agent has settled.",
        "abort_after_settled",
        change=_swap("settle", "answer_aborts", "job_ended"),
    ),
    Mutant(
        "texts_overtake",
        "Texts overtake a session command that waits.",
        "withdraws_earlier",
        "barriers",
        change=_texts_overtake,
        guards={"saving_or_asking": "(saving || asking)"},
    ),
    Mutant(
        "line_backwards",
        "What waits is taken last come, first served.",
        "fifo",
        "barriers",
        4,
        bodies={
            "admit_deferred": (
                "line?rt, ro, rid",
                "k = len(line) - 1; do :: k > 0 -> k--; line?y, z, x; line!y, z, x :: else -> break od;"
                " y = 0; z = 0; x = 0; line?rt, ro, rid",
            )
        },
    ),
    Mutant(
        "read_overtaken",
        "A text that extensions have read during an abort waits behind those that came after it.",
        "fifo",
        "extensions",
        4,
        change=_without("text_read", "has_deferred"),
    ),
    Mutant(
        "line_stuck", "What waits is never taken.", "deadlock", "barriers", change=_without(ALWAYS, "deferred_ready")
    ),
    Mutant(
        "owed_forgotten",
        "Queued texts are not delivered when a run has ended.",
        "idle_is_empty_or_held",
        change=_without(ALWAYS, "has_deliverable"),
    ),
    Mutant(
        "empty_continuation",
        "A run without a prompt delivers nothing.",
        "closes",
        change=_drop("deliver_continuation"),
    ),
    Mutant("threshold_again", "A preflight compacts as often as it likes.", "closes", change=_drop("check_threshold")),
    Mutant(
        "overflow_again",
        "An overflow is answered by compacting, again and again.",
        "closes",
        bodies={"compaction_overflow": ("ovf = true", "skip")},
    ),
    Mutant(
        "abort_unanswered",
        "An abort during a run has no answer.",
        "answered_once",
        change=_drop("answer_aborts", "job_ended"),
    ),
    Mutant(
        "compact_unanswered",
        "A compact that is cut short has no answer.",
        "answered_once",
        change=_compact_unanswered,
    ),
    Mutant(
        "turn_before_message",
        "A turn ends before its message.",
        "brackets",
        change=_swap("end_message", "end_turn", "llm_stop"),
    ),
    Mutant(
        "retry_left_open",
        "A final error leaves the retry bracket open.",
        "settled_closed",
        "retries",
        change=_drop("retry_failed", "llm_fatal"),
    ),
    Mutant(
        "answered_before_saved",
        "A prompt is answered before its text is saved.",
        "saved_first",
        change=_insert("accept_prompt", 0, "preflight_ok", "preflight"),
    ),
    Mutant(
        "refused_but_saved",
        "A refused prompt leaves its text in the branch.",
        "saved_first",
        change=_drop("drop_prompt"),
    ),
    Mutant(
        "stop_holds_nothing",
        "The end of input lets queued texts run.",
        "silence",
        change=_drop("pause_queue", "stop_abort"),
    ),
    Mutant(
        "record_in_run",
        "A shell's record is put between a call and its result.",
        "records_between_runs",
        "shells",
        change=_recorded_at_once,
    ),
    Mutant(
        "results_forgotten",
        "A turn ends without the results of its calls.",
        "brackets",
        "abort",
        model="tools",
        change=_drop("end_tools"),
    ),
    Mutant(
        "results_twice",
        "The results of a turn are reported when its calls begin.",
        "ends_once",
        "abort",
        model="tools",
        bodies={"call_tools": ("TOOLS_START", "TOOLS_START; start_one(); TOOLS_END")},
    ),
    Mutant(
        "cut_run_left_open",
        "An abort during tools closes nothing.",
        "settled_closed",
        "abort",
        model="tools",
        change=_drop("close_run", "job_ended"),
    ),
    Mutant(
        "shells_survive",
        "abort_bash kills nothing.",
        "kill_only_living",
        "shells",
        model="shells",
        change=_drop("kill_shells", "abort_bash"),
    ),
    Mutant(
        "waiting_shells_survive",
        "abort_bash leaves the shells that wait.",
        "kill_only_living",
        "shells",
        model="shells",
        change=_drop("withdraw_bash"),
    ),
    Mutant(
        "dialogs_survive",
        "A dialog stays open at the end of input.",
        "dialog_none_after_stop",
        "dialogs",
        model="shells",
        change=_drop("close_dialogs"),
    ),
)


def mutants() -> tuple[Mutant, ...]:
    """Return every fault."""
    return MUTANTS
