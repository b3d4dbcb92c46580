"""Generates the Promela models from the chart's rows.

Which row fires in which state on which trigger, in which order, with which target and effects, comes from the rows;
bodies of guards and actions, the environment and the monitors are written by hand (`promela_actions`,
`promela_environment`, `promela_state`, `promela_tools`, `promela_shells`). A step is one trigger with all that follows
from it, as in the statechart package: nothing happens in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pinnace_spec.generate.promela import environment
from pinnace_spec.generate.promela.actions import ACTIONS, GUARDS
from pinnace_spec.generate.promela.names import EXCLUDED, SETS, CommandSet, state_name, trigger_name, variable
from pinnace_spec.generate.promela.properties import ASSERTED, ModelName, claims
from pinnace_spec.generate.promela.rows import (
    Bodies,
    PromelaError,
    check_names,
    definitions,
    dispatch,
    table,
    triggers_of,
)
from pinnace_spec.generate.promela.shells import SHELLS
from pinnace_spec.generate.promela.state import HELPERS, MONITORS, PRELUDE, STATE
from pinnace_spec.generate.promela.tools import TOOLS
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.statechart.names import STOPPING
from pinnace_spec.statechart.transitions import ALWAYS, INITIAL, JOB_TRIGGERS, REGIONS, STATES, Transition

BODIES: Final = Bodies(GUARDS, ACTIONS)
MAX_CLAIMED_COMMANDS: Final = 6


RUN: Final = environment.Parts("conversation, queues, abort, retry, compaction, sessions", "", "", (), SETS)
_PARTS: Final[Mapping[ModelName, environment.Parts]] = {"run": RUN, "tools": TOOLS, "shells": SHELLS}


def sets_of(model: ModelName) -> Mapping[str, CommandSet]:
    """Return the command sets of a model; a search is compiled with the number of one, in this order."""
    return _PARTS[model].sets


def model_text(model: ModelName, rows: Sequence[Transition], bodies: Bodies = BODIES) -> str:
    """Return the Promela text of a model.

    Raises:
        PromelaError: The rows have a guard, an effect or a trigger that the models have no words for.
    """
    check_names(rows, bodies)
    extra = _PARTS[model]
    reports = (*(each for each in environment.REPORTS if each.trigger not in extra.instead), *extra.reports)
    _check_triggers(rows, reports)
    return "\n".join(
        (
            f"/* {NOTE}",
            f"   Model {model}: {extra.title}.",
            "   spin -a -DN=commands -DSET=number; see docs/model-checking.md. Properties: properties.toml. */",
            extra.before,
            PRELUDE,
            _flags(extra.sets),
            _names(rows),
            STATE,
            environment.CHOOSE,
            extra.state,
            MONITORS,
            HELPERS,
            definitions(rows, bodies),
            dispatch(rows),
            environment.ARRIVAL,
            _client(extra.sets),
            _agent(rows, reports),
            "#ifdef CLAIMS",
            *(f"#if N == {n}\n{claims(n)}\n#endif" for n in range(1, MAX_CLAIMED_COMMANDS + 1)),
            "#endif",
            "",
        )
    )


def _check_triggers(rows: Sequence[Transition], reports: Iterable[environment.JobReport]) -> None:
    known = {each.trigger for each in reports} | {name for names in environment.CANCELLED.values() for name in names}
    known |= {sent.trigger for parts in _PARTS.values() for each in parts.sets.values() for sent in each.sent}
    known |= {*EXCLUDED, *environment.CAUSED_INSIDE, "stop_abort", "stop_drain"}
    missing = [name for name in (*triggers_of(rows), *JOB_TRIGGERS) if name not in known]
    if missing:
        raise PromelaError(
            f"triggers neither modelled nor excluded: {', '.join(dict.fromkeys(missing))}"
            " (pinnace_spec.generate.promela.names, promela_environment)"
        )


def _flags(sets: Mapping[str, CommandSet]) -> str:
    lines = ["#ifndef SET", "#define SET 0", "#endif"]
    for number, (name, chosen) in enumerate(sets.items()):
        lines.append(f"#if SET == {number} /* {name} */")
        for flag in chosen.flags:
            lines += [f"#undef {flag}", f"#define {flag} 1"]
        lines.append("#endif")
    return "\n".join(lines)


def _names(rows: Sequence[Transition]) -> str:
    lines: list[str] = []
    for region in REGIONS:
        names = [state_name(region, state) for state in STATES[region]]
        lines.append(f"mtype = {{ {', '.join(names)} }};")
        lines.append(f"mtype {variable(region)} = {state_name(region, INITIAL[region])};")
    stopping = " || ".join(f"RUN == {state_name('run', state)}" for state in STOPPING)
    lines.append(f"#define STOPPING ({stopping})")
    triggers = [trigger_name(name) for name in triggers_of(rows) if name not in EXCLUDED]
    lines.append(f"mtype = {{ {', '.join(triggers)} }};")
    lines.append(f"mtype = {{ {', '.join(f'p_{each.name}' for each in ASSERTED)} }};")
    return "\n".join(lines)


def _client(sets: Mapping[str, CommandSet]) -> str:
    lines = ["/* The client sends any command of its set. */", "inline command() {", "if"]
    for number, chosen in enumerate(sets.values()):
        lines.append(f"#if SET == {number}")
        for sent in chosen.sent:
            option = f"; o = {sent.option}" if sent.option else ""
            lines.append(f":: t = {trigger_name(sent.trigger)}{option}")
        lines.append("#endif")
    return "\n".join([*lines, "fi }", ""])


def _agent(rows: Sequence[Transition], reports: Sequence[environment.JobReport]) -> str:
    offers = "; ".join(f"offer_{region}()" for region in REGIONS)
    eventless = [f"eventless_{region}()" for region in reversed(REGIONS)]
    tries = "; ".join([eventless[0], *(f"if :: fired == 0 -> {each} :: else fi" for each in eventless[1:])])
    return "\n".join(
        (
            "inline next() {",
            "  t = rt; o = ro; id = rid; rd = rr;",
            "  rt = 0; ro = 0; rid = 0; rr = false; due = false; fired = 0 }",
            "",
            "active proctype agent() {",
            "#if MODES",
            "if :: alls = 0 :: alls = 1 fi; if :: allf = 0 :: allf = 1 fi;",
            "#endif",
            'SAY("modes %d %d\\n", alls, allf);',
            "do",
            ":: atomic {",
            "   if",
            "   /* the client, a limit, the end of input, a signal */",
            "   :: sent < N && IO == io_open && (CALM || fresh) ->",
            "      fresh = REPLAY; sent++; id = sent; command(); arrive()",
            "   :: IO == io_open && CALM -> t = t_stop_abort; blocked = true; blockedby = N + 1",
            "   :: IO == io_open && CALM -> t = t_stop_drain",
            "   :: SECOND && IO == io_draining && !second -> second = true; t = t_stop_abort; blocked = true;"
            " blockedby = N + 1",
            "   :: LIMIT && !limited && period && RUN != run_idle && !STOPPING && RUN != run_switching ->",
            "      limited = true; t = t_abort; blocked = true; blockedby = sent",
            "   /* jobs, shells */",
            *(f"   {line}" for line in _options(reports)),
            "   /* a job that was cancelled */",
            *(f"   {line}" for line in _cancelled(rows)),
            "   fi;",
            '   if :: t != 0 -> SAY("> %e %d %d %d %d\\n", t, o, id, due, CALM) :: else fi;',
            "   do",
            f"   :: t != 0 -> {offers};",
            "      d_step { HOLDS(total, fired > 0); next() }",
            f"   :: else -> {tries};",
            "      if :: fired == 0 -> break :: else -> d_step { next() } fi",
            "   od }",
            ":: IO == io_closed -> break",
            "od }",
            "",
        )
    )


def _options(reports: Iterable[environment.JobReport]) -> list[str]:
    lines: list[str] = []
    for each in reports:
        first = f"{each.first}; " if each.first else ""
        if not each.trigger:
            lines.append(f":: {each.when} -> {each.first}")
            continue
        always = "" if each.is_playable else "!REPLAY && "
        lines.append(f":: {always}{each.when} -> {first}fresh = false; t = {trigger_name(each.trigger)}")
        if each.with_due:
            lines.append(
                f":: !REPLAY && autocompact && {each.when} -> {first}due = true; t = {trigger_name(each.trigger)}"
            )
    return lines


def _cancelled(rows: Sequence[Transition]) -> list[str]:
    doing = table(rows, "run")
    lines: list[str] = []
    for job, names in environment.CANCELLED.items():
        unwinds_in = [state for state in STOPPING if all(state in doing[name] for name in names)]
        seen: list[object] = []
        unwound = " && TOOLS_UNWOUND" if job == "j_run" else ""
        for name in names:
            what = [doing[name][state] for state in unwinds_in]
            if what not in seen:
                seen.append(what)
                always = "" if name == "job_ended" else "!REPLAY && "
                lines.append(
                    f":: {always}STOPPING && job == {job}{unwound} ->"
                    f" fresh = false; JOB_CANCELLED; job = j_none; t = {trigger_name(name)}"
                )
    return lines


def run_model(spec: Spec) -> str:
    """Return `model/run.pml`."""
    return model_text("run", spec.rows)


def tools_model(spec: Spec) -> str:
    """Return `model/tools.pml`."""
    return model_text("tools", spec.rows)


def shells_model(spec: Spec) -> str:
    """Return `model/shells.pml`."""
    return model_text("shells", spec.rows)


__all__ = ["ALWAYS", "BODIES", "model_text", "run_model", "sets_of", "shells_model", "tools_model"]
