"""Programs with agents in them, as processes: killed, ended without leaving, forked, and judged."""

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.source_tree import REPOSITORY

from pinnace_fuzz.judge.adapter import PiAdapter
from pinnace_fuzz.judge.results import BAD
from pinnace_fuzz.judge.session import JudgeOptions, conduct
from pinnace_fuzz.process_tree import is_alive

EXAMPLE: Final = REPOSITORY / "examples" / "programs" / "two_agents.py"
ADAPTER: Final = Path(__file__).with_name("embedded_program.py")
LIMIT_S: Final = 60.0
# What a thread could do otherwise than a process: how it ends, with what it runs, and what is on the disk then.
SAMPLE: Final = (
    *("ABT/a-tool", "BSH/the-whole-group", "EOF/in-bash", "EOF/a-reader-that-is-gone", "EOF/drain-a-queue"),
    *("SES/in-use-by-another", "SES/killed-with-a-queue", "SES/killed-in-a-tool", "SIG/term-in-a-tool"),
    *("UI/shown-and-not-waited-for", "STA/read-in-a-tool-state"),
)

PROGRAM: Final = """
import sys
import anyio
from pinnace import open_agent

{before}

async def main():
    async with open_agent(sys.argv[1:]) as agent:
        await agent.prompt("remember me", message_id="m-1")
        await agent.follow_up("and me", message_id="m-2")
        {inside}

anyio.run(main, backend="{backend}")
"""


def started(prepared: Any, backend: str, inside: str, before: str = "") -> subprocess.Popen[bytes]:
    text = PROGRAM.format(backend=backend, inside=inside, before=before)
    command = [sys.executable, "-c", text, *prepared.flags]
    return subprocess.Popen(command, cwd=prepared.home.work, env=dict(prepared.home.env), stdout=subprocess.PIPE)


def wait_for(place: Path) -> int:
    give_up = time.monotonic() + LIMIT_S
    while not (place.exists() and place.read_text()):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    return int(place.read_text())


def wait_for_end(number: int) -> None:
    give_up = time.monotonic() + LIMIT_S
    while is_alive(number):
        assert time.monotonic() < give_up
        time.sleep(0.01)


def calling(place: Path) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "args": {"command": f"echo $$ > {place}; exec sleep 600"}}]}


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_killed_program_loses_nothing_that_was_accepted(
    prepare: Callable[..., Any], tmp_path: Path, backend: str
) -> None:
    place = tmp_path / "tool"
    prepared = prepare([calling(place), {"text": "again"}], has_session=True)
    with started(prepared, backend, "print('accepted', flush=True); await anyio.sleep_forever()") as program:
        assert program.stdout is not None
        assert b"accepted\n" == program.stdout.readline()
        tool = wait_for(place)
        program.kill()
    wait_for_end(tool)

    with started(prepared, backend, "", before=REOPEN) as program:
        assert program.stdout is not None
        assert b"['remember me'] 1\n" == program.stdout.read()


UNLEFT: Final = """
import asyncio
import pathlib

async def main():
    agent = await open_agent(sys.argv[1:]).__aenter__()
    await agent.prompt("remember me")
    while not pathlib.Path("{place}").exists():
        await anyio.sleep(0.01)

asyncio.new_event_loop().run_until_complete(main())
sys.exit()
"""
REOPEN: Final = """
async def main():
    async with open_agent([*sys.argv[1:], "--continue"]) as agent:
        messages = (await agent.get_messages())["messages"]
        texts = [message["content"][0]["text"] for message in messages if message["role"] == "user"]
        print(texts, (await agent.get_state())["pendingMessageCount"])

anyio.run(main)
raise SystemExit
"""


def test_a_program_that_ends_without_leaving_ends_its_agents(prepare: Callable[..., Any], tmp_path: Path) -> None:
    """The block is never left; the agent saves its session, and its commands are killed."""
    place = tmp_path / "tool"
    prepared = prepare([calling(place)], has_session=True)
    with started(prepared, "asyncio", "", before=UNLEFT.format(place=place)) as program:
        tool = wait_for(place)
        program.wait(LIMIT_S)
    wait_for_end(tool)
    assert "remember me" in next(prepared.home.sessions.rglob("*.jsonl")).read_text()


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_an_interrupted_program_leaves_in_order(prepare: Callable[..., Any], tmp_path: Path, backend: str) -> None:
    """An interrupt ends the program's block, and never an effect of the agent."""
    place = tmp_path / "tool"
    prepared = prepare([calling(place)], has_session=True)
    with started(prepared, backend, "print('accepted', flush=True); await anyio.sleep_forever()") as program:
        assert program.stdout is not None
        assert b"accepted\n" == program.stdout.readline()
        tool = wait_for(place)
        program.send_signal(signal.SIGINT)
        program.wait(LIMIT_S)
    assert not is_alive(tool)
    text = next(prepared.home.sessions.rglob("*.jsonl")).read_text()
    assert "remember me" in text
    assert "and me" in text
    assert "aborted" in text  # the results of the abort were saved


def test_a_forked_child_holds_up_no_end(prepare: Callable[..., Any], tmp_path: Path) -> None:
    """It has copies of every pipe; the agent ends without them."""
    prepared = prepare([{"text": "a"}, {"text": "b"}])
    inside = (
        "import os, time\n"
        "        if not (child := os.fork()):\n"
        "            time.sleep(600)\n"
        "            os._exit(0)\n"
        "        print(child, flush=True)"
    )
    with started(prepared, "trio", inside) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        try:
            assert 0 == program.wait(LIMIT_S)
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_judge_finds_in_an_agent_of_a_program_what_it_finds_in_a_process(tmp_path: Path) -> None:
    roots = [path for path in sys.path if path]
    start = f"import sys, runpy; sys.path[:0] = {roots!r}; runpy.run_path({str(ADAPTER)!r}, run_name='__main__')"
    command = (sys.executable, "-c", start, "--mode", "rpc")
    options = JudgeOptions(
        command=command, adapter=PiAdapter(), only=SAMPLE, campaigns=(), jobs=2, seed=1, patience=3, out=tmp_path
    )
    run = conduct(options)

    assert {} == {case.scenario.id: case.findings for case in run.cases if case.verdict in BAD}
    assert {"PASS"} == {case.verdict for case in run.cases}


def test_the_example_runs_two_agents(prepare: Callable[..., Any], tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / f"file-{folder.name}").touch()
    env = dict(prepare().home.env)
    command = [sys.executable, str(EXAMPLE), *map(str, folders), "--no-session", "--provider", "offline"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    said = [f"{folder}:\n  bash: done\n  `ls` is done. It said:\n\nfile-{folder.name}\n" for folder in folders]
    assert ("".join(said), "", 0) == (done.stdout, done.stderr, done.returncode)


def test_no_value_of_an_event_loop_belongs_to_a_module() -> None:
    """Agents of one process have loops in several threads, and such a value must be used in one: see `PerAgent`."""
    names = ("Event", "Lock", "StrictFIFOLock", "Condition", "Semaphore", "CapacityLimiter", "lowlevel.ParkingLot")
    kinds = {f"trio.{name}" for name in names}
    found = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for root in ("agent/pinnace_agent", "rpc/pinnace_rpc/server", "statechart/pinnace_statechart")
        for path in sorted((REPOSITORY / root).rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) in kinds
    ]
    assert [] == found
