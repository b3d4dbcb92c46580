"""Runs the shards of a run on an engine, and merges what they report.

`run_shard` is the one function that an engine calls, on whichever machine it likes: plain data in, plain data out. Each
shard is a judge in a process of its own, in a temporary folder; what it stores there is returned, and is written below
the folder of the run, as if the run had stored it. A shard whose worker was lost is run again: it is the same shard.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pinnace_engines.calls import Call, run_calls
from pinnace_engines.engines import Engine
from pinnace_engines.programs import run_program
from pinnace_fuzz.judge.fleet.sharding import Shard
from pinnace_fuzz.judge.reports.merging import merged
from pinnace_fuzz.judge.results import HARNESS_EXIT

REPORT: Final = "report.json"
_LOG_LINES: Final = 20


class ShardFailed(Exception):
    """A shard has no report. The text is for the user."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code
        """The exit code of the shard, or that of a judge that failed."""


class Work(NamedTuple):
    """What all shards are given."""

    command: Sequence[str]
    words: Sequence[str]
    """The options of the judge, without `--out`, `--report` and `--shard`."""
    files: Mapping[str, tuple[str, str]]
    """Options whose values are files: option -> name and text."""
    cwd: str


def run_shard(call: Mapping[str, Any]) -> dict[str, Any]:
    """Run a shard. Blocks; never raises for what a judge does.

    Args:
        call: `words`, the options of the judge; `files`, further options whose values are files: option -> name and
            text; `command`, the agent; `cwd`, the folder that names of files in it are relative to, if it is there.

    Returns:
        `code`, the exit code; `report`, the JSON report as text, empty if there is none; `out`, the folder that it
        names; `stored`, the stored failures: path in that folder -> text; `log`, the end of what was written.
    """
    with tempfile.TemporaryDirectory(prefix="conform-shard-") as name:
        folder = Path(name).resolve()
        words = list(call["words"])
        for number, (option, (file, text)) in enumerate(call["files"].items()):
            path = folder / str(number) / file
            path.parent.mkdir()
            path.write_text(text, encoding="utf-8")
            words += [option, str(path)]
        out = folder / "out"
        words += ["--report", "json", "--out", str(out), "--", *call["command"]]
        command = [sys.executable, "-P", "-m", "pinnace_fuzz.judge.cli", *words]
        cwd = call["cwd"] if os.path.isdir(call["cwd"]) else str(folder)
        with (folder / "log").open("w+b") as output:
            ended = run_program(command, cwd=cwd, env=os.environ, output=output)
        report = out / REPORT
        return {
            "code": ended.code,
            "report": report.read_text(encoding="utf-8") if report.exists() else "",
            "out": str(out),
            "stored": {
                str(each.relative_to(out)): each.read_text(encoding="utf-8") for each in sorted(out.rglob("*.jsonl"))
            },
            "log": ended.output,
        }


def conduct_shards(engine: Engine, work: Work, shards: int, out: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """Run all shards and return the report of the run, which is `report.json` in `out`, too.

    Raises:
        ShardFailed: One has no report.
        EngineError: The engine can't be used.
    """

    def call(number: int) -> Call[Shard]:
        shard = Shard(number, shards)
        words = [*work.words, "--shard", str(shard)]
        arguments = {"words": words, "files": dict(work.files), "command": list(work.command), "cwd": work.cwd}
        return Call(shard, arguments)

    def lost(call: Call[Shard], why: str) -> None:
        log(f"shard {call.key}: its worker was lost ({why}); again")

    reports: list[dict[str, Any]] = []
    calls = map(call, range(1, shards + 1))
    for ended in run_calls(engine, run_shard, calls, at_once=shards, on_loss=lost):
        for each in ended:
            shard = each.call.key
            if each.error is not None:
                raise ShardFailed(f"shard {shard}: {each.error}", HARNESS_EXIT)
            if not each.outcome["report"]:
                end = "\n".join(each.outcome["log"].splitlines()[-_LOG_LINES:])
                code = max(each.outcome["code"], 0) or HARNESS_EXIT
                raise ShardFailed(f"shard {shard} has no report:\n{end}", code)
            reports.append(_kept(each.outcome, out))
            log(f"shard {shard}: {len(reports)} of {shards} done, exit code {each.outcome['code']}")
    report = merged(reports)
    out.mkdir(parents=True, exist_ok=True)
    (out / REPORT).write_text(json.dumps(report, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")
    return report


def _kept(outcome: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Write what a shard has stored, and return its report, which names those files."""
    for name, text in outcome["stored"].items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    here = json.dumps(str(out))[1:-1]
    report: dict[str, Any] = json.loads(outcome["report"].replace(outcome["out"], here))
    return report
