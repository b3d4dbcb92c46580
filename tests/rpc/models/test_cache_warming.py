"""The provider's cache between requests: what repeats the last one, when, and what stops that.

In virtual time, with the real agent but for its pipes and its model's server; one test has a server and minutes that
are seconds.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.rpc.server.tracing_client import TracingClient
from trio.testing import MockClock

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.selection import Selection
from pinnace_agent.config.settings import CacheWarming, Settings
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.engine.cache_warmer import LEAST_SAVINGS, decision, delay_s, is_repeatable, lifetime_s
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import Library
from pinnace_agent.tools.base import Tool, ToolContext, ToolResult, text_result
from pinnace_agent.tools.bash import BashTool
from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import make_projection
from pinnace_rpc.server.startup import PreparedAgent, compose
from pinnace_spec.records.messages import Model

PROMPT_TOKENS = 100_000
LIFETIME_S = 300
EVERY_S = 270
"""Between a request and its repetition."""
DEAR: Model = {
    **OFFLINE_MODEL,
    "promptCache": {"short": LIFETIME_S, "long": 3600},
    "cost": {"input": 10, "output": 50, "cacheRead": 1, "cacheWrite": 12.5},
}
CHEAP: Model = {**DEAR, "cost": {"input": 1, "output": 5, "cacheRead": 0.1, "cacheWrite": 1.25}}


class Server:
    """A model that answers everything at once; a prompt with `run` has it call a tool first."""

    def __init__(self) -> None:
        self.requests: list[tuple[float, LlmRequest]] = []
        self.fails = False
        """Whether repetitions do."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Answer."""
        self.requests.append((trio.current_time(), request))
        await trio.lowlevel.checkpoint()
        builder.usage = usage_of(request.model, RequestTokens(cache_read=PROMPT_TOKENS, output=1))
        if self.fails and request.max_tokens == 1:
            builder.fail("no")
            return
        builder.start()
        if request.messages[-1]["role"] == "user" and "run" in str(request.messages[-1]["content"]):
            builder.toolcall_start(0, "call", "bash")
            builder.toolcall_delta(0, '{"command":"x"}')
            builder.finish("toolUse")
        else:
            builder.text_delta("text", "answer")
            builder.finish("length" if request.max_tokens == 1 else "stop")

    @property
    def warmed(self) -> list[int]:
        """When repetitions came, in seconds since the first request."""
        return [round(at - self.requests[0][0]) for at, request in self.requests if request.max_tokens == 1]


