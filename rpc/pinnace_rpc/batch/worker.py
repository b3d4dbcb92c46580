"""Runs one task: the one function that an engine calls, on whichever machine it likes.

Plain data in, plain data out, and no state but the folder of the attempt: it holds the working folder, the session and,
at the end, the outcome. An engine that repeats a call after a lost worker gets the outcome that is there, or the agent
continues its session: no prompt runs twice (R-RES-02). A verification that has ended does not run again, either; one
that its worker has not survived does. A call that a lost coordinator has left at work keeps its attempt: the next
coordinator's call of it waits for its outcome. A task that was changed meanwhile begins anew. Never raises for what a
task does. Blocks.
"""

import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, TypedDict

from pinnace_engines.programs import ProgramEnd, run_program
from pinnace_rpc.batch.records import make_private, open_private
from pinnace_rpc.batch.span import TRACE_VARIABLES
from pinnace_rpc.batch.workspaces import WorkspaceError, make_workspace, remove_workspace
from pinnace_spec.batch.results import ResultError, ResultReason, ResultRecord, ResultUsage, empty_result

OUTCOME: Final = "outcome.json"
VERIFIED: Final = "verified.json"
TASK: Final = "task.json"
LOCK: Final = "lock"
# An agent with a limit on each prompt has so much longer to start, to end and to save.
_SPARE_S: Final = 60.0


def run_task(call: Mapping[str, Any]) -> dict[str, Any]:
    """Run a task and return its outcome.

    Args:
        call: `task`, a task of the published schema; `place`, the folder of this attempt, the same when the call is
            repeated; `command`, the agent's program; `flags`, further words of its command line; `trace`, variables of
            the trace that the task is part of; `not_copied`, folders that a copied workspace does not have.

    Returns:
        `id`, `result` (a result record), `verify` (or None), `session` (the session file as text) and `stderr`.
    """
    task, place = call["task"], Path(call["place"])
    with _alone(place):
        _clear_if_changed(task, place)
        found = _read(place / OUTCOME)
        if found is None:
            found = _run(call, task, place)
            _write(place / OUTCOME, json.dumps(found))
        return found


def _run(call: Mapping[str, Any], task: Mapping[str, Any], place: Path) -> dict[str, Any]:
    begun = time.monotonic()
    verify, text, ended = None, "", None
    try:
        make_private(place)
        folder = make_workspace(task, place, not_copied=call.get("not_copied", ()))
        was_begun = bool(_session_of(place))
        result = _completed_before(place)
        if result is None:
            with open(place / "output", "w+b", opener=open_private) as output:
                ended = _run_agent(call, task, place, folder, output)
            result = _result_of(place, ended)
        text = _session_of(place)
        if was_begun or ended is None or result["session"] is None:
            spent = spent_in(text)
            result["turns"], result["toolCalls"] = spent["turns"], spent["toolCalls"]
            result["usage"], result["cost"] = spent["usage"], spent["cost"]
        if task.get("verify") and result["reason"] == "completed":
            verify = _verify(call, task, place, folder)
        remove_workspace(place)
    except WorkspaceError as error:
        result = made_result("usage", str(error))
    except OSError as error:
        result = made_result("internal", f"the task can't be run on this worker: {error}", is_retryable=True)
    result["durationMs"] = result["durationMs"] or round((time.monotonic() - begun) * 1000)
    output_text = "" if ended is None or result["reason"] == "completed" else ended.output
    return {"id": task["id"], "result": result, "verify": verify, "session": text, "stderr": output_text}


def _run_agent(
    call: Mapping[str, Any], task: Mapping[str, Any], place: Path, folder: Path, output: IO[bytes]
) -> ProgramEnd:
    prompts = task.get("prompts") or [task["prompt"]]
    limits = task.get("limits", {})
    words = [*call["command"], "-p", *call["flags"], "--session-dir", str(place / "session")]
    words += ["--session-id", task["id"], "--message-id", task["id"], "--result-file", str(place / "result.json")]
    if task.get("model"):
        words += ["--model", task["model"]]
    for name, flag in (("maxTurns", "--max-turns"), ("maxCost", "--max-cost"), ("maxRunSeconds", "--max-run-seconds")):
        if limits.get(name) is not None:
            words += [flag, f"{limits[name]:.15g}"]
    (place / "result.json").unlink(missing_ok=True)
    limit_s: float | None = limits.get("timeoutSeconds")
    if limit_s is None and limits.get("maxRunSeconds") is not None:
        limit_s = limits["maxRunSeconds"] * len(prompts) + _SPARE_S
    # One prompt is stdin, which may be long. Several are words; a line feed keeps one from being the name of a file.
    stdin = prompts[0].encode("utf-8", "replace") if len(prompts) == 1 else b""
    if len(prompts) > 1:
        words += ["--", *(f"\n{prompt}" if prompt.startswith("@") else prompt for prompt in prompts)]
    environment = _environment(call, task)
    return run_program(words, cwd=str(folder), env=environment, output=output, stdin=stdin, limit_s=limit_s)


