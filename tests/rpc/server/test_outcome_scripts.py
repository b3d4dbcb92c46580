"""Any outcomes of the model, any commands at any moments: nothing is lost, nothing stays open, all comes to rest.

The real agent but for its pipes, its clock and its model: a scripted provider answers, fails, overflows, breaks off and
hangs as a script says, for answers and for summaries. Held of every script: I-QUE-1 to I-QUE-3, I-EVT-1 to I-EVT-11,
I-RSP-1, I-LLM-1, C-1, C-2, C-14.
"""

import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.rpc.server.tracing_client import TracingClient
from trio.testing import MockClock

from pinnace_agent.compaction.prompts import SYSTEM_PROMPT
from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.engine.client_bash import ShellJob, Shells
from pinnace_agent.engine.interpreter import EffectInterpreter
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.engine.run_recorder import user_message
from pinnace_agent.llm import providers
from pinnace_agent.llm.builder import FailureSigns, MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import STREAM_WITHOUT_REASON
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import Library
from pinnace_agent.shell.output import BashResult
from pinnace_agent.tools.base import ToolContext, ToolResult, text_result
from pinnace_agent.tools.bash import BashTool
from pinnace_fuzz.trials.reading import worded
from pinnace_rpc.server.dispatch import Dispatcher, OpenCommands
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import make_projection
from pinnace_spec.observers import Checks, End, Step, judge
from pinnace_spec.observers.verdicts import Record
from pinnace_spec.profiles.generations import generation
from pinnace_spec.records.messages import AssistantMessage, StopReason
from pinnace_spec.records.outputs import validate_output
from pinnace_spec.statechart.transitions import INITIAL
from pinnace_statechart.machine import Chart
from pinnace_statechart.state import ExtendedState
from pinnace_statechart.triggers import InternalEvent

# 1,000 scripts in the profiles of every day; in `long` as many as end before a test is taken for stuck.
SCRIPTS: Final = min(40_000, 20 * settings.default.max_examples) if settings.default else 1_000
# Four attempts, twice, for each of a dozen texts, each with summaries that are tried and halved as often as can be.
MAX_REQUESTS: Final = 2_000
# Of virtual time. The longest wait for one request is its silence; a day is for a livelock that takes its time.
REST_S: Final = 24 * 3600.0
SILENCE_S: Final = 300.0
# A power of two: sums are exact, and what ends at the same moment does.
TICK_S: Final = 1 / 16

Outcome = Literal[
    "ok", "full", "silent", "tool", "429", "429 in 5", "429 in 900", "500", "529", "401",
    "overflow", "cut", "hang", "mute", "length", "length tool", "no room",
]  # fmt: skip

REFUSALS: Final[Mapping[str, tuple[int, str, float | None]]] = {
    "429": (429, "Too many requests", None),
    "429 in 5": (429, "Too many requests", 5.0),
    "429 in 900": (429, "Too many requests", 900.0),
    "500": (500, "Internal error", None),
    "529": (529, "Overloaded", None),
    "401": (401, "Invalid API key", None),
    "overflow": (400, "prompt is too long: 9 tokens > 8 maximum", None),
}
WINDOW: Final = OFFLINE_MODEL["contextWindow"]
# What the provider says that it has counted: of a context with room, without, and more than there is.
COUNTS: Final[Mapping[str, int]] = {"full": WINDOW - 10, "silent": WINDOW + 10, "no room": WINDOW}
STOPS: Final[Mapping[str, StopReason]] = {
    "tool": "toolUse",
    "length": "length",
    "length tool": "length",
    "no room": "length",
}
KEEPS: Final = CompactionSettings(keep_recent_tokens=8)


def endless(first: Sequence[Outcome], then: Outcome) -> Iterator[Outcome]:
    yield from first
    while True:
        yield then


