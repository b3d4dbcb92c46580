"""The result of a process: one run for each reason and for each exit code, read by nobody but a program."""

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import ANY

import pytest
from tests.rpc.server.test_defects_of_the_statechart import command as breaking_command

from pinnace_campaigns.trials.one_shot import OneShot, OneShotStarter
from pinnace_fuzz.script import Scripted
from pinnace_rpc.cli.main import main
from pinnace_spec.batch.results import DETAILED_EXIT_CODES, RESULT_REASONS, ResultRecord

REFUSED: Final[Scripted] = {"error": {"status": 400}}
BUSY: Final[Scripted] = {"error": {"status": 503}}
CUT: Final[Scripted] = {"text": "half", "finish": "length", "usage": {"input": 10, "output": 4096}}
EMPTY: Final[Scripted] = {"text": ""}
WRITING: Final[Scripted] = {"tool_calls": [{"name": "write", "args": {"path": "a", "content": "b"}}]}
CALLING: Final[Scripted] = {"tool_calls": [{"name": "bash", "args": {"command": "echo again"}}], "repeat": -1}
HANGING: Final[Scripted] = {"chunks": [{"text": "one"}, {"gate": "g"}, {"hang": True}]}
NO_KEY: Final = {
    "providers": {
        "fake": {
            "baseUrl": "http://127.0.0.1:9",
            "api": "openai-completions",
            "apiKey": "$NO_SUCH_VARIABLE",
            "models": [{"id": "m1"}],
        }
    }
}
ABORTING: Final = """
def extension(pi):
    @pi.tool
    async def stop(ctx) -> str:
        "Abort the run."
        ctx.abort()
        return "aborted"
"""
ENDING: Final = """
from pinnace.extensions import ToolResult

def extension(pi):
    @pi.command("note")
    async def note(arguments, ctx):
        "Do something without a model."

    @pi.tool
    async def finish(ctx) -> ToolResult:
        "End the run."
        return ToolResult("done", terminate=True)
"""
FAILING: Final = "def extension(pi):\n    raise RuntimeError('broken')\n"
SETTINGS: Final = {"retry": {"enabled": False}}


class Case(NamedTuple):
    """A command line, and how it ends."""

    reason: str
    code: int
    plain_code: int
    words: Sequence[str] = ("hello",)
    script: Sequence[Scripted] = ({"text": "fine"},)
    is_retryable: bool = False
    options: Mapping[str, Any] = {}


CASES: Final[Mapping[str, Case]] = {
    "completed": Case("completed", 0, 0),
    "model refuses": Case("model_error", 11, 1, script=[REFUSED]),
    "model is busy": Case("model_error", 10, 1, script=[BUSY], is_retryable=True),
    "output limit": Case("output_limit", 12, 1, script=[CUT]),
    "empty": Case("empty_answer", 20, 1, script=[EMPTY], is_retryable=True),
    "blank after a call": Case("empty_answer", 20, 1, script=[WRITING, {"text": " \n"}], is_retryable=True),
    "thought alone": Case("empty_answer", 20, 1, script=[{"chunks": [{"reasoning": "hm"}]}], is_retryable=True),
    "announced call": Case(
        "empty_answer", 20, 1, script=[{"text": "I will call it.", "finish": "tool_calls"}], is_retryable=True
    ),
    "turns": Case("limit_turns", 13, 1, ["--max-turns", "1", "go"], [CALLING]),
    "cost": Case("limit_cost", 13, 1, ["--max-cost", "0.00001", "go"], [CALLING]),
    "time": Case("limit_time", 13, 1, ["--max-run-seconds", "0.2", "go"], [{"chunks": [{"hang": True}]}]),
    "no such model": Case("no_model", 14, 1, ["--provider", "nowhere", "--model", "m", "go"]),
    "no model": Case("no_model", 14, 1, options={"names_model": False, "models": {"providers": {}}}),
    "no key": Case("no_key", 14, 1, options={"models": NO_KEY}),
    "no key file": Case("no_key", 14, 1, ["--api-key-file", "nothing", "go"]),
    "session": Case("session_error", 15, 1, ["--session", "nothing", "go"], options={"has_session": True}),
    "denied": Case("tool_denied", 16, 0, ["--tool-approval", "ask", "go"], [WRITING, {"text": "fine"}]),
    "sandbox": Case(
        "sandbox_unavailable", 17, 1, options={"settings": {"sandbox": {"mode": "read-only", "mechanism": "seatbelt"}}}
    ),
    "extension": Case("extension_error", 18, 1, ["-e", "{work}/failing.py", "go"]),
    "aborted": Case(
        "aborted", 1, 1, ["-e", "{work}/aborting.py", "go"], [{"tool_calls": [{"name": "stop", "args": {}}]}]
    ),
    "usage": Case("usage", 2, 2, ["--no-such-option", "hello"]),
    "file": Case("usage", 2, 1, ["@nothing"]),
}


