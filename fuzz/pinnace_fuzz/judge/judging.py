"""Judges what was played: the scenario's expressions, the specification's observers, how the process ended.

Pure but for its arguments: everything is decided from the traces, the model's requests and the steps' own faults.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from pinnace_fuzz.harness.model_server.ledger import ReceivedRequest
from pinnace_fuzz.harness.model_server.short_form import read_response
from pinnace_fuzz.judge.crosschecks import cross_check
from pinnace_fuzz.judge.observing import observe
from pinnace_fuzz.judge.playing.body import ProcessTrace
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import Load
from pinnace_fuzz.judge.playing.play import Played
from pinnace_fuzz.judge.playing.recording import Seen, seen
from pinnace_fuzz.judge.results import CaseResult, Finding, ProcessLog, Shutdown, Verdict
from pinnace_fuzz.judge.scenarios.expression import Expression
from pinnace_fuzz.judge.scenarios.scenario import LlmAnswer, RequestCheck, Scenario
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_fuzz.judge.unasked import is_unasked
from pinnace_spec import data
from pinnace_spec.observers.verdicts import EXIT_S, Level, stretched
from pinnace_spec.profiles.generations import Generation

# What an agent that writes without end breaks: its lines end.
EXCESS_RULES = ("R-FRM-03",)


def judge(played: Played, kit: AgentUnderTest, kind: str = "scenario") -> CaseResult:
    """Judge one case."""
    scenario = played.scenario
    logs = tuple(
        ProcessLog(tuple(trace.recording.steps()), trace.end, tuple(trace.recording.marks), trace.recording.script_end)
        for trace in played.traces
    )
    level = _level(scenario, kit)
    findings = list(_of_script(played, level))
    findings += _of_expressions(scenario, logs, kit, level, is_whole=played.stopped is None)
    findings += _of_model(scenario, played, level)
    armed: Counter[str] = Counter()
    skipped = set(scenario.skip_observers)
    for number, (trace, log) in enumerate(zip(played.traces, logs, strict=True)):
        found, seen_often = observe(
            log,
            trace,
            kit,
            number,
            is_overloaded=played.load.is_overloaded,
            has_extensions=scenario.has_extensions,
        )
        findings += [each for each in found if each.source not in skipped]
        armed.update(seen_often)
    crossed = cross_check(played, logs, kit)
    findings += [each for each in crossed.findings if each.source not in skipped]
    armed.update(crossed.armed)
    shutdown, text = _shutdown(played, kit.patience)
    if shutdown in ("late", "code", "hang") and played.kit_closed_stdin and scenario.exit is not None:
        findings.append(
            Finding(
                "shutdown",
                ("R-EOF-01",),
                text,
                level if shutdown == "code" else "violation",
                is_timed=shutdown == "late",
            )
        )
    verdict, why = _verdict(findings, played)
    return CaseResult(
        scenario,
        kind,
        verdict,
        shutdown,
        text,
        tuple(findings),
        logs,
        dict(armed),
        scenario.cells if played.stopped is None else (),
        played.seconds,
        why=why,
    )


@cache
def _rules() -> Mapping[str, Any]:
    return data.table("rules.toml")


def origin(rule: str) -> str:
    """Say where a rule comes from; invariants and unknown ones are the protocol's."""
    return str(cast("Mapping[str, str]", _rules().get(rule, {})).get("origin", "seed"))


def _level(scenario: Scenario, kit: AgentUnderTest) -> Level:
    """Rules that only this project has set bind only agents that follow it.

    What a scenario expects rests on all of its rules together: one that does not bind is enough.
    """
    is_bound = kit.binds_ours or all(origin(rule) != "ours" for rule in scenario.rules)
    return "violation" if is_bound else "nonstrict"


def _of_script(played: Played, level: Level) -> Iterable[Finding]:
    scenario, stopped = played.scenario, played.stopped
    for number, trace in enumerate(played.traces):
        if trace.recording.excess:
            yield Finding("excess", EXCESS_RULES, trace.recording.excess, "violation", number)
    if stopped is not None and stopped.trouble not in ("unimplemented", "excess"):
        place = f"step {stopped.step + 1}" if stopped.step >= 0 else "behind the last step"
        is_hard = stopped.trouble in ("crash", "hang", "start")
        source = stopped.trouble if is_hard else "step"
        process = max(0, len(played.traces) - 1)
        yield Finding(
            source,
            scenario.rules,
            f"{place}: {stopped.text}",
            "violation" if is_hard else level,
            process,
            is_timed=stopped.trouble != "crash",
        )
    for fault in played.faults:
        yield Finding("state", scenario.rules, fault, level)


