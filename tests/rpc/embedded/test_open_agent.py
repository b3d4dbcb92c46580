"""`open_agent`: the client's methods over an agent in this process, under trio and asyncio."""

import errno
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.rpc.client.conftest import on_trio_and_asyncio

from pinnace import AgentExited, ClientClosed, CommandFailed, Dialogs, StartFailed, open_agent
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import is_alive

pytestmark = pytest.mark.usefixtures("of_process")

Prepare = Callable[..., Any]
Gates = Callable[[], ShellGate]

KEY = "sk-0123456789-abcdefghij"
CALL = {"tool_calls": [{"name": "bash", "args": {"command": "pwd; echo $PINNACE_OF_TEST"}}]}


def call(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "args": {"command": command}}]}


async def reached(gate: ShellGate) -> None:
    await anyio.to_thread.run_sync(gate.wait_reached)


@on_trio_and_asyncio
async def test_a_program_runs_an_agent_and_reads_its_events(prepare: Prepare) -> None:
    prepared = prepare([CALL, {"text": ["do", "ne"]}], env={"PINNACE_OF_TEST": "given"})
    async with prepared.agent() as agent:
        events = agent.events()
        run = await agent.run("go")
        assert ("done", "stop", False, None) == (run.text, run.stop_reason, run.is_aborted, run.error)
        assert repr(f"{prepared.home.work}\ngiven\n") in str(run.messages[2])
        assert (await agent.get_session_stats())["userMessages"] == 1
        assert agent.is_connected
        with pytest.raises(CommandFailed, match="nowhere"):
            await agent.set_model("nowhere", "nothing")
        async for event in events:
            if event["type"] == "agent_settled":
                break
    assert [event async for event in events][-1:] in ([], [event])
    with pytest.raises(ClientClosed):
        await agent.get_state()


@on_trio_and_asyncio
async def test_an_agent_in_a_program_starts_no_sub_agent(prepare: Prepare) -> None:
    """R-SUB-13: its process is the program's."""
    async with prepare([]).agent() as agent:
        with pytest.raises(CommandFailed, match="a process of its own") as refused:
            await agent.start_agent("count")
    assert "agent_refused" == refused.value.error_code


@on_trio_and_asyncio
async def test_a_guard_of_commands_that_is_missing_is_a_warning(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_watchdog: object) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr("pinnace_agent.shell.watchdog.CommandWatchdog.prepare", refuse)
    async with prepare([CALL, CALL, {"text": "done"}]).agent() as agent:
        assert "done" == (await agent.run("go")).text
        [warning] = (await agent.get_state())["warnings"]

    assert "tools" == warning["kind"]
    assert warning["text"].startswith("Commands would outlive a kill -9 of the agent")


@on_trio_and_asyncio
async def test_two_agents_share_nothing(prepare: Prepare, gates: Gates) -> None:
    """Their folders, settings, environments, keys of models, scripts and commands are their own."""
    waits, other = gates(), gates()
    one = prepare(
        [call(waits.reading), {"text": "one"}], env={"PINNACE_OF_TEST": "1"}, settings={"steeringMode": "all"}
    )
    two = prepare([call(other.reading), {"text": "two"}], env={"PINNACE_OF_TEST": "2"})
    texts: list[str] = []

    async def ask(agent: Any) -> None:
        texts.append((await agent.run("go")).text)

    async with one.agent() as first, anyio.create_task_group() as tasks:
        async with two.agent() as second:
            tasks.start_soon(ask, first)
            await reached(waits)
            await second.prompt("go")
            await reached(other)
            shown = [(await each.bash("pwd; echo $PINNACE_OF_TEST"))["output"] for each in (first, second)]
            assert [f"{one.home.work}\n1\n", f"{two.home.work}\n2\n"] == shown
            modes = [(await each.get_state())["steeringMode"] for each in (first, second)]
            assert ["all", "one-at-a-time"] == modes
            await second.abort()
            assert (await first.get_state())["isStreaming"]
        # The end of one ends no command of the other.
        assert (await first.get_state())["isStreaming"]
        await anyio.to_thread.run_sync(waits.release)
    assert ["one"] == texts