def start(print_agent: OneShotStarter, words: Sequence[str], script: Sequence[Scripted], **options: Any) -> OneShot:
    def prepare(work: Path) -> None:
        (work / "failing.py").write_text(FAILING, encoding="utf-8")
        (work / "aborting.py").write_text(ABORTING, encoding="utf-8")
        (work / "ending.py").write_text(ENDING, encoding="utf-8")

    options = {"settings": SETTINGS, **options}
    return print_agent(["--result-file", "result.json", *words], script, prepare=prepare, **options)


def result_of(one_shot: OneShot) -> ResultRecord:
    read: ResultRecord = json.loads((one_shot.home.work / "result.json").read_text(encoding="utf-8"))
    assert set(ResultRecord.__annotations__) == set(read)
    return read


@pytest.mark.parametrize("name", CASES)
def test_each_reason_has_its_exit_code(name: str, print_agent: OneShotStarter, tmp_path: Path) -> None:
    """R-RES-01."""
    case = CASES[name]
    # The first one-shot of a starter has this folder.
    words = [word.replace("{work}", str(tmp_path / "one-shot-1" / "work")) for word in case.words]
    one_shot = start(print_agent, ["--exit-codes", "detailed", "-p", *words], case.script, **case.options)
    ended = one_shot.end()
    result = result_of(one_shot)

    assert (case.code, case.reason, case.is_retryable) == (ended.code, result["reason"], result["retryable"]), ended.err
    assert case.code == result["exitCode"]
    assert (result["error"] is None) is (case.reason == "completed")
    assert (result["limit"] is not None) is case.reason.startswith("limit_")


@pytest.mark.parametrize("name", ["model refuses", "empty", "denied", "session", "file"])
def test_without_the_option_exit_codes_stay(name: str, print_agent: OneShotStarter) -> None:
    case = CASES[name]
    one_shot = start(print_agent, ["-p", *case.words], case.script, **case.options)

    assert case.plain_code == one_shot.end().code == result_of(one_shot)["exitCode"]


def test_every_reason_is_produced_by_a_run() -> None:
    elsewhere = {"interrupted", "internal"}

    assert set(RESULT_REASONS) == {case.reason for case in CASES.values()} | elsewhere
    assert set(DETAILED_EXIT_CODES) == set(RESULT_REASONS) - {"interrupted"}


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        (["--mode", "rpc", "hello"], 1),
        (["--mode", "rpc", "@file"], 1),
        (["-p", "--fork", "a", "--no-session"], 1),
        (["-p", "--session-id", "a", "--continue"], 1),
        (["-p", "--resume"], 2),
        (["--mode", "nonsense"], 2),
        (["sesions"], 2),
    ],
)
def test_every_refused_command_line_has_the_reason_usage_and_its_code(
    words: Sequence[str], plain: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """R-RES-01: also one whose plain exit code is 1."""
    file = tmp_path / "result.json"
    codes = []
    for more in ([], ["--exit-codes", "plain", "--exit-codes=detailed"]):
        codes.append(main([*words, *more, "--result-file", "/nowhere/at/all", f"--result-file={file}"]))
        result = json.loads(file.read_text(encoding="utf-8"))
        assert ("usage", codes[-1]) == (result["reason"], result["exitCode"])
        assert result["error"]["message"] in capfd.readouterr().err

    assert [plain, DETAILED_EXIT_CODES["usage"]] == codes


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["/note"], []),
        (["hello", "/note"], [EMPTY]),
        (["hello"], [{"tool_calls": [{"name": "finish", "args": {}}]}]),
    ],
)
def test_what_ends_without_a_text_and_is_complete(
    words: Sequence[str], script: Sequence[Scripted], print_agent: OneShotStarter, tmp_path: Path
) -> None:
    """R-RES-03: a command of an extension, and a tool that ends the run."""
    extension = str(tmp_path / "one-shot-1" / "work" / "ending.py")
    one_shot = start(print_agent, ["--exit-codes", "detailed", "-p", "-e", extension, *words], script)
    ended = one_shot.end()

    assert (0, "completed") == (ended.code, result_of(one_shot)["reason"]), ended.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_result(number: signal.Signals, print_agent: OneShotStarter) -> None:
    one_shot = start(print_agent, ["--mode", "json", "hello"], [HANGING])
    one_shot.close_stdin()
    one_shot.llm.wait_reached("g")
    one_shot.signal(number)
    ended = one_shot.end()
    result = result_of(one_shot)

    assert ended.result == result
    assert ("interrupted", True, 128 + number) == (result["reason"], result["retryable"], result["exitCode"])
    assert ended.code in (128 + number, -number)


