"""The properties that the searches of the models check, each with the rules that it proves.

An assertion is named where it is made (`HOLDS(name, …)`); a formula is a claim of its own, with a search of its own.
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
    Property(
        "one_fate", "A message is delivered once, or returned once, or rejected.", ("R-QUE-01", "R-QUE-10", "C-13")
    ),
    Property(
        "never_lost",
        "When the process ends, every accepted message was delivered or returned, or is queued.",
        ("C-2", "C-16", "R-EOF-01"),
    ),
    Property(
        "fifo", "Messages of one queue are delivered in the order of their arrival.", ("R-QUE-03", "R-QUE-04", "C-4")
    ),
    Property(
        "withdraws_earlier", "A command withdraws only messages that arrived before it.", ("R-QUE-09", "C-7", "C-10")
    ),
    Property(
        "saved_first",
        "A prompt is answered after its message was saved, and a rejected one leaves no message.",
        ("R-SES-05", "C-13"),
    ),
    Property("silence", "After an abort nothing runs until a later message is accepted.", ("C-1", "C-7", "C-9")),
    Property("nothing_after_settled", "After agent_settled nothing starts by itself.", ("C-8",)),
    Property(
        "settled_closed", "agent_settled is written when every bracket is closed and no job is active.", ("C-8", "C-15")
    ),
    Property(
        "abort_closes", "An abort is answered when every bracket is closed and no job is active.", ("C-6", "C-15")
    ),
    Property("abort_before_run", "An abort is answered before another run begins.", ("C-6", "C-7")),
    Property("abort_after_settled", "An abort is answered after agent_settled, unless a run follows.", ("C-6", "C-8")),
    Property("brackets", "Runs, turns, messages, tools and compactions nest.", ("C-15", "R-RUN-01", "R-RUN-03")),
    Property(
        "one_job", "At most one job works on the conversation, and only an active one is cancelled.", ("C-6", "C-13")
    ),
    Property("continuation", "A run without a prompt delivers at least one queued message.", ("C-3",)),
    Property(
        "records_between_runs", "The entry of a shell command is not put between a call and its result.", ("R-BSH-03",)
    ),
    Property("one_raised", "A step raises at most one trigger at a time.", ("R-ORD-01",)),
    Property("total", "Every trigger has a transition in every state.", ("R-ORD-01",)),
    Property(
        "closed_clean",
        "The process exits without an active job, an open bracket, a running shell or an unanswered command.",
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
        "A call that started ends once, before the results, also if it is cancelled.",
        ("R-RUN-09", "C-15"),
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
        "A dialog has exactly one outcome; late answers change nothing.",
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
    Property("settles", "Every streaming interval ends.", ("C-8", "C-2"), "[] (period -> <> !period)"),
    Property(
        "closes",
        "The process can always end: there is no infinite sequence of steps.",
        ("C-16", "C-17"),
        "<> (IO == io_closed)",
    ),
    Property(
        "answers", "Every command is eventually answered.", ("R-RSP-01", "C-9"), "[] (sent >= # -> <> answered[#])"
    ),
    Property(
        "delivers",
        "A queued message is eventually delivered, returned, or visibly paused while the agent is idle.",
        ("C-1", "C-2", "C-3"),
        "[] ((fate[#] == 2 || fate[#] == 3) -> <> (fate[#] == 4 || (RUN == run_idle && held)))",
    ),
    Property(
        "idle_is_empty_or_held",
        "While the agent is idle, both queues are empty or paused.",
        ("C-2",),
        "[] (RUN != run_idle || held || (len(qs) == 0 && len(qf) == 0))",
    ),
    Property(
        "idle_is_settled",
        "While the agent is idle, the streaming interval is over, or a message that continues it is being saved.",
        ("C-8", "R-QUE-12"),
        "[] (RUN != run_idle || !period || saving)",
    ),
    Property(
        "quiet_after_abort",
        "Between the response to an abort and the next accepted message no run is open.",
        ("C-1", "C-6"),
        "[] (!(blocked && len(aborts) == 0 && !STOPPING && IO == io_open) || !ag)",
    ),
    Property(
        "aborts_answered",
        "An abort is eventually answered.",
        ("C-6", "C-7"),
        "[] (len(aborts) > 0 -> <> (len(aborts) == 0))",
    ),
    Property(
        "nesting",
        "A message is open only in a turn, a turn only in a run, a compaction only outside runs.",
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
        "# The properties of the models. One without a formula is an assertion; a formula is a claim of Spin.",
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
