"""`pinnace batch` as a process: real agents with the offline model, real signals, real files."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_rpc.batch.worker import made_result, run_task
from pinnace_spec.data import text

Task = dict[str, Any]
TIMEOUT_S = 120.0


class Bench:
    """A folder with a user's files and batches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.has_pages = False  # they take the processor for half a second
        (folder / "agent").mkdir()
        settings = {"retry": {"enabled": False}}
        (folder / "agent" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": PYTHONPATH,
            "PI_CODING_AGENT_DIR": str(folder / "agent"),
            "PINNACE_OFFLINE_DELAY_MS": "0",
        }

    def command(self, tasks: Iterable[Mapping[str, Any]], *words: str) -> list[str]:
        file = self.folder / "tasks.jsonl"
        file.write_text("".join(f"{json.dumps(task)}\n" for task in tasks), encoding="utf-8")
        program = [sys.executable, "-P", "-m", "pinnace_rpc", "batch", str(file), "--out", str(self.out)]
        program += [] if self.has_pages else ["--no-pages"]
        return [*program, "--provider", "offline", "--workers", "2", *words]

    def run(self, tasks: Iterable[Mapping[str, Any]], *words: str) -> "subprocess.CompletedProcess[str]":
        command = self.command(tasks, *words)
        return subprocess.run(
            command, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    def start(self, tasks: Iterable[Mapping[str, Any]], *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command(tasks, *words),
            env=self.env,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return {line["id"]: line for line in self.lines}

    def asked(self, task_id: str) -> list[str]:
        """The texts of the user's messages in a task's session, without those that were returned before they ran."""
        entries = [json.loads(line) for line in (self.out / "sessions" / f"{task_id}.jsonl").read_text().splitlines()]
        left = {entry["data"]["left"] for entry in entries if entry.get("customType") == "pinnace.leaf"}
        messages = [entry["message"] for entry in entries if entry["type"] == "message" and entry["id"] not in left]
        return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def engine_of_the_user(bench: Bench) -> None:
    """What a user has beside it can be imported: `losing_engine`."""
    bench.env["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a.txt").write_text("first")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "one"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    (folder / "a.txt").write_text("second")
    (folder / "b.txt").write_text("of a branch")
    for words in (["commit", "-qam", "two"], ["checkout", "-qb", "other"], ["add", "."], ["commit", "-qm", "three"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    subprocess.run([*git, "checkout", "-q", "-"], cwd=folder, check=True)
    return folder


def test_a_copied_workspace_has_nothing_of_the_batch(bench: Bench) -> None:
    """Which may be in the folder that is copied, and would be copied into itself."""
    work = bench.folder / "elsewhere" / "work"
    (bench.folder / "elsewhere").mkdir()
    (bench.folder / "elsewhere" / "kept").touch()
    task = {"prompt": "x", "workspace": {"copy": str(bench.folder)}, "verify": "ls; ls elsewhere"}
    bench.run([{"id": "a", **task}, {"id": "b", **task}], "--work", str(work), "--workers", "1")

    for name in ("a", "b"):
        assert bench.results[name]["verify"]["output"].split() == ["agent", "elsewhere", "tasks.jsonl", "kept"]


def test_no_folder_is_made_outside_of_a_workspace(bench: Bench) -> None:
    copied = bench.folder / "copied"
    copied.mkdir()
    (copied / "link").symlink_to(bench.folder)
    bench.run([{"id": "a", "prompt": "x", "workspace": {"copy": str(copied)}, "files": {"link/new/file": ""}}])

    assert "files: link/new/file leads out" in bench.results["a"]["error"]["message"]
    assert not (bench.folder / "new").exists()


def assert_refused(bench: Bench, done: "subprocess.CompletedProcess[str]", *lines: str) -> None:
    """Check that a batch has named these faults of its tasks, and started nothing."""
    assert 2 == done.returncode
    found = done.stderr.replace(f"{bench.folder / 'tasks.jsonl'}: ", "")
    for line in lines:
        assert line in found
    assert not bench.out.exists()


def test_every_invalid_line_is_named_with_its_field_before_anything_starts(bench: Bench) -> None:
    """R-BAT-01."""
    tasks: list[Task] = [
        {"id": "a", "prompt": "x"},
        {"id": "a", "prompt": "x"},
        {"id": "../b", "prompt": "x", "promt": "y"},
        {"id": "c", "prompt": "x", "limits": {"maxTurns": 0}},
        {"id": "d"},
        {"id": "e", "prompt": "x", "files": {"../x": ""}},
    ]
    done = bench.run(tasks)

    assert_refused(
        bench,
        done,
        "line 2: id: a is the id of an earlier line",
        "line 3: promt: Extra inputs are not permitted",
        "line 3: id: String should match pattern",
        "line 4: limits.maxTurns: Input should be greater than or equal to 1",
        "line 5: task: a task has either prompt or prompts",
        "line 6: task: files: ../x is no relative path in the working folder",
    )


def test_what_no_program_can_be_started_with_is_named_before_anything_starts(bench: Bench) -> None:
    """R-BAT-01: a value that would lose a task's worker, or make its agent refuse its command line."""
    lines = [
        '{"id": "a", "prompt": ' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"id": "b", "prompt": "x", "limits": {"timeoutSeconds": Infinity}}',
        '{"id": "c", "prompt": "x", "limits": {"maxTurns": 1000000000000000}}',
        '{"id": "d", "prompt": "x", "env": {"A": "\\ud800"}}',
        '{"id": "e", "prompts": ["x", "\\u0000 y"]}',
        '{"id": "f", "prompt": "x", "verify": "\\u0000"}',
        '{"id": "g", "prompt": " \\n"}',
        json.dumps({"id": "h", "prompt": "x", "env": {"A": "x" * 200_000}}),
        json.dumps({"id": "i", "prompts": ["x" * 30_000] * 34}),
    ]
    command = bench.command([])
    (bench.folder / "tasks.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(command, env=bench.env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert_refused(
        bench,
        done,
        "line 1: no JSON: recursion limit exceeded",
        "line 2: limits.timeoutSeconds: Input should be less than or equal to 1000000",
        "line 3: limits.maxTurns: Input should be less than or equal to 999999999",
        "line 4: no JSON: unexpected end of hex escape",
        "line 5: prompts.1: Input should be a text that is not blank and has no NUL characters",
        "line 6: verify: Input should be a text without NUL characters",
        "line 7: prompt: Input should be a text that is not blank",
        "line 8: env.A: String should have at most 30000 characters",
        "line 9: task: prompts and env have more than 1000000 bytes together",
    )


def test_tasks_are_read_from_a_pipe_with_a_byte_order_mark(bench: Bench) -> None:
    command = bench.command([])
    command[command.index(str(bench.folder / "tasks.jsonl"))] = "/dev/stdin"
    lines = b'\xef\xbb\xbf{"id": "a", "prompt": "x"}\r\n\n{"id": "b", "prompt": "x"}'
    subprocess.run(command, env=bench.env, input=lines, timeout=TIMEOUT_S, check=True, capture_output=True)

    assert {"a": "completed", "b": "completed"} == {name: line["reason"] for name, line in bench.results.items()}


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--mode", "rpc"], 2, "--mode is not supported in a batch"),
        (["--max-turns", "none"], 2, "--max-turns takes a whole number"),
        (["Do it"], 2, "unexpected extra argument (Do it)"),
        (["--", "Do it"], 2, "-- is not supported in a batch"),
        (["--engine", "nothing"], 1, "--engine takes processes, dask"),
        (["--engine", ":nothing"], 1, "--engine takes processes, dask"),
        (["--engine", ".json:nothing"], 1, "--engine takes processes, dask"),
        (["--engine", "processes:4"], 1, "--engine takes processes, dask"),
        (["--engine", "json:nothing"], 1, "--engine json:nothing"),
        (["--engine", "json:__name__"], 1, "--engine json:__name__: __name__ is str, which is not callable"),
        (["--engine", "json:loads"], 1, "--engine json:loads: TypeError: "),
    ],
)
def test_a_batch_that_can_not_run_does_not_start(bench: Bench, words: list[str], code: int, why: str) -> None:
    done = bench.run([{"id": "a", "prompt": "x"}], *words)

    assert (code, why in done.stderr) == (done.returncode, True)
    assert "Traceback" not in done.stderr


def test_tasks_have_workspaces_and_are_verified(bench: Bench, repository: Path) -> None:
    copied = bench.folder / "copied"
    copied.mkdir()
    (copied / "a.txt").write_text("copied")
    tasks: list[Task] = [
        {"id": "copy", "prompt": "run `cat a.txt`", "workspace": {"copy": str(copied)}, "verify": "grep copied a.txt"},
        {"id": "git", "prompt": "x", "workspace": {"git": str(repository), "rev": "one"}, "verify": "grep first a.txt"},
        {"id": "branch", "prompt": "x", "workspace": {"git": str(repository), "rev": "other"}, "verify": "cat b.txt"},
        {
            "id": "fails",
            "prompts": ["@x", "y"],
            "files": {"d/e": "z"},
            "env": {"F": "g"},
            "verify": "echo $F; cat d/e; ls q",
        },
        {"id": "no-rev", "prompt": "x", "workspace": {"git": str(repository), "rev": "nothing"}},
        {"id": "option", "prompt": "x", "workspace": {"git": str(repository), "rev": "--force"}},
    ]
    bench.has_pages = True
    done = bench.run(tasks)
    results = bench.results
    again = bench.run(tasks)

    assert (1, 1) == (done.returncode, again.returncode)
    assert {"copy", "git", "branch", "fails", "no-rev", "option"} == set(results)
    assert [True] * 3 + [False] == [results[name]["verify"]["passed"] for name in ("copy", "git", "branch", "fails")]
    assert results["fails"]["verify"]["output"].startswith("g\nz")
    assert ["\n@x", "y"] == bench.asked("fails")
    assert ("usage", 1, 1) == (results["no-rev"]["reason"], results["copy"]["toolCalls"], results["copy"]["attempt"])
    assert "rev: --force is no branch, tag or commit" in results["option"]["error"]["message"]
    assert 6 == len(bench.lines)  # the second batch had nothing to run
    assert not list((bench.out / "work").rglob("*"))
    summary = json.loads((bench.out / "summary.json").read_text())
    assert (6, 6, 3, 3) == tuple(summary[key] for key in ("tasks", "ended", "passed", "failed"))
    assert {"completed": 3, "usage": 2, "verify_failed": 1} == summary["states"]
    page = (bench.out / "index.html").read_text()
    assert '<a href="sessions/fails.html">fails</a> <a href="sessions/fails.jsonl">jsonl</a>' in page
    assert "You said" in (bench.out / "sessions" / "fails.html").read_text()


def test_a_retry_runs_what_may_succeed_later(bench: Bench) -> None:
    tasks: list[Task] = [{"id": "busy", "prompt": "fail with 503"}, {"id": "refused", "prompt": "fail with 400"}]
    bench.run(tasks)
    unchanged = bench.run(tasks)
    bench.run(tasks, "--retry")

    assert 1 == unchanged.returncode
    assert [("busy", 1), ("busy", 2), ("refused", 1)] == sorted((line["id"], line["attempt"]) for line in bench.lines)
    assert bench.results["busy"]["retryable"]
    assert not bench.results["refused"]["retryable"]


def test_an_agent_that_is_killed_or_takes_too_long_has_a_result(bench: Bench) -> None:
    hanging = {"script.yaml": "- {text: one, hang: true}"}
    limits = {"timeoutSeconds": 3}
    tasks: list[Task] = [
        {"id": "killed", "prompt": "run `kill -9 $PPID`"},
        {"id": "real-time", "prompt": "run `kill -35 $PPID`"},
        {"id": "slow", "prompt": "x", "files": hanging, "model": "script.yaml", "limits": limits},
    ]
    bench.run(tasks)
    killed, slow = bench.results["killed"], bench.results["slow"]
    assert "killed by signal 35" in bench.results["real-time"]["error"]["message"]

    assert ("internal", True, -9) == (killed["reason"], killed["retryable"], killed["exitCode"])
    assert ["run `kill -9 $PPID`"] == bench.asked("killed")
    assert killed["usage"]["total"] > 0  # by its session: it left no result
    assert ("limit_time", False) == (slow["reason"], slow["retryable"])


def gated(gate: ShellGate) -> list[Task]:
    return [{"id": "gated", "prompt": f"run `{gate.reading}`"}, *({"id": f"t{n}", "prompt": "x"} for n in range(5))]


def test_a_batch_whose_coordinator_was_killed_is_finished_by_the_next(
    bench: Bench, gates: Callable[[], ShellGate]
) -> None:
    """R-BAT-02: the agents end with the coordinator, and their sessions continue."""
    gate = gates()
    process = bench.start(gated(gate), "--workers", "1")  # so that no other task is interrupted
    gate.wait_reached()
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    with (bench.out / "results.jsonl").open("ab") as file:
        file.write(b'{"id": "cut')
    done = bench.run(gated(gate))

    assert (0, "") == (done.returncode, "".join(line for line in done.stderr.splitlines() if "lost" in line))
    assert 6 == len(bench.lines) == len(bench.results)
    assert [gated(gate)[0]["prompt"], "Continue where you were interrupted."] == bench.asked("gated")
    assert all(["x"] == bench.asked(f"t{number}") for number in range(5))


def test_a_signal_lets_running_tasks_end_and_a_second_one_ends_at_once(
    bench: Bench, gates: Callable[[], ShellGate]
) -> None:
    gate = gates()
    process = bench.start(gated(gate), "--workers", "1")
    gate.wait_reached()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any(b"running tasks end" in line for line in process.stderr)
    gate.release()
    _, err = process.communicate(timeout=TIMEOUT_S)

    assert 130 == process.returncode
    assert {"gated": "completed"} == {name: line["reason"] for name, line in bench.results.items()}
    assert b"of 6 done" in err

    again = bench.folder / "again"
    again.mkdir()
    other = Bench(again)
    gate = gates()
    process = other.start(gated(gate))
    gate.wait_reached()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any(b"running tasks end" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)

    assert 130 == process.returncode
    assert "gated" not in other.results


@pytest.mark.usefixtures("engine_of_the_user")
def test_an_engine_of_the_user_may_lose_workers_and_break(bench: Bench) -> None:
    tasks: list[Task] = [{"id": f"t{number}", "prompt": "x"} for number in range(3)]
    done = bench.run(tasks, "--engine", "losing_engine:make")

    assert 0 == done.returncode, done.stderr
    assert 3 == len(bench.lines) == len(bench.results)
    assert "its worker was lost (BrokenExecutor: broken); again" in done.stderr
    assert all(["x"] == bench.asked(f"t{number}") for number in range(3))


@pytest.mark.usefixtures("engine_of_the_user")
def test_a_task_that_always_loses_its_worker_fails(bench: Bench) -> None:
    done = bench.run([{"id": "t", "prompt": "x"}], "--engine", "losing_engine:always")

    assert 1 == done.returncode
    assert ("internal", True) == (bench.results["t"]["reason"], bench.results["t"]["retryable"])


def test_a_task_that_was_changed_while_no_coordinator_ran_begins_anew(
    bench: Bench, gates: Callable[[], ShellGate]
) -> None:
    """What its former prompt has done is not taken for its result."""
    gate = gates()
    process = bench.start(gated(gate)[:1])
    gate.wait_reached()
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    done = bench.run([{"id": "gated", "prompt": "another"}])

    assert 0 == done.returncode
    assert ["another"] == bench.asked("gated")


def test_a_folder_of_workspaces_is_that_of_one_batch(bench: Bench, gates: Callable[[], ShellGate]) -> None:
    """Another one would take the results of tasks with the same ids for its own."""
    gate = gates()
    work = str(bench.folder / "work")
    process = bench.start(gated(gate)[:1], "--work", work)
    gate.wait_reached()
    bench.out = bench.folder / "other"
    refused = bench.run([{"id": "gated", "prompt": "x"}], "--work", work)
    gate.release()
    process.communicate(timeout=TIMEOUT_S)

    assert (1, 0) == (refused.returncode, process.returncode)
    assert f"{work}: another `pinnace batch` uses this folder" in refused.stderr
    assert not (bench.out / "results.jsonl").exists()


def test_a_result_that_can_not_be_written_ends_the_batch_and_is_written_by_the_next(bench: Bench) -> None:
    tasks: list[Task] = [{"id": f"t{number}", "prompt": f"run `echo {number}`"} for number in range(3)]
    (bench.out / "sessions" / "t0.new").mkdir(parents=True)  # as a disk that is full, or a mistake
    failed = bench.run(tasks, "--workers", "1")
    before = set(bench.results)
    (bench.out / "sessions" / "t0.new").rmdir()
    done = bench.run(tasks)

    assert (1, 0) == (failed.returncode, done.returncode)
    assert "the result of t0 can't be written: Is a directory; running tasks end" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "t0" not in before
    assert 3 == len(bench.lines) == len(bench.results)
    assert all([f"run `echo {number}`"] == bench.asked(f"t{number}") for number in range(3))


def test_a_result_that_is_damaged_is_not_removed(bench: Bench) -> None:
    """Unlike a line that a crash has cut, which has no end."""
    bench.out.mkdir()
    results = bench.out / "results.jsonl"
    results.write_text('{"id": "a", "attempt": 1}\n')
    done = bench.run([{"id": "a", "prompt": "x"}])

    assert 1 == done.returncode
    assert f"{results} is damaged at byte 0" in done.stderr
    assert '{"id": "a", "attempt": 1}\n' == results.read_text()


@pytest.mark.parametrize("streams", ["2>&-", "2> >(exec true)", "<&- >&- 2>&-"])
def test_a_batch_whose_streams_are_closed_runs_all_tasks(bench: Bench, streams: str) -> None:
    """A terminal that is gone, for example: the end of a batch is not that of who reads its progress."""
    command = bench.command([{"id": "a", "prompt": "fail with 400"}, {"id": "b", "prompt": "x"}], "--workers", "1")
    done = subprocess.run(
        ["/bin/bash", "-c", f'exec "$@" {streams}', "bash", *command], env=bench.env, timeout=TIMEOUT_S, check=False
    )

    assert 1 == done.returncode
    assert {"a": "model_error", "b": "completed"} == {name: line["reason"] for name, line in bench.results.items()}


def test_a_second_coordinator_is_refused(bench: Bench, gates: Callable[[], ShellGate]) -> None:
    gate = gates()
    process = bench.start(gated(gate)[:1])
    gate.wait_reached()
    refused = bench.run(gated(gate)[:1])
    gate.release()
    process.communicate(timeout=TIMEOUT_S)

    assert 1 == refused.returncode
    assert "another `pinnace batch` uses this folder" in refused.stderr
    assert 0 == process.returncode


def test_a_loss_changes_neither_what_a_task_has_cost_nor_how_often_it_is_verified(tmp_path: Path) -> None:
    """As a worker that was lost during the verification leaves them: the agent had been lost before, after one turn."""
    tokens = {"input": 5, "output": 2, "cacheRead": 1, "cacheWrite": 0}
    usages = [{**tokens, "cost": {"total": cost}} for cost in (0.5, 0.25, 0.125)]
    entries: list[dict[str, Any]] = [
        {"type": "session", "id": "t"},
        {"type": "message", "message": {"role": "user", "content": "\u2028"}},
        {"type": "message", "message": {"role": "assistant", "usage": usages[0]}},
        {"type": "message", "message": {"role": "toolResult", "content": []}},
        {"type": "compaction", "usage": usages[1]},
        {"type": "message", "message": {"role": "assistant", "usage": usages[2]}},
    ]
    place = tmp_path / "t" / "1"
    (place / "session").mkdir(parents=True)
    lines = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in entries)
    (place / "session" / "s.jsonl").write_text(f'{lines}{{"type": "mess')
    result = {**made_result("completed", "", code=0), "error": None, "turns": 1, "session": {"id": "t", "file": "s"}}
    (place / "result.json").write_text(json.dumps(result))
    call = {"task": {"id": "t", "prompt": "x", "verify": f"echo run >> '{tmp_path}/runs'"}, "place": str(place)}
    call |= {"command": ["false"], "flags": []}
    outcomes = []
    for _ in range(2):
        outcomes.append(run_task(call))
        (place / "outcome.json").unlink()

    assert outcomes[0]["result"]["usage"] == outcomes[1]["result"]["usage"]
    assert {"turns": 2, "toolCalls": 1, "cost": 0.875}.items() <= outcomes[0]["result"].items()
    assert {"input": 15, "output": 6, "cacheRead": 3, "cacheWrite": 0, "total": 24} == outcomes[0]["result"]["usage"]
    assert [True, True] == [each["verify"]["passed"] for each in outcomes]
    assert "run\n" == (tmp_path / "runs").read_text()