class ScriptedProvider:
    """Answers as a script says, in order, and in one way for ever when the script is over."""

    def __init__(self, script: "Script", nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.asked: list[list[str]] = []  # the users' texts in each request for an answer
        self.requests = 0
        self.ends_with_answer = False
        self.known: list[frozenset[str]] = []  # what was to be summarised before each of them
        self._summarised: set[str] = set()
        self._answers = endless(script.answers, script.last_answer)
        self._summaries = endless(script.summaries, script.last_summary)

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """As `Provider.stream`."""
        self.requests += 1
        if self.requests > MAX_REQUESTS:
            await trio.sleep_forever()
        is_summary = request.system_prompt == SYSTEM_PROMPT
        outcome = next(self._summaries if is_summary else self._answers)
        if is_summary:
            self._summarised.update(TEXTS.findall(json.dumps(request.messages)))
        else:
            self.asked.append(user_texts(request.messages))
            self.known.append(frozenset(self._summarised))
            # What has failed is gone before it is tried again: most providers refuse an answer as the last word.
            self.ends_with_answer |= request.messages[-1]["role"] == "assistant"
        await self._pause(TICK_S)
        if outcome in REFUSALS:
            status, text, wait_s = REFUSALS[outcome]
            builder.signs = FailureSigns(status, (), wait_s)
            builder.fail(f'{status}: {{"message":"{text}"}}')
        elif outcome == "mute":
            await self._pause(SILENCE_S)
            builder.fail("Request timed out: nothing came for 300 s")
        else:
            await self._answer(outcome, builder)

    async def _pause(self, delay_s: float) -> None:
        """Wait as for a socket: what has come is taken, though the wait be cancelled at the same moment."""
        ringing = trio.Event()

        async def ring() -> None:
            await trio.sleep(delay_s)
            ringing.set()

        self._nursery.start_soon(ring)
        await ringing.wait()

    async def _answer(self, outcome: Outcome, builder: MessageBuilder) -> None:
        builder.start()
        if outcome != "no room":
            for delta in ("some ", "words"):
                await builder.room()
                builder.text_delta("text", delta)
                await self._pause(TICK_S)
        if outcome == "hang":
            await self._pause(SILENCE_S)
            builder.fail("Request timed out: nothing came for 300 s")
            return
        if outcome == "cut":
            builder.fail(STREAM_WITHOUT_REASON)
            return
        if outcome in {"tool", "length tool"}:
            builder.toolcall_start("call", f"call_{self.requests}", "bash")
            builder.toolcall_delta("call", '{"command":"wait"}')
        said = 0 if outcome == "no room" else 2
        builder.usage = usage_of(builder.model, RequestTokens(input=COUNTS.get(outcome, 100), output=said))
        builder.finish(STOPS.get(outcome, "stop"))


class Silence:
    """Takes updates and tells nobody."""

    def started(self, message: AssistantMessage) -> None:
        pass

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        pass

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()


class WaitingTool(BashTool):
    """Stands in for the shell, whose real processes live in real time."""

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Take two ticks."""
        await trio.sleep(2 * TICK_S)
        return text_result("waited")


class WaitingShells(Shells):
    """Likewise, for the client's own commands."""

    async def _run(self, shell: ShellJob, told: Callable[[str], None]) -> None:
        await trio.sleep(3 * TICK_S)
        shell.output.feed(b"done\n")
        shell.result = BashResult(output="done\n", exitCode=0, cancelled=False, truncated=False)


class Send(NamedTuple):
    """A command, some time after the one before."""

    delay_ticks: float
    command: dict[str, Any]


class Script(NamedTuple):
    """What a model does, what a client does, and how it ends."""

    answers: list[Outcome]
    last_answer: Outcome
    summaries: list[Outcome]
    last_summary: Outcome
    sends: list[Send]
    end: Literal["stop_drain", "stop_abort"] = "stop_drain"
    rest_ticks: float = 0
    has_past: bool = False
    """The session has an exchange already, so that there is something to compact."""


ANSWERS: Final[tuple[Outcome, ...]] = (
    "ok", "ok", "full", "silent", "tool", "tool", "429", "429 in 5", "429 in 900", "500", "529", "401",
    "overflow", "overflow", "cut", "hang", "mute", "length", "length tool", "no room",
)  # fmt: skip
# A model that calls tools for ever is one that works for ever.
LAST_ANSWERS: Final[tuple[Outcome, ...]] = (
    "ok", "ok", "ok", "full", "silent", "500", "401", "overflow", "cut", "mute", "length", "no room",
)  # fmt: skip
SUMMARIES: Final[tuple[Outcome, ...]] = ("ok", "ok", "500", "401", "overflow", "cut", "hang", "length", "tool")
LAST_SUMMARIES: Final[tuple[Outcome, ...]] = ("ok", "ok", "ok", "500", "401", "overflow")
# At once; within an answer, a tool, a retry's delay; beyond each of them; beyond a silence. Most are sums of the times
# that the model and the tool take, so that commands come at the very moment when something ends.
DELAYS_TICKS: Final = (0, 0, 0, 0.5, 1, 1, 2, 3, 4, 16, 32, 64, 80, 320, 6_400)
TEXT: Final = "words enough to be worth a summary"
COMMANDS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "prompt"},
    {"type": "prompt"},
    {"type": "prompt"},
    {"type": "prompt", "streamingBehavior": "steer"},
    {"type": "prompt", "streamingBehavior": "followUp"},
    {"type": "steer"},
    {"type": "steer"},
    {"type": "follow_up"},
    {"type": "follow_up"},
    {"type": "abort"},
    {"type": "abort", "queue": "hold"},
    {"type": "abort", "queue": "clear"},
    {"type": "abort", "queue": "continue"},
    {"type": "abort_retry"},
    {"type": "compact"},
    {"type": "compact"},
    {"type": "compact", "customInstructions": "Look at the names."},
    {"type": "set_auto_retry", "enabled": False},
    {"type": "set_auto_retry", "enabled": True},
    {"type": "set_auto_compaction", "enabled": False},
    {"type": "set_auto_compaction", "enabled": True},
    {"type": "set_steering_mode", "mode": "all"},
    {"type": "set_follow_up_mode", "mode": "all"},
    {"type": "clear_queue"},
    {"type": "new_session"},
    {"type": "bash", "command": "wait"},
    {"type": "abort_bash"},
    {"type": "get_state"},
    {"type": "get_messages"},
)
TEXTS: Final = re.compile(rf"{TEXT} #\d+")
PAST: Final = "what was said in the past"
TEXT_COMMANDS: Final = ("prompt", "steer", "follow_up")

