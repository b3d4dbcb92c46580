"""An extension as an author writes it, with types: mypy, which checks this file, is half of the test.

Where a line is marked to be ignored, mypy must find something: it reports marks that are not needed.
"""

import sys
from typing import Annotated

import pytest

from pinnace.extensions import (
    Block,
    CommandContext,
    Context,
    ExtensionAPI,
    ResultPatch,
    ToolContext,
    ToolResult,
    Transform,
)
from pinnace.extensions import (
    events as ev,
)
from pinnace_agent.extensions.loading.loading import Inline, Loader
from pinnace_agent.extensions.registration.registrations import Generation


def extension(pi: ExtensionAPI) -> None:
    """Ask before dangerous commands, greet, count."""
    hits = 0

    @pi.on("tool_call")
    async def gate(ctx: Context, event: ev.ToolCall) -> Block | None:
        nonlocal hits
        if not isinstance(event, ev.BashCall) or "rm -rf" not in event.input["command"]:
            return None
        if ctx.has_ui and await ctx.ui.confirm("Dangerous", "Run it?", timeout=30):
            return None
        hits += 1
        return Block("declined")

    @pi.on(ev.BashCall)
    def only_bash(ctx: Context, event: ev.BashCall) -> Block | None:
        event.input["timeout"] = 3.0
        return Block() if event.input["command"] == "" else None

    @pi.on("tool_result", tool="read", thread=True)
    def shorten(ctx: Context, event: ev.ToolResult) -> ResultPatch:
        return ResultPatch(content=event.content[:1])

    @pi.on("input")
    def rewrite(ctx: Context, event: ev.Input) -> Transform | None:
        return Transform(event.text.removeprefix("!")) if event.source == "rpc" else None

    @pi.on("session_before_switch")
    def plain(ctx: Context, event: ev.SessionBeforeSwitch) -> dict[str, object]:
        return {"cancel": event.reason == "resume"}

    @pi.tool(label="Greet", prompt_snippet="Greet a person")
    async def greet(ctx: ToolContext, name: Annotated[str, "Whom to greet"], loud: bool = False) -> str:
        """Greet someone by name."""
        await ctx.update(f"greeting {name}")
        return f"Hello, {name.upper() if loud else name}!"

    @pi.tool
    def count(ctx: ToolContext) -> ToolResult:
        """Count."""
        return ToolResult("done", details={"hits": hits})

    @pi.command("gate-stats", description="How often the gate fired")
    async def stats(ctx: CommandContext, args: str) -> None:
        ctx.ui.notify(f"{hits} blocked", "info")

    pi.flag("strict", type=bool, default=False, description="Ask for every command")
    off = pi.on("agent_end", lambda ctx, event: None)
    off()


def wrong(pi: ExtensionAPI) -> None:
    """Be found wrong by a checker; never called."""

    @pi.on("tool_call")  # type: ignore[arg-type]
    async def wrong_result(ctx: Context, event: ev.ToolCall) -> Transform:
        return Transform("x")

    @pi.on("agent_end")  # type: ignore[arg-type]
    def wrong_event(ctx: Context, event: ev.AgentStart) -> None:
        pass

    pi.on("no_such_event", lambda ctx, event: None)  # type: ignore[call-overload]

    @pi.on("session_start")  # type: ignore[arg-type]
    def ignored(ctx: Context, event: ev.SessionStart) -> Block:
        return Block()


async def test_the_example_of_an_author_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # loading redirects it for the life of a process
    loader = Loader(Generation(), cwd="/", log=lambda line: None)
    report = await loader.load([], [Inline("<inline:1>", extension)])
    assert [] == report.failures
    loaded = report.extensions[0]
    assert ["tool_call", "tool_result", "input", "session_before_switch"] == list(loaded.handlers)
    assert ["greet", "count"] == list(loaded.tools)
    assert ["gate-stats"] == list(loaded.commands)