def _of_expressions(
    scenario: Scenario, logs: Sequence[ProcessLog], kit: AgentUnderTest, level: Level, *, is_whole: bool
) -> Iterable[Finding]:
    found: list[tuple[int, Seen]] = []
    for number, log in enumerate(logs):
        visible = seen(
            log.steps,
            log.marks,
            log.script_end,
            has_unsaid=kit.generation.has_system_messages,
            is_sandboxed=kit.is_sandboxed,
        )
        found += [(number, each) for each in visible if kit.binds_ours or not _is_unasked(each, scenario)]
    records = [each.record for _, each in found]
    optional = _optional(kit.generation)
    # A stopped script is reported already; records that are missing then are not a second finding.
    for text in scenario.expect if is_whole else ():
        match = Expression(text, optional).match(records)
        if not match.is_match:
            yield _unmatched(text, match.end, match.wanted, found, scenario, level)
    for text in scenario.forbid:
        expression = Expression(text, optional)
        # Without a record of its subject the expression would forbid too much.
        if not _is_told(expression.words, optional):
            continue
        match = expression.match(records)
        if match.is_match:
            process, last = found[match.end - 1] if match.end else (0, Seen({}, 0))
            yield Finding(
                "forbid", scenario.rules, f"there is {text}", level, process, (last.number,) if last.number else ()
            )


def _is_unasked(each: Seen, scenario: Scenario) -> bool:
    return is_unasked(each.record, has_extensions=scenario.has_extensions)


def _is_told(words: Iterable[str], optional: Iterable[str]) -> bool:
    """Say whether a generation writes all that an expression names."""
    return frozenset(optional).isdisjoint(words)


def _optional(generation: Generation) -> tuple[str, ...]:
    names = {
        "settled": "agent_settled",
        "queue": "queue_update",
        "bash_update": "bash_execution_update",
        "compaction_start": "compaction_start",
        "compaction_end": "compaction_end",
    }
    found = [word for short, name in names.items() if name not in generation.written for word in (short, name)]
    if not generation.has_compaction_records:
        found = [word for word in found if not word.startswith("compaction_")]
    return tuple(found)


def _unmatched(
    text: str, end: int, wanted: Sequence[str], found: Sequence[tuple[int, Seen]], scenario: Scenario, level: Level
) -> Finding:
    process, last = found[end - 1] if end else (0, Seen({}, 0))
    place = f"behind line {last.number} ({_kind(last.record)})" if end else "from the beginning"
    says = f"expected {text}; {place} wanted {' or '.join(wanted)}"
    return Finding("expect", scenario.rules, says, level, process, (last.number,) if end else ())


def _kind(record: Mapping[str, Any]) -> str:
    return " ".join(str(part) for part in (record.get("type"), record.get("id") or record.get("command")) if part)


# The model's requests.


def _of_model(scenario: Scenario, played: Played, level: Level) -> Iterable[Finding]:
    for request, answer in _pairs(scenario.llm, played.requests):
        if answer is not None and answer.check is not None:
            for text in request_faults(request.body, answer.check):
                yield Finding("model", scenario.rules, f"request {request.number + 1}: {text}", level)
    if played.unscripted:
        text = f"the model was asked {len(played.requests)} times, which is more than the script has answers for"
        yield Finding("model", scenario.rules, text, "information")


def _pairs(
    answers: Sequence[LlmAnswer], requests: Sequence[ReceivedRequest]
) -> Iterable[tuple[ReceivedRequest, LlmAnswer | None]]:
    """Find which answer each request got: the first that matches and is not used up."""
    left = [[read_response(each.answer, 0), each, 0] for each in answers]
    for request in requests:
        taken = None
        for entry in left:
            response = cast("Any", entry[0])
            if response.match is None or response.match.search(request.text):
                taken = cast("LlmAnswer", entry[1])
                entry[2] = cast("int", entry[2]) + 1
                if entry[2] == response.repeat:
                    left.remove(entry)
                break
        yield request, taken