SCRIPT: Final = st.builds(
    Script,
    st.lists(st.sampled_from(ANSWERS), max_size=10),
    st.sampled_from(LAST_ANSWERS),
    st.lists(st.sampled_from(SUMMARIES), max_size=4),
    st.sampled_from(LAST_SUMMARIES),
    st.lists(st.builds(Send, st.sampled_from(DELAYS_TICKS), st.sampled_from(COMMANDS)), max_size=12),
    st.sampled_from(("stop_drain", "stop_drain", "stop_abort")),
    st.sampled_from(DELAYS_TICKS),
    st.booleans(),
)


def text_of(number: int) -> str:
    return f"{TEXT} #{number}"


def user_texts(messages: Sequence[Record]) -> list[str]:
    texts = (message["content"][0]["text"] for message in messages if message["role"] == "user")
    return [text for text in texts if text != PAST]


class Played(NamedTuple):
    """What came of a script."""

    records: list[dict[str, Any]]
    trace: list[Step]
    """What was sent and written."""
    after: int
    """The last step before the input ended."""
    asked: list[list[str]]
    known: list[frozenset[str]]
    ends_with_answer: bool
    """Some request did."""
    branch: list[str]
    """The users' texts of the session in force at the end, also those that a summary stands for."""
    has_rested: bool
    defects: list[str]
    """What was logged as an error."""


@contextmanager
def spoken_by(provider: ScriptedProvider) -> Generator[None]:
    """Let a provider speak the API that needs no network."""
    known = providers._providers.get()  # pyright: ignore[reportPrivateUsage]  # a registry, with no other way in
    former = providers.find_provider("offline")
    assert former is not None
    known["offline"] = provider
    try:
        yield
    finally:
        known["offline"] = former


REGISTRY: Final = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent"))[1]
PROFILE: Final = AgentProfile(REGISTRY, {"bash": WaitingTool()}, lambda _: "You rehearse.", compaction=KEEPS)


# Building one takes longer than most scripts; each script gets one of which nothing is left but the rows.
CHARTS: Final[list[Chart]] = []


def new_session(*, has_past: bool) -> Session:
    session = Session("/nonexistent")
    session.model, session.thinking_level = OFFLINE_MODEL, "off"
    if has_past:
        session.keep(user_message(PAST, (), session.now_ms()))
        builder = MessageBuilder(OFFLINE_MODEL, Silence(), session.now_ms())
        builder.start()
        builder.text_delta("text", TEXT)
        builder.finish("stop")
        session.keep(builder.message)
    return session