class SlowTool(BashTool):
    """Takes a quarter of an hour."""

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Wait."""
        await trio.sleep(900)
        return text_result("done")


class Conversation:
    """An agent in virtual time."""

    def __init__(self, agent: Any, client: TracingClient, server: Server, session: Session) -> None:
        self.agent, self.client, self.server, self.session = agent, client, server, session

    def send(self, **command: object) -> None:
        """Send a command."""
        self.agent.dispatcher.receive(json.dumps({"id": "1", **command}).encode())

    async def prompt(self, text: str = "hello") -> None:
        """Have a run, and wait for its end."""
        self.send(type="prompt", message=text)
        await self.agent.interpreter.idle.wait()
        await trio.sleep(1)  # the records are written
        self.client.records.clear()

    @property
    def usages(self) -> list[dict[str, Any]]:
        """The entries of what repetitions have used."""
        return [entry for entry in map(dict, self.session.tree.entries) if entry["type"] == "usage"]


@asynccontextmanager
async def conversing(
    monkeypatch: pytest.MonkeyPatch, mode: CacheWarming = "idle", model: Model = DEAR, tool: Tool | None = None
) -> AsyncGenerator[Conversation]:
    server = Server()
    monkeypatch.setattr(ModelRegistry, "provider_for", lambda *_: server)
    registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent")).registry
    profile = AgentProfile(registry, {"bash": tool or SlowTool()}, lambda _: "You rehearse.", cache_warming=mode)
    session = Session("/nonexistent")
    session.model, session.thinking_level = model, "off"
    outbox, client, done = Outbox(make_projection("1.5")), TracingClient(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.pump, client)
        async with trio.open_nursery() as jobs_nursery:
            prepared = PreparedAgent(profile, session, Library(None), Selection(), Settings())
            agent = compose(prepared, outbox, Jobs(jobs_nursery), done.set)
            yield Conversation(agent, client, server, session)
            jobs_nursery.cancel_scope.cancel()
        outbox.close()


async def test_a_cache_is_kept_for_half_an_hour_after_a_run(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """R-STA-12: the repetition is the request, for one token; what it used counts, and no model reads it."""
    async with conversing(monkeypatch) as talk:
        await talk.prompt()
        await trio.sleep(7200)
        (_, first), (_, again), *_ = talk.server.requests
        assert talk.server.warmed == [EVERY_S * number for number in range(1, 7)]
        assert again == first._replace(max_tokens=1)
        assert [entry["kind"] for entry in talk.usages] == ["cache_warm"] * 6
        appended = [record["entry"] for record in talk.client.records]
        assert [record["type"] for record in talk.client.records] == ["entry_appended"] * 6
        assert appended == talk.usages
        assert len(talk.session.messages) == 2
        talk.client.records.clear()
        talk.send(type="get_session_stats")
        await trio.sleep(1)
        (stats,) = talk.client.records
        assert stats["data"]["tokens"]["cacheRead"] == 7 * PROMPT_TOKENS
        warming, total = stats["data"]["cacheWarming"], stats["data"]["cost"]
        assert (warming["requests"], warming["tokens"]["cacheRead"]) == (6, 6 * PROMPT_TOKENS)
        assert warming["cost"] == pytest.approx(sum(entry["usage"]["cost"]["total"] for entry in talk.usages))
        assert 0 < warming["cost"] < total


@pytest.mark.parametrize(
    ("mode", "model", "text", "expected"),
    [
        ("off", DEAR, "run", []),
        ("streaming", DEAR, "hello", []),
        ("streaming", DEAR, "run", [270, 540, 810]),
        ("idle", DEAR, "run", [270, 540, 810, *range(1170, 2521, 270)]),
        ("idle", CHEAP, "hello", []),
        ("idle", CHEAP, "run", [270, 540, 810]),
        ("idle", {**DEAR, "promptCache": {"long": 3600}}, "run", []),
        ("idle", {**DEAR, "promptCache": {"short": 10}}, "run", []),
    ],
    ids=["off", "streaming-rests", "streaming-runs", "idle-runs", "cheap", "cheap-runs", "unknown", "too-short"],
)
async def test_how_long_a_cache_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    mode: CacheWarming,
    model: Model,
    text: str,
    expected: list[int],
) -> None:
    async with conversing(monkeypatch, mode, model) as talk:
        await talk.prompt(text)
        await trio.sleep(7200)
        assert talk.server.warmed == expected


def other_model(talk: Conversation) -> None:
    talk.session.model = {**DEAR, "id": "other"}


def other_level(talk: Conversation) -> None:
    talk.session.thinking_level = "high"


def other_messages(talk: Conversation) -> None:
    talk.session.messages[0] = copy(talk.session.messages[0])


def other_session(talk: Conversation) -> None:
    talk.send(type="new_session")


def switched_off(talk: Conversation) -> None:
    talk.agent.interpreter.profile.cache_warming = "off"


@pytest.mark.parametrize("change", [other_model, other_level, other_messages, other_session, switched_off])
async def test_a_cache_that_the_next_request_will_not_find_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, change: Callable[[Conversation], None]
) -> None:
    async with conversing(monkeypatch) as talk:
        await talk.prompt()
        await trio.sleep(300)
        change(talk)
        await trio.sleep(7200)
        assert talk.server.warmed == [EVERY_S]


async def test_a_cache_is_not_written_anew_when_its_moment_has_passed(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The machine has slept, which only the wall clock shows: by less than half of what is left, and by more."""
    async with conversing(monkeypatch) as talk:
        await talk.prompt()
        slept_ms = 0
        now_ms = talk.session.now_ms
        monkeypatch.setattr(talk.session, "now_ms", lambda: now_ms() + round(1000 * trio.current_time()) + slept_ms)
        await trio.sleep(200)
        slept_ms = 10_000
        await trio.sleep(EVERY_S)
        slept_ms += 20_000
        await trio.sleep(7200)
        assert len(talk.server.warmed) == 1