@on_trio_and_asyncio
async def test_a_cancelled_scope_ends_the_run_its_tool_and_the_processes_of_that(
    prepare: Prepare, gates: Gates, tmp_path: Path
) -> None:
    gate = gates()
    own, orphan = tmp_path / "own", tmp_path / "orphan"
    prepared = prepare(
        [call(f"echo $$ > {own}; (setsid sh -c 'echo $$ > {orphan}; exec sleep 600' &); {gate.reading}")]
    )
    with anyio.CancelScope() as scope:
        async with prepared.agent() as agent, anyio.create_task_group() as tasks:
            tasks.start_soon(agent.run, "go")
            await reached(gate)
            await number_in(orphan)
            scope.cancel()
    assert scope.cancelled_caught
    for number in (int(own.read_text()), int(orphan.read_text())):
        with anyio.fail_after(60):
            while is_alive(number):  # noqa: ASYNC110 - nothing reports it
                await anyio.sleep(0.01)


async def number_in(place: Path) -> int:
    """Wait for a command to write a number."""
    while not (place.exists() and place.read_text()):  # noqa: ASYNC110 - nothing reports it
        await anyio.sleep(0.01)
    return int(place.read_text())


@on_trio_and_asyncio
async def test_an_exception_comes_out_as_it_is_and_the_session_is_saved(prepare: Prepare, gates: Gates) -> None:
    gate = gates()
    prepared = prepare([call(gate.reading), {"text": "again"}], has_session=True)
    raised = RuntimeError("of the program")
    with pytest.raises(RuntimeError) as caught:
        async with prepared.agent() as agent:
            await agent.prompt("remember me", message_id="m-1")
            await agent.follow_up("and me", message_id="m-2")
            await reached(gate)
            raise raised
    assert caught.value is raised
    async with prepared.agent("--continue") as agent:
        texts = str(await agent.get_messages())
        assert "remember me" in texts
        # It was accepted, and is delivered: exactly once.
        queue = (await agent.get_state())["pendingMessageCount"]
        assert 1 == queue


@on_trio_and_asyncio
async def test_a_session_has_one_writer_in_one_process_too(prepare: Prepare) -> None:
    prepared = prepare([{"text": "first"}, {"text": "second"}], has_session=True)
    async with prepared.agent("--session-id", "shared") as one:
        await one.run("go")
        async with prepared.agent("--session-id", "shared") as two:
            with pytest.raises(CommandFailed, match="in use"):
                await two.run("go")
        assert "second" == (await one.run("go on")).text


@pytest.mark.parametrize(
    ("flags", "exit_code", "text"),
    [
        (["--nonsense"], 2, "No such option"),
        (["--mode", "json"], 2, "is in mode rpc"),
        (["--log-file", "log"], 2, "--log-file is for a process of its own"),
        (["--help"], 2, "a text instead of an agent"),
        (["--sandbox", "read-only"], 1, "a sandbox needs a process of its own"),
        (["--provider", "nowhere"], 1, "nowhere"),
        (["--add-dir", "missing"], 1, "missing is no folder"),
    ],
)
@on_trio_and_asyncio
async def test_what_can_not_start_is_raised_on_entry(
    prepare: Prepare, capfd: pytest.CaptureFixture[str], flags: list[str], exit_code: int, text: str
) -> None:
    with pytest.raises(StartFailed, match=text) as caught:
        async with prepare().agent(*flags):
            pass
    assert exit_code == caught.value.exit_code
    assert ("", "") == capfd.readouterr()


@on_trio_and_asyncio
async def test_a_sandbox_that_settings_require_keeps_an_agent_from_starting(prepare: Prepare) -> None:
    """It is not left out: what it confines would run without it."""
    prepared = prepare(settings={"sandbox": {"mode": "workspace-write"}})
    with pytest.raises(StartFailed, match="process of its own"):
        async with prepared.agent():
            pass


@on_trio_and_asyncio
async def test_relative_paths_of_flags_are_in_the_folder_of_the_agent(prepare: Prepare) -> None:
    prepared = prepare([{"text": "yes"}], "--system-prompt", "rules.md", "--add-dir", "beside", "--session-dir", "kept")
    (prepared.home.work / "rules.md").write_text("Of the file.")
    (prepared.home.work / "beside").mkdir()
    prepared.flags.remove("--no-session")
    async with prepared.agent() as agent:
        await agent.run("go")
        assert str(prepared.home.work / "kept") in str((await agent.get_state()).get("sessionFile"))
    assert "Of the file." in str(prepared.llm.requests[0].body)


