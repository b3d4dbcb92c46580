"""The properties that the models are searched for, each with the rules that it proves.

An assertion is named where it stands (`HOLDS(name, …)`); a formula is a claim of its own that one search looks for.
`#` in a formula is the number of a command: the claim is made for each.
"""

import json
from typing import Final, Literal, NamedTuple, TypeAlias

from pinnace_spec.generate.source import NOTE, Spec

ModelName: TypeAlias = Literal["run", "tools", "shells"]
MODELS: Final[tuple[ModelName, ...]] = ("run", "tools", "shells")


class Property(NamedTuple):
    """One thing that never happens, or always comes; `formula` is empty where assertions say it."""

    name: str
    text: str
    rules: tuple[str, ...]
    formula: str = ""
    models: tuple[ModelName, ...] = MODELS


ASSERTED: Final = (
    Property("answered_once", "Every command has exactly one answer.", ("R-RSP-01", "C-9", "C-16")),
    Property("one_fate", "A text is delivered once, or returned once, or refused.", ("R-QUE-01", "R-QUE-10", "C-13")),
    Property(
        "never_lost", "When the process ends no accepted text is left without a fate.", ("C-2", "C-16", "R-EOF-01")
    ),
    Property(
        "fifo", "Texts of one queue are delivered in the order in which they came.", ("R-QUE-03", "R-QUE-04", "C-4")
    ),
    Property("withdraws_earlier", "What a command withdraws came before it.", ("R-QUE-09", "C-7", "C-10")),
    Property(
        "saved_first",
        "A prompt is answered after its text was saved, and a refused one leaves no text.",
        ("R-SES-05", "C-13"),
    ),
    Property("silence", "After an abort nothing runs until a text that came later is accepted.", ("C-1", "C-7", "C-9")),
    Property("nothing_after_settled", "After agent_settled nothing starts by itself.", ("C-8",)),
    Property("settled_closed", "agent_settled comes when every bracket is closed and no job lives.", ("C-8", "C-15")),
    Property("abort_closes", "An abort is answered when every bracket is closed and no job lives.", ("C-6", "C-15")),
    Property("abort_before_run", "An abort is answered before another run begins.", ("C-6", "C-7")),
    Property("abort_after_settled", "An abort is answered after agent_settled, unless a run follows.", ("C-6", "C-8")),
    Property("brackets", "Runs, turns, messages, tools and compactions nest.", ("C-15", "R-RUN-01", "R-RUN-03")),
    Property(
        "one_job", "At most one job works on the conversation, and only a living one is cancelled.", ("C-6", "C-13")
    ),
    Property("continuation", "A run without a prompt delivers at least one queued text.", ("C-3",)),
    Property("records_between_runs", "The record of a shell is not put between a call and its result.", ("R-BSH-03",)),
    Property("one_raised", "A step raises at most one trigger at a time.", ("R-ORD-01",)),
    Property("total", "Every trigger has a row in every state.", ("R-ORD-01",)),
    Property(
        "closed_clean",
        "The process leaves with no job, bracket, shell or waiting command.",
        ("C-16", "C-17", "R-EOF-01"),
    ),
    Property(
        "results_in_order",
        "Results of parallel calls are reported in call order, one each.",
        ("R-RUN-03", "C-15"),
        models=("tools",),
    ),
    Property("starts_in_order", "Parallel calls start in call order, each once.", ("R-RUN-02",), models=("tools",)),
    Property(
        "ends_once",
        "A call that started ends once, before the results, also when it is cut short.",
        ("R-RUN-02", "C-15"),
        models=("tools",),
    ),
    Property(
        "shell_answered_after_end",
        "A shell is answered when its process has ended, killed or not.",
        ("R-BSH-04", "C-16"),
        models=("shells",),
    ),
    Property(
        "kill_only_living",
        "abort_bash ends every shell that runs, and none that starts later.",
        ("R-BSH-02", "C-9"),
        models=("shells",),
    ),
    Property(
        "record_once",
        "A shell is recorded once, in the session in which it was admitted.",
        ("R-BSH-03", "C-10"),
        models=("shells",),
    ),
    Property(
        "dialog_once",
        "A dialog has exactly one outcome; answers that come late change nothing.",
        ("R-UI-01", "R-UI-02"),
        models=("shells",),
    ),
    Property(
        "dialog_none_after_stop",
        "After the end of input no dialog is open, and none opens.",
        ("R-UI-02", "C-16", "C-17"),
        models=("shells",),
    ),
)

CLAIMED: Final = (
    Property("settles", "A period ends.", ("C-8", "C-2"), "[] (period -> <> !period)"),
    Property(
        "closes",
        "Whatever happens, the process can end: there is no endless run of steps.",
        ("C-16", "C-17"),
        "<> (IO == io_closed)",
    ),
    Property(
        "answers", "Every command is answered some time.", ("R-RSP-01", "C-9"), "[] (sent >= # -> <> answered[#])"
    ),
    Property(
        "delivers",
        "A queued text is delivered, returned, or visibly held while idle.",
        ("C-1", "C-2", "C-3"),
        "[] ((fate[#] == 2 || fate[#] == 3) -> <> (fate[#] == 4 || (RUN == run_idle && held)))",
    ),
    Property(
        "idle_is_empty_or_held",
        "Idle means that both queues are empty, or held.",
        ("C-2",),
        "[] (RUN != run_idle || held || (len(qs) == 0 && len(qf) == 0))",
    ),
    Property(
        "idle_is_settled",
        "Idle means that the period is over, or that a text which goes on with it is being saved.",
        ("C-8", "R-QUE-12"),
        "[] (RUN != run_idle || !period || saving)",
    ),
    Property(
        "quiet_after_abort",
        "Between an abort's answer and the next accepted text no run is open.",
        ("C-1", "C-6"),
        "[] (!(blocked && len(aborts) == 0 && !STOPPING && IO == io_open) || !ag)",
    ),
    Property(
        "aborts_answered", "An abort is answered.", ("C-6", "C-7"), "[] (len(aborts) > 0 -> <> (len(aborts) == 0))"
    ),
    Property(
        "nesting",
        "A message is open only in a turn, a turn only in a run, a compaction only outside of runs.",
        ("C-15",),
        "[] ((!ms || tu) && (!to || tu) && (!tu || ag) && (!cb || !ag))",
    ),
)

PROPERTIES: Final = (*ASSERTED, *CLAIMED)


def properties(model: ModelName | None = None) -> tuple[Property, ...]:
    """Return the properties of a model, or of all, each with the rules that it proves."""
    return tuple(each for each in PROPERTIES if model is None or model in each.models)


def properties_file(_spec: Spec) -> str:
    """Return `model/properties.toml`: every property by its name, with what it says and proves."""
    lines = [
        f"# {NOTE}",
        "# What the models are searched for. An assertion stands in the text; a formula is a claim of Spin's.",
    ]
    for each in PROPERTIES:
        lines += ["", f"[{each.name}]", f"text = {_quoted(each.text)}"]
        lines.append(f"rules = [{', '.join(map(_quoted, each.rules))}]")
        lines.append(f"models = [{', '.join(map(_quoted, each.models))}]")
        if each.formula:
            lines.append(f"formula = {_quoted(each.formula)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def claims(commands: int) -> str:
    """Print the formulas as Spin's claims, for so many commands."""
    return "\n".join(f"ltl {each.name} {{ {_formula(each, commands)} }}" for each in CLAIMED)


def _formula(each: Property, commands: int) -> str:
    if "#" not in each.formula:
        return each.formula
    return " && ".join(f"({each.formula.replace('#', str(number))})" for number in range(1, commands + 1))