async def test_a_repetition_that_fails_leaves_no_trace_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with conversing(monkeypatch) as talk:
        talk.server.fails = True
        await talk.prompt()
        await trio.sleep(7200)
        assert talk.server.warmed == [EVERY_S * number for number in range(1, 7)]
        assert (talk.client.records, talk.usages) == ([], [])


async def test_a_later_request_begins_anew(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    async with conversing(monkeypatch) as talk:
        await talk.prompt()
        await trio.sleep(200)
        await talk.prompt()
        await trio.sleep(EVERY_S)
        (at,) = talk.server.warmed
        assert 200 + EVERY_S <= at <= 202 + EVERY_S


def test_what_a_repetition_is_weighed_by() -> None:
    """Dollars; as the original weighs: `core/cache-warmer.js` of 1.5.2."""
    running, resting = (decision(DEAR, PROMPT_TOKENS, is_idle=is_idle) for is_idle in (False, True))
    assert running == pytest.approx((0.10005, 1.15, 1.0))
    assert resting == pytest.approx((0.10005, 1.15, 0.15))
    assert (running.is_worth_it, resting.is_worth_it) == (True, True)
    least = next(n for n in range(0, PROMPT_TOKENS, 100) if decision(DEAR, n, is_idle=True).is_worth_it)
    assert 0.15 * least * 11.5e-6 - least * 1e-6 == pytest.approx(LEAST_SAVINGS, abs=1e-4)
    assert not decision(DEAR, 0, is_idle=False).is_worth_it


@pytest.mark.parametrize(
    ("lifetime", "delay"), [(300.0, 270.0), (3600.0, 3240.0), (60.0, 50.0), (10.5, 0.5), (10.0, None), (0.0, None)]
)
def test_a_repetition_comes_in_time(lifetime: float, delay: float | None) -> None:
    assert delay_s(lifetime) == delay


def test_how_long_a_prompt_is_kept_follows_what_is_asked_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[float | None] = []
    for kept in ("short", "long", "none"):
        monkeypatch.setenv("PI_CACHE_RETENTION", kept)
        found.append(lifetime_s(DEAR))
    assert found == [300, 3600, None]


def test_a_model_that_thinks_within_a_budget_is_not_asked_again() -> None:
    claude: Model = {**DEAR, "api": "anthropic-messages"}
    request = LlmRequest(claude, "", (), (), "high", None, {}, "s")
    adaptive = request._replace(model={**claude, "compat": {"forceAdaptiveThinking": True}})
    cases = [request, request._replace(thinking_level="off"), adaptive, request._replace(model=DEAR)]
    assert list(map(is_repeatable, cases)) == [False, True, True, True]


# Keeps every cache, although this one is worth nothing.
KEEPS = """
def extension(pi):
    def decide(ctx, event):
        ctx.ui.notify(f"{event.action}, {event.continuation_probability:g}")
        return {"action": "warm"}

    pi.on("cache_warming_decision", decide)
"""


def test_a_server_gets_the_request_again_as_an_extension_decides(
    agent: AgentStarter, llm: Callable[..., Any], tmp_path: Path
) -> None:
    """A second passes before it: the shortest time there is."""
    extension = tmp_path / "keeps.py"
    extension.write_text(KEEPS)
    server = llm([{"text": "one"} for _ in range(20)])
    models: Any = pi_models(server.base_url)
    models["providers"]["fake"]["models"][0]["promptCache"] = {"short": 11}
    settings = {"cacheWarming": "idle"}
    pi = agent(server, "-e", str(extension), models=models, settings=settings, has_session=True)
    pi.say("hello")
    entry = pi.wait({"type": "entry_appended"})["entry"]
    first, again = (request.body for request in server.requests[:2])
    notice = pi.wait({"type": "extension_ui_request", "method": "notify"})["message"]

    assert again == {**first, "max_completion_tokens": 1}
    assert (entry["type"], entry["kind"], entry["model"]) == ("usage", "cache_warm", "m1")
    assert notice == "stop, 0.15"
    assert pi.ask("get_messages")["messages"][-1]["content"][0]["text"] == "one"
    (file,) = pi.home.sessions.rglob("*.jsonl")
    assert entry in [json.loads(line) for line in file.read_text().splitlines()]