def test_a_call_waits_for_the_outcome_of_one_that_is_at_work_on_the_same_attempt(tmp_path: Path) -> None:
    """R-BAT-02: a worker of an engine may outlive the coordinator, whose successor calls for the same attempt."""
    call = {"task": {"id": "t", "prompt": "x"}, "place": str(tmp_path), "flags": []}
    call |= {"command": ["/bin/sh", "-c", f"echo run >> '{tmp_path}/runs'"]}
    outcome: dict[str, Any] = {"id": "t", "result": {}, "verify": None, "session": "", "stderr": ""}
    with (tmp_path / "lock").open("w") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = re.compile(rf"-> FLOCK .*:{os.fstat(lock.fileno()).st_ino} ")
        second = pool.submit(run_task, call)
        end_s = time.monotonic() + TIMEOUT_S
        while not second.done() and not waiting.search(Path("/proc/locks").read_text()) and time.monotonic() < end_s:
            pass
        (tmp_path / "outcome.json").write_text(json.dumps(outcome))
        fcntl.flock(lock, fcntl.LOCK_UN)

        assert outcome == second.result(TIMEOUT_S)
    assert not (tmp_path / "runs").exists()


def test_the_published_schema_accepts_what_is_accepted() -> None:
    schema = json.loads(text("schema/batch.json"))
    task = Draft202012Validator({**schema, "$ref": "#/$defs/Task"})
    result = Draft202012Validator({**schema, "$ref": "#/$defs/ResultRecord"})

    assert task.is_valid({"id": "a", "prompt": "x", "workspace": {"git": "u"}, "limits": {"maxCost": 1}})
    assert not task.is_valid({"id": "a", "prompt": "x", "limit": {}})
    assert not task.is_valid({"id": "-", "prompt": "x"})
    assert result.is_valid(made_result("internal", "x"))


@pytest.mark.usefixtures("engine_of_the_user")
def test_an_outcome_of_another_task_is_refused(bench: Bench) -> None:
    """Its id would name a file: nothing is written outside of the folder."""
    done = bench.run([{"id": "t", "prompt": "x"}], "--engine", "losing_engine:lying")

    [line] = map(json.loads, (bench.out / "results.jsonl").read_text().splitlines())
    assert ("t", "internal") == (line["id"], line["reason"]), done.stderr
    assert "another task" in line["error"]["message"]
    assert not list(bench.folder.rglob("evil*"))


def test_what_a_batch_writes_is_the_user_s_alone(bench: Bench) -> None:
    bench.has_pages = True
    words = bench.command([{"id": "t", "prompt": "x", "verify": "true"}])
    subprocess.run(
        ["/bin/sh", "-c", 'umask 000; exec "$@"', "sh", *words],
        env=bench.env,
        cwd=bench.folder,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )

    written = [each for each in bench.out.rglob("*") if "workspace" not in each.parts]
    assert {"results.jsonl", "summary.json", "index.html", "t.html", "t.jsonl"} <= {each.name for each in written}
    assert [] == [f"{each} {each.stat().st_mode:o}" for each in written if each.stat().st_mode & 0o077]