@on_trio_and_asyncio
async def test_a_drain_is_waited_for_as_long_as_the_program_says(prepare: Prepare) -> None:
    prepared = prepare([{"text": ["a", {"gate": "g"}, "b"]}], "--on-eof", "drain", has_session=True)
    async with prepared.agent(exit_timeout_s=60) as agent, anyio.create_task_group() as tasks:
        events = agent.events()
        await agent.prompt("go")
        async for event in events:
            if event["type"] == "message_update" and event["assistantMessageEvent"]["type"] == "text_delta":
                break

        async def release() -> None:
            prepared.llm.release("g")

        tasks.start_soon(release)
    async with prepared.agent("--continue") as agent:
        assert {"text": "ab"} == await agent.request("get_last_assistant_text")


@on_trio_and_asyncio
async def test_processes_of_the_program_are_left_to_it(prepare: Prepare, gates: Gates, tmp_path: Path) -> None:
    """Orphans of the program's own children are not taken for those of a command, nor are statuses taken away."""
    gate, place = gates(), tmp_path / "orphan"
    async with prepare([call(gate.reading)]).agent() as agent:
        await agent.prompt("go")
        await reached(gate)
        # In a session that is not the program's, without a parent, and younger than the command.
        words = ["sh", "-c", f"(sleep 600 & echo $! > {place}); exit 7"]
        own = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)
        orphan = await number_in(place)
        await agent.abort()
        assert is_alive(orphan)
        assert 7 == own.wait()
        os.kill(orphan, signal.SIGKILL)


@on_trio_and_asyncio
async def test_dialogs_of_extensions_are_answered_by_the_program(prepare: Prepare) -> None:
    prepared = prepare()
    place = prepared.home.work / "asks.py"
    place.write_text(
        "def extension(pi):\n"
        "    async def ask(ctx, args):\n"
        "        ctx.ui.notify(str(await ctx.ui.confirm('Sure?', 'of it')))\n"
        "    pi.register_command('ask', ask)\n"
    )
    asked = threading.Event()

    def confirm(request: Any) -> bool:
        asked.set()
        return bool(request["title"] == "Sure?")

    async with prepared.agent("--extension", "asks.py", dialogs=Dialogs(confirm=confirm)) as agent:
        events = agent.events()
        await agent.prompt("/ask")
        async for event in events:
            if event["type"] == "extension_ui_request" and event["method"] == "notify":
                assert "True" == event["message"]
                break
    assert asked.is_set()


@on_trio_and_asyncio
async def test_an_agent_that_ends_by_itself_fails_what_waits(prepare: Prepare) -> None:
    prepared = prepare()
    place = prepared.home.work / "ends.py"
    place.write_text("def extension(pi):\n    pi.register_command('end', lambda ctx, args: ctx.shutdown())\n")
    async with prepared.agent("--extension", str(place)) as agent:
        await agent.prompt("/end")
        with pytest.raises(AgentExited) as caught:
            while True:
                await agent.get_state()
    assert 0 == caught.value.exit_code


@on_trio_and_asyncio
async def test_the_log_reaches_the_handlers_of_the_program_without_keys(
    prepare: Prepare, caplog: pytest.LogCaptureFixture
) -> None:
    async with prepare([{"text": "hello"}], "--api-key", KEY).agent() as agent:
        await agent.run("go")
        logging.getLogger("pinnace.test").warning("the key is %s", KEY)
        try:
            raise ValueError(KEY)
        except ValueError:
            logging.getLogger("pinnace.test").exception("failed")
    assert "the key is" in caplog.text
    assert "ValueError" in caplog.text
    assert KEY not in caplog.text


async def test_an_agent_is_opened_once(prepare: Prepare) -> None:
    agent = prepare().agent()
    async with agent:
        with pytest.raises(RuntimeError, match="once"):
            await agent.__aenter__()


def test_flags_are_a_list() -> None:
    with pytest.raises(TypeError):
        open_agent("--no-session")