def test_a_defect_leaves_a_result(tmp_path: Path) -> None:
    from tests.rpc.conftest import ENVIRONMENT

    with OneShotStarter(breaking_command("end_run"), tmp_path, ENVIRONMENT) as starter:
        one_shot = start(starter, ["--exit-codes", "detailed", "-p", "hello"], [{"text": "fine"}])
        ended = one_shot.end()

        assert (19, "internal") == (ended.code, result_of(one_shot)["reason"])


def test_the_last_record_of_mode_json_counts_what_the_process_did(print_agent: OneShotStarter) -> None:
    usage = {"input": 10, "output": 5}
    calls: Scripted = {"tool_calls": [{"name": "bash", "args": {"command": "echo a"}}], "usage": usage}
    one_shot = start(print_agent, ["--mode", "json", "a"], [calls, {"text": "b", "usage": usage}], has_session=True)
    result = one_shot.end().result
    [file] = one_shot.home.sessions.rglob("*.jsonl")

    assert ("completed", "b", "stop", 2, 1) == tuple(
        result[key] for key in ("reason", "text", "stopReason", "turns", "toolCalls")
    )
    assert {"input": 20, "output": 10, "cacheRead": 0, "cacheWrite": 0, "total": 30} == result["usage"]
    assert result["cost"] > 0
    session_id = json.loads(file.read_text().splitlines()[0])["id"]
    assert {"id": session_id, "file": str(file), "continued": False} == result["session"]
    assert {"provider": "fake", "id": "m1"} == result["model"]


def test_mode_rpc_writes_a_result_too(print_agent: OneShotStarter) -> None:
    one_shot = start(print_agent, ["--mode", "rpc", "--on-eof", "drain"], [{"text": "fine"}])
    one_shot.end(b'{"type":"prompt","message":"hello"}\n')

    assert ("completed", "fine") == (result_of(one_shot)["reason"], result_of(one_shot)["text"])


ANY_SESSION: Final = {"id": "job-7", "file": ANY}


def job(print_agent: OneShotStarter, script: Sequence[Scripted], *prompts: str) -> OneShot:
    words = ["--session-id", "job-7", "--message-id", "job-7", "-p", *prompts]
    return start(print_agent, words, script, has_session=True)


def again(one_shot: OneShot, *more: str) -> str:
    """Run the command of a job once more in the same place, as an engine does; return its output."""
    command = [str(word) for word in one_shot.process.args]  # type: ignore[union-attr]  # a list, as it was made
    work, env = one_shot.home.work, one_shot.home.env
    done = subprocess.run(
        [*command, *more], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode()


def test_a_repeated_job_is_not_run_twice(print_agent: OneShotStarter) -> None:
    """R-RES-02."""
    one_shot = job(print_agent, [{"text": "one"}, {"text": "two"}, {"text": "never"}], "a", "b")

    assert "two\n" == one_shot.end().out
    assert result_of(one_shot)["session"] == {**ANY_SESSION, "continued": False}
    assert "two\n" == again(one_shot)
    assert result_of(one_shot)["session"] == {**ANY_SESSION, "continued": True}
    assert 2 == len(one_shot.llm.requests)
    assert ("completed", "two", 0) == tuple(result_of(one_shot)[key] for key in ("reason", "text", "turns"))


def test_a_job_with_an_empty_answer_continues(print_agent: OneShotStarter) -> None:
    """R-RES-03: an empty answer is repeated, not taken for the job's."""
    one_shot = job(print_agent, [EMPTY, {"text": "done"}], "a")
    first = one_shot.end()

    assert (1, "") == (first.code, first.out)
    assert first.err.startswith("pinnace: The answer ended without any content\n")
    assert "done\n" == again(one_shot)


def test_a_job_whose_process_was_killed_continues(print_agent: OneShotStarter) -> None:
    """R-RES-02."""
    one_shot = job(print_agent, [HANGING, {"text": "done"}], "a")
    one_shot.close_stdin()
    one_shot.llm.wait_reached("g")
    one_shot.kill()

    assert "done\n" == again(one_shot)
    texts = json.dumps([each for each in one_shot.llm.requests[-1].body["messages"] if each["role"] == "user"])
    assert 1 == texts.count('"a"')
    assert "Continue where you were interrupted." in texts


def test_a_prompt_behind_a_repeated_one_is_run(print_agent: OneShotStarter) -> None:
    one_shot = job(print_agent, [{"text": "one"}, {"text": "two"}], "a")
    one_shot.end()

    assert "two\n" == again(one_shot, "b")
    assert 2 == len(one_shot.llm.requests)


@pytest.mark.parametrize("words", [["--mode", "rpc", "--message-id", "a"], ["--mode", "acp", "--result-file", "a"]])
def test_an_option_that_a_mode_does_not_have_is_refused(words: Sequence[str], print_agent: OneShotStarter) -> None:
    ended = print_agent(words).end()

    assert 2 == ended.code
    assert "is not supported in mode" in ended.err