def _environment(call: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, str]:
    """Return that of the worker, with the trace of the coordinator and the variables of the task."""
    trace: Mapping[str, str] = call.get("trace", {})
    own = {name: value for name, value in os.environ.items() if not (trace and name in TRACE_VARIABLES)}
    return {**own, **trace, **task.get("env", {})}


def _completed_before(place: Path) -> ResultRecord | None:
    """Return the result of an agent whose worker was lost when it had completed the task."""
    try:
        result: ResultRecord = json.loads((place / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if result["reason"] == "completed" else None


def _result_of(place: Path, ended: ProgramEnd) -> ResultRecord:
    try:
        result: ResultRecord = json.loads((place / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        if ended.is_over_time:
            return made_result("limit_time", "the agent was killed at timeoutSeconds", code=ended.code)
        how = f"killed by {_signal_name(-ended.code)}" if ended.code < 0 else f"ended with {ended.code}"
        text = f"the agent left no result: {how}"
        return made_result("internal", text, is_retryable=ended.code < 0, code=ended.code)
    if ended.is_over_time and result["reason"] == "interrupted":
        error: ResultError = {"code": None, "message": "the agent was ended at timeoutSeconds", "status": None}
        return {**result, "reason": "limit_time", "retryable": False, "error": error}
    return result


def _verify(call: Mapping[str, Any], task: Mapping[str, Any], place: Path, folder: Path) -> dict[str, Any]:
    if (former := _read(place / VERIFIED)) is not None:
        return former
    environment = _environment(call, task)
    limit_s = task.get("limits", {}).get("verifySeconds", 600.0)
    command = ["/bin/sh", "-c", task["verify"]]
    with open(place / "verify-output", "w+b", opener=open_private) as output:
        ended = run_program(command, cwd=str(folder), env=environment, output=output, limit_s=limit_s)
    passed = ended.code == 0 and not ended.is_over_time
    verified = {"passed": passed, "exitCode": ended.code, "timedOut": ended.is_over_time, "output": ended.output}
    _write(place / VERIFIED, json.dumps(verified))
    return verified


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"signal {number}"


def _clear_if_changed(task: Mapping[str, Any], place: Path) -> None:
    """Remove what a former call for this attempt has left, if its task was another one; the lock stays."""
    former = _read(place / TASK)
    if former == task:
        return
    if former is not None:
        for each in place.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != LOCK:
                with suppress(OSError):
                    each.unlink()
    _write(place / TASK, json.dumps(task))


@contextmanager
def _alone(place: Path) -> Generator[None]:
    """Wait until no other call is at work on an attempt; the lock of one whose worker died is free."""
    try:
        make_private(place)
        lock = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield  # the attempt fails by itself, and says why
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class SessionCost(TypedDict):
    """What a session has cost, in the fields of a result."""

    turns: int
    toolCalls: int
    usage: ResultUsage
    cost: float


def spent_in(session: str) -> SessionCost:
    """Sum what all processes of a session have spent: a result counts its own alone, and one may have left none.

    Args:
        session: The session file as text. A line that a crash has cut counts for nothing.
    """
    usage: ResultUsage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    spent: SessionCost = {"turns": 0, "toolCalls": 0, "usage": usage, "cost": 0.0}
    for line in session.split("\n"):
        try:
            entry: dict[str, Any] = json.loads(line)
            message: dict[str, Any] = entry["message"] if entry["type"] == "message" else entry
            role = message.get("role")
            spent["turns"] += role == "assistant"
            spent["toolCalls"] += role == "toolResult"
            tokens = message.get("usage")
            if tokens is None or role not in {"assistant", "toolResult", None}:
                continue
            for key in ("input", "output", "cacheRead", "cacheWrite"):
                usage[key] += tokens[key]
                usage["total"] += tokens[key]
            spent["cost"] += tokens["cost"]["total"]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return spent


def _session_of(place: Path) -> str:
    files = sorted((place / "session").rglob("*.jsonl"))
    return files[0].read_text(encoding="utf-8", errors="replace") if files else ""


def _read(path: Path) -> dict[str, Any] | None:
    """Read what `_write` has written; None: nothing."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; one that can't be written only costs a repetition."""
    beside = path.with_suffix(".new")
    try:
        with open(beside, "w", encoding="utf-8", opener=open_private) as file:
            file.write(text)
        beside.replace(path)
    except OSError as error:
        sys.stderr.write(f"pinnace: batch: {path} can't be written: {error}\n")


def made_result(reason: ResultReason, text: str, *, is_retryable: bool = False, code: int = 1) -> ResultRecord:
    """Return the result of an agent that left none."""
    return empty_result(reason, code, {"code": None, "message": text, "status": None}, is_retryable=is_retryable)