def request_faults(body: Mapping[str, Any], check: RequestCheck) -> list[str]:
    """Return how a request differs from the script's expectation."""
    messages = cast("Sequence[Mapping[str, Any]]", body.get("messages") or body.get("input") or [])
    faults: list[str] = []
    if check.last_user is not None:
        users = [text_of_content(each.get("content")) for each in messages if each.get("role") == "user"]
        if not users or users[-1] != check.last_user:
            faults.append(
                f"the last user's text is {json.dumps(users[-1] if users else None)}, not {json.dumps(check.last_user)}"
            )
    roles = [str(each.get("role")) for each in messages if each.get("role") not in ("system", "developer")]
    if check.roles is not None and tuple(roles) != check.roles:
        faults.append(f"the roles are {' '.join(roles)}, not {' '.join(check.roles)}")
    whole = "\n".join(_texts(messages))
    faults += [f"{each!r} is not in it" for each in check.has if each not in whole]
    faults += [f"{each!r} is in it" for each in check.lacks if each in whole]
    return faults


def text_of_content(content: Any) -> str:
    """Join the texts of a message's content, of any vendor."""
    if isinstance(content, str):
        return content
    parts = [as_object(part) or {} for part in as_list(content) or ()]
    return "".join(str(part.get("text", "")) for part in parts)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, Any]", value).values():
            yield from _texts(each)
    else:
        for each in as_list(value) or ():
            yield from _texts(each)


# Verdicts.


def _shutdown(played: Played, patience: float) -> tuple[Shutdown, str]:
    if not played.traces:
        return "none", "no process"
    trace: ProcessTrace = played.traces[-1]
    end = trace.end
    if played.stopped is not None and played.stopped.trouble == "crash":
        return "crash", f"ended by itself with {end.code}"
    if end.how == "hang":
        return "hang", f"did not exit after the end of stdin and was killed; last line: {_last(trace)}"
    if end.how in ("killed", "open"):
        return "killed", "killed"
    if trace.left_behind:
        return "leftovers", f"{trace.left_behind} processes outlived it"
    wanted = played.scenario.exit
    if played.kit_closed_stdin and wanted is not None and end.code != wanted:
        return "code", f"exit code {end.code}, not {wanted}, behind the end of stdin"
    if end.seconds > stretched(EXIT_S, patience):
        return "late", f"exit {end.seconds:.1f} s behind the end of stdin"
    return "clean", f"exit {end.code} in {end.seconds:.2f} s"


def _last(trace: ProcessTrace) -> str:
    lines = [line for line in trace.recording.lines if line.direction == "out"]
    return lines[-1].data[:120].decode("utf-8", "replace") if lines else "none"


def _verdict(findings: Sequence[Finding], played: Played) -> tuple[Verdict, str]:
    stopped = played.stopped
    if stopped is not None and stopped.trouble == "unimplemented":
        return "UNIMPLEMENTED", stopped.text
    return verdict_of(findings, played.load)


def verdict_of(findings: Sequence[Finding], load: Load) -> tuple[Verdict, str]:
    """Return the verdict on a case with these findings, and why it is inconclusive.

    Args:
        findings: What was found.
        load: How the machine was: a deadline that was missed on an overloaded one proves nothing.
    """
    broken = [each for each in findings if each.level == "violation"]
    if load.is_overloaded:
        certain = [each for each in broken if not each.is_timed]
        if broken and not certain:
            return "INCONCLUSIVE", f"the machine was overloaded ({load.late_s:.1f} s late): {broken[0].text}"
        broken = certain
    if any(each.source in ("crash", "I-CRASH") for each in broken):
        return "CRASH", ""
    if any(each.source == "hang" for each in broken):
        return "HANG", ""
    if broken:
        return "FAIL", ""
    if any(each.level == "nonstrict" for each in findings):
        return "NON-STRICT", ""
    if any(each.level == "information" for each in findings):
        return "INFORMATIONAL", ""
    return "PASS", ""
