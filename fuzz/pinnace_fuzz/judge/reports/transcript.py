"""Writes a case for people: a transcript of the lines that matter, and a reproduction to paste into a shell."""

import base64
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pinnace_fuzz.judge.adapter_names import option_of
from pinnace_fuzz.judge.playing.recording import is_of_kit
from pinnace_fuzz.judge.results import ACP_KIND, CaseResult, Finding, ProcessLog
from pinnace_fuzz.judge.scenarios.scenario import Ask, Bytes, Scenario, Send
from pinnace_fuzz.records import encode_records
from pinnace_spec.observers.verdicts import Step
from pinnace_spec.printable import printable_lines

MAX_LINES = 40
MAX_CHARACTERS = 150
# Records that are irrelevant to most failures; they are counted instead of shown.
_QUIET_TYPES = frozenset({"message_update", "tool_execution_update", "bash_execution_update", "entry_appended"})


def transcript(result: CaseResult, *, is_whole: bool = False) -> list[str]:
    """Write the lines of a case: `>` what the client sent, `<` what the agent wrote, `!` what proves a finding."""
    lines: list[str] = []
    for number, log in enumerate(result.logs):
        if len(result.logs) > 1:
            lines.append(f"  --- process {number + 1}")
        proof = {step for each in result.findings if each.process == number for step in each.steps}
        lines += _cut(list(_lines(log, proof, is_whole=is_whole)), is_whole=is_whole)
        lines.append(f"  = {ending(log)}")
    return lines


def ending(log: ProcessLog) -> str:
    """Say how a process ended."""
    code = "" if log.end.code is None else f" {log.end.code}"
    return f"{log.end.how}{code}"


def _lines(log: ProcessLog, proof: set[int], *, is_whole: bool) -> Iterable[str]:
    left_out = 0
    for step in log.steps:
        kind = str((step.record or {}).get("type"))
        is_proof = step.number in proof
        if not is_whole and not is_proof:
            if step.record is not None and is_of_kit(step.record):
                continue
            if kind in _QUIET_TYPES:
                left_out += 1
                continue
        if left_out:
            yield f"    … {left_out} updates"
            left_out = 0
        mark, arrow = "!" if is_proof else " ", ">" if step.direction == "in" else "<"
        yield f"  {mark}{step.number:>4} {arrow} {_short(step, is_whole)}"


def _short(step: Step, is_whole: bool) -> str:
    limit = 4000 if is_whole else MAX_CHARACTERS
    text = step.line if step.line.isprintable() else json.dumps(step.line)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(step.line)} characters)"


def _cut(lines: list[str], *, is_whole: bool) -> list[str]:
    if is_whole or len(lines) <= MAX_LINES:
        return lines
    # What proves a finding stays.
    kept = [
        at
        for at, line in enumerate(lines)
        if line[2:3] == "!" or at < MAX_LINES // 2 or at >= len(lines) - MAX_LINES // 3
    ]
    found: list[str] = []
    before = -1
    for at in kept:
        if at != before + 1:
            found.append(f"    … {at - before - 1} lines")
        found.append(lines[at])
        before = at
    return found


def said(finding: Finding) -> str:
    """Write a finding. It may quote the agent: halves of characters, and what would change a terminal, are replaced."""
    rules = f" ({', '.join(finding.rules)})" if finding.rules else ""
    return f"{finding.source}{rules}: {printable_lines(finding.text)}"


def inputs(scenario: Scenario) -> list[bytes]:
    """Return what the client writes, write by write, where it is known beforehand."""
    found: list[bytes] = []
    for step in scenario.client:
        match step:
            case Send(records):
                found.append(encode_records(records))
            case Bytes(data, _):
                found.append(data)
            case Ask(record, _, _):
                found.append(encode_records([{"id": "ask", **record}]))
            case _:
                pass
    return found


def reproduction(result: CaseResult, command: Sequence[str], stored: str = "", adapter: str = "") -> str:
    """Write a command for a shell: the bytes alone if these are enough, else the replay command of the tester."""
    scenario = result.scenario
    option = option_of(adapter)
    if result.kind == ACP_KIND:
        return f"pinnace-conform acp{option} --only {scenario.id} -- {shlex.join(command)}"
    writes = inputs(scenario)
    can_be_piped = (
        not scenario.llm
        and len(writes) == 1
        and all(isinstance(step, Send | Bytes) or _is_wait(step) for step in scenario.client)
    )
    lines: list[str] = []
    if can_be_piped and len(writes[0]) <= 4000:
        lines.append(f"{_printf(writes[0])} | {shlex.join(command)}")
    if stored:
        lines.append(f"pinnace-conform replay{option} {shlex.quote(stored)} -- {shlex.join(command)}")
    elif not lines or result.kind == "scenario":
        lines.append(f"pinnace-conform{option} --only {scenario.id} -- {shlex.join(command)}")
    return "\n".join(lines)


def _is_wait(step: object) -> bool:
    return type(step).__name__ in ("Wait", "Answered", "Quiet", "Mark")


def _printf(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"echo {base64.b64encode(data).decode()} | base64 -d"
    lines = text.split("\n")
    if text.endswith("\n") and all(line.isprintable() for line in lines):
        return f"printf '%s\\n' {' '.join(shlex.quote(line) for line in lines[:-1])}"
    return f"echo {base64.b64encode(data).decode()} | base64 -d"


def lines_of(log: ProcessLog) -> list[Mapping[str, Any]]:
    """Return a process' lines as JSON for reports."""
    return [
        {"n": step.number, "at": round(step.at, 4), "dir": step.direction, "group": step.group, "line": step.line}
        for step in log.steps
    ]
