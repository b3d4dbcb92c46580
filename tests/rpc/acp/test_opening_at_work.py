"""A session that is opened while its agent works, at every place of a run: the client is shown all of it once.

The records and the answers are those of a real agent. Only their order is made here, since none can be brought about
from outside: what comes before the state is read, before the entries are, and before the client knows the session.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import trio
from tests.rpc.acp.v2.conftest import essence
from trio.testing import wait_all_tasks_blocked

from pinnace_fuzz.acp.agent import OBSERVERS
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_rpc.acp.client_files import ClientFiles
from pinnace_rpc.acp.core import EditorAgent
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.router import choose
from pinnace_rpc.acp.session import Session, open_session
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.version import Client

Json = dict[str, Any]

CALL = {"name": "bash", "args": {"command": "true"}, "id": "of both"}
SCRIPT: Sequence[Scripted] = [{"text": "look", "tool_calls": [CALL, CALL]}, {"text": ["o", "ne"]}]
SHOWN = {"text_delta", "toolcall_start", "toolcall_end"}
"""The deltas that show something."""
END = {"type": "agent_settled"}


class Run:
    """A run of a real agent: its records, its entries, and the agent itself, which is idle behind it."""

    def __init__(self, agent: HomedAgent) -> None:
        self.agent = agent
        begun = agent.mark()
        agent.request({"type": "prompt", "message": "a"})
        agent.wait(END)
        records: list[Json] = [dict(each.record) for each in agent.records[begun:]]
        self.records = [each for each in records if each["type"] != "response" and _shows(each)]
        self.entries: list[Json] = agent.ask("get_entries")["entries"]
        self._answers: dict[str, Json] = {}

    def answer(self, command: Json, place: int) -> Json:
        """Return the answer to a command between the records before a place and those from there on."""
        kind = command["type"]
        if kind not in self._answers:
            self._answers[kind] = dict(self.agent.request({"type": kind}))
        answer = {**self._answers[kind], "id": command["id"]}
        if kind == "get_state":
            answer["data"] = {**answer["data"], "isStreaming": 0 < place < len(self.records)}
        elif kind == "get_entries":
            later = {each["entryId"] for each in self.records[place:] if each["type"] == "message_end"}
            entries = [each for each in self.entries if each["id"] not in later]
            answer["data"] = {"entries": entries, "leafId": entries[-1]["id"] if entries else None}
        return answer


def _shows(record: Json) -> bool:
    return record["type"] != "message_update" or record["assistantMessageEvent"]["type"] in SHOWN


class Pipes:
    """The pipes of an agent that answers as the real one did, with its records at chosen places."""

    def __init__(self, run: Run, places: Mapping[str, int], known: int, first: int) -> None:
        """Begin.

        Args:
            run: What is recorded.
            places: A command -> the number of records before its first answer.
            known: The number of records that come with the entries, before the client knows the session.
            first: The number of records that came before.
        """
        self._run = run
        self._places = dict(places)
        self._known = known
        self._next = first
        self._lines, self._received = trio.open_memory_channel[bytes](100)
        self.stdin: trio.abc.SendStream = _Stdin(self._take)
        self.stdout: trio.abc.ReceiveStream = _Stdout(self._received)

    def release(self, place: int | None = None) -> None:
        """Send the records before a place; None: all."""
        self._send(self._until(len(self._run.records) if place is None else place))

    def kill(self) -> None: ...

    def stderr_tail(self) -> str:
        return ""

    async def wait(self) -> int | None:
        await trio.Event().wait()
        return None

    def _take(self, line: bytes) -> None:
        command: Json = json.loads(line)
        before = self._until(self._places.pop(command["type"], self._next))
        answer = self._run.answer(command, self._next)
        behind = self._until(self._known) if command["type"] == "get_entries" else []
        self._send([*before, answer, *behind])

    def _until(self, place: int) -> list[Json]:
        first, self._next = self._next, max(self._next, place)
        return self._run.records[first : self._next]

    def _send(self, records: Iterable[Json]) -> None:
        if data := b"".join(json.dumps(each).encode() + b"\n" for each in records):
            self._lines.send_nowait(data)


class _Stdin(trio.abc.SendStream):
    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        for line in bytes(data).splitlines():
            self._take(line)

    async def wait_send_all_might_not_block(self) -> None: ...

    async def aclose(self) -> None: ...


class _Stdout(trio.abc.ReceiveStream):
    def __init__(self, received: trio.MemoryReceiveChannel[bytes]) -> None:
        self._received = received

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._received.receive()

    async def aclose(self) -> None: ...


class Screen:
    """What the client has received, held to the rules of the order of messages."""

    def __init__(self, version: int, *, history: bool) -> None:
        self._observer = OBSERVERS[version]()
        self._method = "session/load" if history and version == 1 else "session/resume"
        self.messages: list[Json] = []
        self.faults: list[str] = []

    def ask(self, session: str) -> None:
        self._observer.sent({"id": 1, "method": self._method, "params": {"sessionId": session}})

    async def send_all(self, data: bytes) -> None:
        for line in data.splitlines():
            message: Json = json.loads(line)
            self.messages.append(message)
            self.faults += map(str, self._observer.received(message))

    @property
    def updates(self) -> list[Json]:
        return [each["params"]["update"] for each in self.messages if each.get("method") == "session/update"]


async def shown(
    run: Run,
    version: int,
    places: Mapping[str, int],
    known: int,
    *,
    history: bool = True,
    again: int | None = None,
    first: int = 0,
) -> Screen:
    """Open the session with an agent at work, let its run end, and return what the client has received.

    Args:
        run: What the agent has recorded.
        version: Of the protocol.
        places: A command -> the number of records before its first answer.
        known: The number of records before the client knows the session.
        history: Whether the conversation is shown.
        again: The number of records before the session is opened once more; then only what comes from there on counts.
        first: The number of records that the agent has sent before.
    """
    translation = choose(version)
    client = Client(translation, translation.abilities(Params({})))
    screen, outbox, pipes, files = (
        Screen(version, history=history),
        Outbox(),
        Pipes(run, places, known, first),
        set[ClientFiles](),
    )
    async with trio.open_nursery() as nursery:
        core = EditorAgent(pipes, outbox.room, lambda: None)
        nursery.start_soon(core.run)
        nursery.start_soon(outbox.pump, screen)
        session = await open_session(core, "/w", outbox, client, nursery, files)
        await _opened(session, screen, outbox, shows=history)
        if again is not None:
            pipes.release(again)
            await wait_all_tasks_blocked()
            screen.messages.clear()
            await _opened(session, screen, outbox, shows=True)
        pipes.release()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return screen


async def _opened(session: Session, screen: Screen, outbox: Outbox, *, shows: bool) -> None:
    """Take the steps of a request that opens a session."""
    screen.ask(session.id)
    await session.join(shows=shows)
    await session.prepare()
    session.synchronize()
    outbox.respond(1, session.described())
    session.announce()


@pytest.fixture(scope="module")
def run(module_agent: AgentStarter) -> Run:
    return Run(module_agent(SCRIPT, "--protocol", "1.5", has_session=True))


def places(run: Run) -> Iterator[tuple[dict[str, int], int]]:
    """Yield places of the reads of the state and of the entries, and how far the run is when the client knows it."""
    count = len(run.records)
    for entries in range(count + 1):
        for state in {0, 1, entries // 2, max(entries - 1, 0), entries}:
            if state <= entries:
                for known in {entries, (entries + count) // 2, count}:
                    yield {"get_state": state, "get_entries": entries}, known


def conversation(updates: Iterable[Json]) -> tuple[list[tuple[str, str]], list[object]]:
    """Return each message with its text, and the last status of each call, as a client has them in the end."""
    texts, calls = essence(updates)
    return [(kind, said) for (kind, _), said in texts.items()], [call["status"] for call in calls.values()]


TEXTS = [("user_message", "a"), ("agent_message", "look"), ("agent_message", "one")]


@pytest.mark.parametrize("version", [1, 2])
async def test_all_of_a_run_is_shown_once_wherever_it_is_met(run: Run, version: int) -> None:
    """No part is missing or comes twice, and none comes outside of work that is announced."""
    for at, known in places(run):
        screen = await shown(run, version, at, known)
        texts, calls = conversation(screen.updates)
        where = f"{at}, {known}, of {[each['type'] for each in run.records]}: {screen.updates}"

        assert screen.faults == [], where
        assert texts == TEXTS, where
        assert calls == ["completed"] * 2, where
        assert ends_idle(screen.updates), where


async def test_without_history_the_end_of_a_run_is_shown_from_where_it_is_met(run: Run) -> None:
    for at, known in places(run):
        screen = await shown(run, 1, at, known, history=False)
        texts, calls = conversation(screen.updates)
        where = f"{at}, {known}, of {[each['type'] for each in run.records]}: {screen.updates}"

        assert screen.faults == [], where
        assert texts == TEXTS[len(TEXTS) - len(texts) :], where
        assert calls in ([], ["completed"], ["completed"] * 2), where
        assert ends_idle(screen.updates), where


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("history", [True, False])
async def test_of_a_run_that_has_ended_when_the_state_is_read_nothing_is_shown_but_its_entries(
    run: Run, version: int, *, history: bool
) -> None:
    """It had begun before the agent was reached, so its last records have no beginning."""
    count = len(run.records)
    for first in range(1, count + 1):
        at = {"get_state": count, "get_entries": count}
        screen = await shown(run, version, at, count, history=history, first=first)
        texts, calls = conversation(screen.updates)

        assert screen.faults == [], f"from {first} of {[each['type'] for each in run.records]}: {screen.updates}"
        assert texts == (TEXTS if history else [])
        assert calls == ["completed"] * 2 * history
        assert ends_idle(screen.updates)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_that_is_opened_again_during_a_run_is_shown_whole(run: Run, version: int) -> None:
    """Also between the end of a call and its entry, which comes when all calls have ended."""
    start = {"get_state": 0, "get_entries": 0}
    for again in range(len(run.records) + 1):
        screen = await shown(run, version, start, 0, again=again)
        texts, calls = conversation(screen.updates)
        where = f"{again} of {[each['type'] for each in run.records]}: {screen.updates}"

        assert screen.faults == [], where
        assert texts == TEXTS, where
        assert calls == ["completed"] * 2, where
        assert ends_idle(screen.updates), where


def ends_idle(updates: Iterable[Json]) -> bool:
    """Whether the last that a client was told of work is that there is none."""
    is_idle = True
    for update in updates:
        if update["sessionUpdate"] == "state_update":
            is_idle = update["state"] == "idle"
        elif "running" in (pinnace := update.get("_meta", {}).get("pinnace", {})):
            is_idle = not pinnace["running"]
    return is_idle