async def perform(script: Script) -> Played:
    session = new_session(has_past=script.has_past)
    chart = CHARTS.pop() if CHARTS else Chart()
    chart.restore(dict(INITIAL), ExtendedState())
    outbox, client, done = Outbox(make_projection("1.5")), TracingClient(), trio.Event()
    commands = OpenCommands(outbox, done.set)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.pump, client)
        provider = ScriptedProvider(script, nursery)
        with spoken_by(provider):
            async with trio.open_nursery() as jobs_nursery:
                jobs = Jobs(jobs_nursery)
                host = EffectInterpreter(chart, session, Library(None), PROFILE, outbox, commands, jobs)
                host.shells = WaitingShells(jobs, PROFILE, outbox, lambda: None, lambda: None)
                dispatcher = Dispatcher(commands, host)
                for number, send in enumerate(script.sends):
                    await trio.sleep(send.delay_ticks * TICK_S)
                    command = {"id": str(number), **send.command}
                    if command["type"] in TEXT_COMMANDS:
                        command["message"] = text_of(number)
                    line = json.dumps(command).encode()
                    client.note("in", line)
                    dispatcher.receive(line)
                await trio.sleep(script.rest_ticks * TICK_S)
                after = len(client.trace)
                host.submit(InternalEvent(script.end))
                with trio.move_on_after(REST_S):
                    await done.wait()
                jobs_nursery.cancel_scope.cancel()
        outbox.close()
        nursery.cancel_scope.deadline = trio.current_time() + 1  # of pauses that nobody waits for
    CHARTS.append(chart)  # unless something was raised
    tree = host.session.tree
    entries = [tree.entries[place] for place in tree.path(tree.leaf)]
    messages = [cast(Record, entry["message"]) for entry in entries if entry["type"] == "message"]
    branch = user_texts(messages)
    return Played(
        client.records,
        client.trace,
        after,
        provider.asked,
        provider.known,
        provider.ends_with_answer,
        branch,
        done.is_set(),
        [],
    )


