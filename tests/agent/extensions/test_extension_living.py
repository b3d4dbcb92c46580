"""Real modules, loaded and run: what an author writes, at work on a host of the tests."""

import logging
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.loading.discovery import Candidate
from pinnace_agent.extensions.loading.loading import Loader, LoadReport
from pinnace_agent.extensions.registration.registrations import SourceInfo
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.tools.base import ToolContext, ToolResult

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig


class Bench:
    """Loads modules and runs them."""

    def __init__(self, folder: Path, rig: "Rig") -> None:
        self.folder = folder
        self.rig = rig
        self.loader = Loader(rig.generation, cwd=str(folder))
        self.report = LoadReport()

    async def load(self, **modules: str) -> Runner:
        candidates: list[Candidate] = []
        for name, text in modules.items():
            path = self.folder / f"{name}.py"
            path.write_text(dedent(text))
            source = SourceInfo(path=str(path), source="cli", scope="temporary", origin="top-level")
            candidates.append(Candidate(str(path), source))
        self.report = await self.loader.load(candidates)
        assert [] == self.report.failures
        apis = {each.extension: each.api for each in self.report.loaded}
        return Runner(self.report.extensions, self.rig.generation, self.rig.host.port, apis=apis, bus=self.loader.bus)


@pytest.fixture
def bench(tmp_path: Path, rig: "Rig") -> Bench:
    return Bench(tmp_path, rig)


GATE = """
    from typing import Annotated
    from pinnace.extensions import Block, events as ev

    def extension(pi):
        hits = 0

        @pi.on("tool_call")
        async def gate(ctx, event):
            nonlocal hits
            if isinstance(event, ev.BashCall) and "rm -rf" in event.input["command"]:
                if not ctx.has_ui or not await ctx.ui.confirm("Dangerous", "Run it?", timeout=30):
                    hits += 1
                    return Block("declined")

        @pi.tool(label="Greet", prompt_snippet="Greet a person")
        async def greet(ctx, name: Annotated[str, "Whom to greet"], loud: bool = False) -> str:
            '''Greet someone by name.'''
            await ctx.update(f"greeting {name}")
            return f"Hello, {name.upper() if loud else name}!"

        @pi.command("gate-stats", description="How often the gate fired")
        async def stats(ctx, args):
            ctx.ui.notify(f"{hits} blocked", "info")
"""


async def test_a_whole_extension(bench: Bench, rig: "Rig", autojump_clock: trio.testing.MockClock) -> None:
    """2.2"""
    runner = await bench.load(gate=GATE)
    async with rig.running(runner):
        await runner.start("startup")
        assert (await runner.gates.tool_call("bash", "1", {"command": "ls"})) is None
        assert rs.Block("declined") == await runner.gates.tool_call("bash", "2", {"command": "rm -rf /"})
        call = runner.commands.find("/gate-stats")
        assert call is not None
        await runner.commands.run(call)
        updates: list[ToolResult] = []
        context = ToolContext("/", "call", updates.append, {})
        result = await runner.tools()["greet"].execute({"name": "Ann", "loud": True}, context)

    assert [{"type": "text", "text": "Hello, ANN!"}] == result.content
    assert [{"type": "text", "text": "greeting Ann"}] == updates[0].content
    asked, taken_back, notified = rig.host.frames
    assert ("confirm", asked["id"], "timeout") == (asked["method"], taken_back["id"], taken_back["reason"])
    assert "1 blocked" == notified["message"]
    assert [] == rig.host.reported


async def test_background_tasks_and_the_bus_live_as_long_as_the_session(bench: Bench, rig: "Rig") -> None:
    runner = await bench.load(
        speaker="""
            import trio

            def extension(pi):
                async def crash():
                    raise ValueError("broken")

                async def work():
                    await trio.lowlevel.checkpoint()
                    pi.events.emit("news", "hello")
                    await trio.sleep_forever()

                @pi.on("session_start")
                def start(ctx, event):
                    pi.background.start_soon(crash)
                    pi.background.start_soon(work)
        """,
        listener="""
            def extension(pi):
                kept = []

                @pi.on("session_start")
                def start(ctx, event):
                    kept.append(ctx)

                @pi.events.on("news")
                async def news(data):
                    kept[0].ui.notify(data)
        """,
    )
    async with rig.running(runner):
        await runner.start("startup")
        await trio.testing.wait_all_tasks_blocked()
        assert ["hello"] == [frame["message"] for frame in rig.host.frames]
        assert [("background", "ValueError: broken (speaker.py, line 6)")] == [
            (event, error) for _, event, error in rig.host.reported
        ]
    bench.loader.bus.emit("news", "late")
    assert 1 == len(rig.host.frames)


async def test_a_thread_asks_and_acts_through_its_context_and_its_api(bench: Bench, rig: "Rig") -> None:
    runner = await bench.load(
        threaded="""
            def extension(pi):
                @pi.on("agent_start", thread=True)
                def start(ctx, event):
                    pi.send_message("note", "from a thread")
                    pi.append_entry("seen", {"cwd": str(ctx.cwd), "lines": len(ctx.session.get_entries())})
        """
    )
    async with rig.running(runner):
        await runner.start("startup")
        await runner.chains.notify("agent_start", rig.started)
    data = {"cwd": "/work/place", "lines": 0}
    assert [("send_message", "from a thread"), ("append_entry", "seen", data)] == rig.host.asked
    assert [] == rig.host.reported


BAD = """
    import sys
    import trio

    def extension(pi):
        async def crash():
            await trio.lowlevel.checkpoint()
            raise RuntimeError("in the background")

        @pi.on("session_start")
        async def start(ctx, event):
            print("to the protocol?")
            sys.stdout.write("and this?")
            pi.background.start_soon(crash)
            pi.send_message("note", "hello")
            raise ValueError("at the start")

        @pi.on("turn_start")
        def block(ctx, event):
            sys.warned_of_it.wait(60)  # the thread that watches may have its turn at any time behind the limit

        @pi.on("agent_start")
        async def leave(ctx, event):
            sys.exit(1)

        @pi.on("agent_end")
        async def cancel(ctx, event):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.cancel_scope.cancel()

        @pi.on("tool_call")
        def gate(ctx, event):
            return "no"
"""


class Warned(logging.Handler):
    """Takes notice of the warning that the loop is blocked."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "blocks the event loop" in record.getMessage():
            self.event.set()


async def test_a_deliberately_bad_extension_leaves_the_session_and_stdout_alone(
    bench: Bench,
    rig: "Rig",
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.WARNING, "pinnace.extensions")
    warned = Warned()
    monkeypatch.setattr(sys, "warned_of_it", warned.event, raising=False)
    monkeypatch.setattr(logging.getLogger("pinnace.extensions"), "handlers", [warned])
    from pinnace_agent.extensions.events import events as ev

    runner = await bench.load(bad=BAD)
    async with rig.running(runner):
        await runner.start("startup")
        await trio.testing.wait_all_tasks_blocked()
        await runner.chains.notify("agent_start", rig.started)
        await runner.chains.notify("turn_start", lambda: ev.TurnStart(turn_index=0, timestamp=1))
        await runner.chains.notify("agent_end", lambda: ev.AgentEnd(messages=()))
        assert isinstance(await runner.gates.tool_call("bash", "1", {"command": "ls"}), rs.Block)
        assert ["turn_start"] == [owner.event for owner in runner.watchdog.offenders]

    events = [event for _, event, _ in rig.host.reported]
    assert ["session_start", "background", "agent_start", "tool_call"] == events
    assert "blocks the event loop in turn_start" in caplog.text
    assert "" == capfd.readouterr().out