class ErrorLog(logging.Handler):
    """Remembers errors: what the boundaries of the agent keep from clients."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


def play(script: Script) -> Played:
    """Let an agent take a script, then end its input; return what came of it."""
    logger, log = logging.getLogger("pinnace"), ErrorLog()
    logger.addHandler(log)
    try:
        played = trio.run(perform, script, clock=MockClock(autojump_threshold=0))
    finally:
        logger.removeHandler(log)
    return played._replace(defects=log.texts)


def find_problems(script: Script, played: Played) -> list[str]:
    """Say what is wrong with what came of a script."""
    records = played.records
    if not played.has_rested:
        return ["it never comes to rest", *map(str, records[-20:])]
    checks = Checks(is_ours=True, is_fresh=not script.has_past)
    problems = worded(judge(played.trace, End("exit", 0, after=played.after), generation("1.5"), checks))
    problems += [problem for record in records for problem in validate_output(record, "1.5")]
    answers = Counter(record["id"] for record in records if record["type"] == "response")
    numbers = range(len(script.sends))
    problems += [f"{n} is answered {answers[str(n)]} times" for n in numbers if answers[str(n)] != 1]
    problems += [f"response to nothing: {command_id}" for command_id in answers if int(command_id) not in numbers]
    problems += [*played.defects, *settling(records), *internal(records), *pending(records), *stranded(script, records)]
    return [*problems, *starts(script, records), *fates(script, played), *contexts(script, played)]


def internal(records: Sequence[Record]) -> list[str]:
    """Nothing that a script can do is a defect."""
    return [f"internal error: {record}" for record in records if "Internal error:" in json.dumps(record)]


def settling(records: Sequence[Record]) -> list[str]:
    """Check that after the last work of a run there is one word that all is done (I-EVT-11)."""
    kinds = [record["type"] for record in records]
    works = [place for place, kind in enumerate(kinds) if kind == "agent_start"]
    if not works:
        return []
    problems = [] if kinds[works[-1] :].count("agent_settled") >= 1 else ["the last run has not settled"]
    for first, second in itertools.pairwise(place for place, kind in enumerate(kinds) if kind == "agent_settled"):
        if not {"response", "agent_start"} & set(kinds[first:second]):
            problems.append("it settles twice")
    return problems


def pending(records: Sequence[Record]) -> list[str]:
    """Check that `get_state` counts what the queues have told (I-QUE-1)."""
    problems: list[str] = []
    count = 0
    for record in records:
        if record["type"] == "queue_update":
            count = len(record["steering"]) + len(record["followUp"])
        if record["type"] == "response" and record["command"] == "get_state":
            told = record["data"]["pendingMessageCount"]
            problems += [f"get_state counts {told} of {count} queued texts"] if told != count else []
    return problems


def stranded(script: Script, records: Sequence[Record]) -> list[str]:
    """Check that nothing is queued when all is said to be done, unless an abort holds it (I-QUE-5, C-1, C-2)."""
    problems: list[str] = []
    count, is_held = 0, False
    for place, record in enumerate(records):
        match record["type"]:
            case "queue_update":
                count = len(record["steering"]) + len(record["followUp"])
            case "response" if record["command"] in {"abort", *TEXT_COMMANDS} and record["success"]:
                is_held = holds(script, record)
            case "agent_settled" if count and not is_held:
                # The abort that has ended the work is answered next.
                following = [each for each in records[place:] if each["type"] in {"response", "agent_start"}]
                answers = itertools.takewhile(lambda each: each["type"] == "response", following)
                if not any(holds(script, each) for each in answers) and script.end == "stop_drain":
                    problems.append(f"{count} texts are queued and all is said to be done")
            case _:
                pass
    return problems


def holds(script: Script, record: Record) -> bool:
    """Say whether a response is that of an abort that holds what is queued."""
    command = script.sends[int(record["id"])].command
    return bool(command["type"] == "abort" and command.get("queue") != "continue")


def starts(script: Script, records: Sequence[Record]) -> list[str]:
    """Check that after an abort was answered nothing starts for what came before it (C-1, C-7)."""
    aborted = -1
    problems: list[str] = []
    texts = [n for n, send in enumerate(script.sends) if send.command["type"] in TEXT_COMMANDS]
    compacts = [n for n, send in enumerate(script.sends) if send.command["type"] == "compact"]
    accepted = -1
    for record in records:
        if record["type"] == "response":
            number = int(record["id"])
            command = script.sends[number].command
            if command["type"] == "abort":
                aborted = number if command.get("queue") != "continue" else -1
            elif number in texts and record["success"]:
                accepted = max(accepted, number)
        # A prompt may have the context compacted before it is accepted; and settles if it is refused.
        may_compact = any(n > aborted for n in (*texts, *compacts))
        kind = record["type"]
        if aborted >= 0 and kind == "agent_settled" and not may_compact:
            problems.append(f"it settles after abort {aborted} was answered")
        if kind in {"agent_start", "auto_retry_start"} and accepted < aborted:
            problems.append(f"{kind} after abort {aborted}, though {accepted} was the last text accepted")
        if kind == "compaction_start" and not may_compact:
            problems.append(f"a compaction starts after abort {aborted} for nothing")
    return problems


def fates(script: Script, played: Played) -> list[str]:
    """Check that each accepted text was delivered once, or handed back once; and each refused one never (I-QUE-2)."""
    returned = Counter[str]()
    accepted: set[str] = set()
    queue: set[str] = set()
    for record in played.records:
        if record["type"] == "queue_update":
            queue = {*record["steering"], *record["followUp"]}
        if record["type"] == "response" and record["success"]:
            number = int(record["id"])
            if script.sends[number].command["type"] in TEXT_COMMANDS:
                accepted.add(text_of(number))
            data: Record = record.get("data") or {}
            cleared: Record = data.get("cleared") or (data if record["command"] == "clear_queue" else {})
            returned.update([*cleared.get("steering", ()), *cleared.get("followUp", ())])
    # The session keeps what is queued when all ends; it is reported behind the end of the input, by a drain last.
    lasts = [step.record for step in played.trace if step.number > played.after and step.direction == "out"]
    if script.end == "stop_drain":
        lasts = lasts[-1:]
    is_kept = any(record is not None and record["type"] == "queue_update" for record in lasts)
    if is_kept:
        returned.update(queue)
    problems = [f"the queue still shows {queue}"] if queue and not is_kept else []
    told = Counter(delivered(played.records))
    for number, send in enumerate(script.sends):
        text = text_of(number)
        if send.command["type"] in TEXT_COMMANDS and told[text] + returned[text] != (text in accepted):
            problems.append(
                f"{number}: accepted {text in accepted}, delivered {told[text]}, returned {returned[text]} times"
            )
    return [*problems, *order(script, played.records)]


def delivered(records: Sequence[Record]) -> list[str]:
    return user_texts([record["message"] for record in records if record["type"] == "message_end"])


def order(script: Script, records: Sequence[Record]) -> list[str]:
    """Check that neither queue is overtaken by itself (I-QUE-3)."""
    numbers = [int(text.rpartition("#")[2]) for text in delivered(records)]
    problems: list[str] = []
    for name, behavior in (("steer", "steer"), ("follow_up", "followUp")):
        queued = [
            number
            for number in numbers
            if (command := script.sends[number].command)["type"] == name or command.get("streamingBehavior") == behavior
        ]
        # A prompt with a behaviour starts at once when nothing runs, whatever an abort holds.
        queued = [number for number in queued if script.sends[number].command["type"] != "prompt"]
        problems += [f"{name} out of order: {queued}"] if queued != sorted(queued) else []
    return problems


def contexts(script: Script, played: Played) -> list[str]:
    """Check that each text that was delivered is in the session, and in what the model is sent, once (I-LLM-1)."""
    told = delivered(played.records)
    problems = [] if played.branch == told[len(told) - len(played.branch) :] else [f"in the session: {played.branch}"]
    renewals = [r for r in played.records if r["type"] == "response" and r["command"] == "new_session"]
    has_renewed = any(record["success"] and not record["data"]["cancelled"] for record in renewals)
    if not has_renewed and played.branch != told:
        problems.append(f"delivered {told}, in the session {played.branch}")
    if played.ends_with_answer:
        problems.append("a request ends with an answer")
    end = 0
    for asked, known in zip(played.asked, played.known, strict=True):
        first = told.index(asked[0]) if asked and asked[0] in told else 0
        if asked and asked != told[first : first + len(asked)]:
            problems.append(f"sent {asked} of {told}")
        if not has_renewed and not known.issuperset(told[:first]):
            problems.append(f"sent {asked} of {told}, of which only {known} were summarised")
        if asked and first + len(asked) < end:
            problems.append(f"sent {asked} after more had been sent")
        end = max(end, first + len(asked))
    return problems


@example(Script(["429", "no room"], "ok", [], "ok", [Send(0, {"type": "prompt"})]))  # a failure without words
@settings(max_examples=SCRIPTS)
@given(SCRIPT)
def test_any_outcomes_under_any_commands_lose_nothing_and_come_to_rest(script: Script) -> None:
    """I-QUE-2, I-EVT-9, I-EVT-10, I-EVT-11, and every promise beside them."""
    played = play(script)

    assert [] == find_problems(script, played)


def test_a_script_of_every_kind_retries_overflows_and_compacts() -> None:
    """The property above is not vacuous: this script has each thing that it is about, and texts in every phase."""
    prompt, steer, follow_up = {"type": "prompt"}, {"type": "steer"}, {"type": "follow_up"}
    script = Script(
        answers=["429 in 5", "529", "tool", "ok", "overflow", "ok", "full", "ok", "cut", "401"],
        last_answer="ok",
        summaries=["500", "ok", "ok", "ok"],
        last_summary="ok",
        sends=[
            Send(0, prompt),
            Send(4, steer),  # within the first delay
            Send(400, follow_up),  # overflows
            Send(8, steer),  # while that is compacted
            Send(800, prompt),  # fills the context
            Send(5, follow_up),  # while the summary of that is written
            Send(400, {"type": "compact"}),
            Send(1, {"type": "prompt", "streamingBehavior": "followUp"}),
            Send(400, prompt),
            Send(3, {"type": "abort", "queue": "continue"}),
        ],
        rest_ticks=6_400,
        has_past=True,
    )
    played = play(script)
    kinds = Counter(record["type"] for record in played.records)
    reasons = [record["reason"] for record in played.records if record["type"] == "compaction_end"]
    delays_ms = [record["delayMs"] for record in played.records if record["type"] == "auto_retry_start"]

    assert [] == find_problems(script, played)
    assert 8 == len(delivered(played.records))
    assert ["overflow", "threshold", "manual"] == reasons
    assert [5_000, 2_000, 2_000] == delays_ms  # each after a text of its own
    assert kinds["tool_execution_end"] == 1
