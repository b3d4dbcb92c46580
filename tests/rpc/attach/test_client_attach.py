"""`Client.attach` over real attach processes: each event once, each command at most once, whichever process is cut."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.rpc.attach.conftest import TIMEOUT_S, Connection, Host

from pinnace_rpc.client import AgentExited, AsyncioClient, BlockingClient, CommandFailed, Dialogs, RunFailed
from pinnace_rpc.host.protocol import Detach, EndAgent


def attached(connection: Connection, place: str, *, known: bool = False) -> None:
    """Accept a client, whose events begin behind this place."""
    connection.accept()
    epoch, _, seq = place.partition(":")
    record = {"type": "attached", "agent": "bot", "journal": "J", "epoch": int(epoch), "seq": int(seq)}
    say(connection, {**record, "knownClient": known})


def say(connection: Connection, *records: dict[str, Any]) -> None:
    connection.write(b"".join(json.dumps(record).encode() + b"\n" for record in records))


def command(connection: Connection) -> dict[str, Any]:
    """Return the next command."""
    line = b""
    while not line.endswith(b"\n"):
        line += connection.read(1)
    value: dict[str, Any] = json.loads(line)
    return value


def answer(connection: Connection, asked: dict[str, Any], data: dict[str, Any]) -> None:
    record = {"type": "response", "id": asked["id"], "command": asked["type"], "success": True, "data": data}
    say(connection, record)


def event(seq: int, kind: str = "note", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "seq": seq, **fields}


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@contextmanager
def client(host: Host, **options: Any) -> Generator[BlockingClient]:
    """A client that is left in order: its host lets it go."""
    agent = BlockingClient.attach("bot", cwd=host.folder, env=host.environment, **options)
    agent.__enter__()
    with ThreadPoolExecutor(1) as leaving:
        try:
            yield agent
        finally:
            left = leaving.submit(agent.__exit__, None, None, None)
            if host.connection is not None:
                with suppress(OSError):  # it has ended
                    host.connection.end()
            left.result(TIMEOUT_S)


def begin(threads: ThreadPoolExecutor, agent: BlockingClient, name: str, **fields: Any) -> Future[object]:
    return threads.submit(agent.request, name, **fields)


@pytest.mark.parametrize("cut", ["by the host", "kill -9"])
def test_a_cut_connection_is_replaced(host: Host, threads: ThreadPoolExecutor, cut: str) -> None:
    with client(host) as agent:
        events = agent.events()
        first = host.accept()
        attached(first, "1:0")
        result = begin(threads, agent, "set_model", modelId="m")
        asked = command(first)
        say(first, event(1), event(2))
        assert [next(events)["seq"], next(events)["seq"]] == [1, 2]  # type: ignore[typeddict-item]
        if cut == "kill -9":
            os.kill(agent.pid, signal.SIGKILL)
        else:
            first.close()

        second = host.accept()
        assert str(second.request.since) == "J.1:2"
        was_connected = agent.is_connected
        assert second.request.client == first.request.client
        attached(second, "1:3", known=True)
        say(second, event(2), event(3))
        assert command(second) == asked
        answer(second, asked, {"id": "m"})
        assert result.result(TIMEOUT_S) == {"id": "m"}
        assert next(events)["seq"] == 3  # type: ignore[typeddict-item]
        assert agent.cursor == "J.1:3"
        assert (was_connected, agent.is_connected) == (False, True)
        leaving = threads.submit(agent.__exit__, None, None, None)
        assert second.next_control() == Detach()
        second.end()
        leaving.result(TIMEOUT_S)
        assert [] == list(events)


def test_a_host_that_does_not_know_the_client_gets_messages_and_reads_again(
    host: Host, threads: ThreadPoolExecutor
) -> None:
    with client(host) as agent:
        first = host.accept()
        attached(first, "1:0")
        lost = begin(threads, agent, "set_model", modelId="m")
        command(first)
        prompt = begin(threads, agent, "prompt", message="go")
        asked = command(first)
        assert asked["messageId"]
        first.close()

        second = host.accept()
        attached(second, "1:0")
        with pytest.raises(CommandFailed) as failed:
            lost.result(TIMEOUT_S)
        assert failed.value.error_code == "outcome_unknown"
        assert command(second) == asked
        answer(second, asked, {"disposition": "duplicate", "state": "delivered"})
        prompt.result(TIMEOUT_S)


def test_a_run_ends_with_the_process_of_its_agent(host: Host, threads: ThreadPoolExecutor) -> None:
    with client(host) as agent:
        first = host.accept()
        attached(first, "1:0")
        run = threads.submit(agent.run, "go")
        answer(first, command(first), {"disposition": "started"})
        say(first, event(1, "agent_start"))
        say(first, {"type": "agent_restarted", "epoch": 2, "reason": "crash", "complete": False, "interrupted": True})
        with pytest.raises(RunFailed, match="another one has begun \\(crash\\)"):
            run.result(TIMEOUT_S)
        say(first, event(1))
        answer_state(first, begin(threads, agent, "get_state"))
        assert agent.cursor == "J.2:1"


def answer_state(connection: Connection, result: Future[object]) -> None:
    answer(connection, command(connection), {})
    result.result(TIMEOUT_S)


def test_a_run_whose_end_is_in_a_gap_ends_when_the_agent_is_idle(host: Host, threads: ThreadPoolExecutor) -> None:
    with client(host) as agent:
        first = host.accept()
        attached(first, "1:0")
        run = threads.submit(agent.run, "go")
        answer(first, command(first), {"disposition": "started"})
        say(first, event(1, "agent_start"), {"type": "truncated", "from": "J.1:1", "to": "J.1:90"})
        asked = command(first)
        assert asked["type"] == "get_state"
        answer(first, asked, {"isStreaming": False, "isCompacting": False, "pendingMessageCount": 0})
        run.result(TIMEOUT_S)
        assert agent.cursor == "J.1:90"


def test_a_dialog_is_asked_once_and_its_answer_arrives(host: Host) -> None:
    asked: list[object] = []

    def confirm(request: object) -> bool:
        asked.append(request)
        return True

    dialog = event(1, "extension_ui_request", id="d", method="confirm", title="?", message="!")
    with client(host, dialogs=Dialogs(confirm=confirm)):
        first = host.accept()
        attached(first, "1:0")
        say(first, dialog)
        given = command(first)
        assert (given["id"], given["confirmed"]) == ("d", True)
        first.close()

        second = host.accept()
        attached(second, "1:1")
        say(second, dialog)
        assert command(second) == given
    assert len(asked) == 1


@pytest.mark.parametrize(
    "end",
    [
        event(2, "extension_ui_resolved", id="d"),
        {"type": "agent_restarted", "epoch": 2, "reason": "crash", "complete": False, "interrupted": False},
    ],
)
def test_a_dialog_that_is_over_closes(host: Host, threads: ThreadPoolExecutor, end: dict[str, Any]) -> None:
    """Another client has answered it, or the process that asked has ended: nothing is answered here."""
    is_asked, is_closed = threading.Event(), threading.Event()

    async def confirm(_: object) -> bool:
        is_asked.set()
        try:
            await asyncio.sleep(TIMEOUT_S)
        finally:
            is_closed.set()
        return True

    async def converse() -> None:
        dialogs = Dialogs(confirm=confirm)
        async with AsyncioClient.attach("bot", cwd=host.folder, env=host.environment, dialogs=dialogs) as agent:
            await asyncio.to_thread(is_closed.wait, TIMEOUT_S)
            await agent.request("get_state")

    result = threads.submit(asyncio.run, converse())
    first = host.accept()
    attached(first, "1:0")
    say(first, event(1, "extension_ui_request", id="d", method="confirm", title="?", message="!"))
    assert is_asked.wait(TIMEOUT_S)
    say(first, end)
    asked = command(first)
    assert asked["type"] == "get_state"
    assert is_closed.is_set()
    answer(first, asked, {})
    assert first.next_control() == Detach()
    first.end()
    result.result(TIMEOUT_S)


def test_a_refusal_is_no_lost_connection(host: Host) -> None:
    with client(host) as agent:
        host.accept().refuse(1, "agent bot has failed")
        with pytest.raises(AgentExited, match="agent bot has failed"):
            agent.request("get_state")
        assert agent.exit_code == 1


def test_an_agent_without_a_name_ends_with_its_client(host: Host, threads: ThreadPoolExecutor) -> None:
    with BlockingClient.attach(cwd=host.folder, env=host.environment) as agent:
        first = host.accept()
        assert (first.request.is_new, first.request.agent) == (True, None)
        attached(first, "1:0")
        answer_state(first, begin(threads, agent, "get_state"))
        first.close()

        second = host.accept()
        assert (second.request.is_new, second.request.agent) == (False, "bot")
        attached(second, "1:0")
        leaving = threads.submit(agent.__exit__, None, None, None)
        assert second.next_control() == EndAgent(at_once=False)
        second.end()
        leaving.result(TIMEOUT_S)


def test_a_client_can_be_left_while_it_attaches_again(host: Host) -> None:
    began = time.monotonic()
    with client(host):
        for _ in range(4):  # the next try waits
            host.accept().close()
    assert time.monotonic() - began < TIMEOUT_S


def test_what_is_replayed_waits_for_the_first_reader(host: Host, threads: ThreadPoolExecutor) -> None:
    with client(host, since="J.1:4") as agent:
        first = host.accept()
        assert str(first.request.since) == "J.1:4"
        attached(first, "1:6")
        say(first, event(5), event(6))
        answer_state(first, begin(threads, agent, "get_state"))
        events = agent.events()
        assert [next(events).get("cursor"), next(events).get("cursor")] == ["J.1:5", "J.1:6"]


def test_a_client_on_asyncio_attaches(host: Host, threads: ThreadPoolExecutor) -> None:
    async def converse() -> object:
        async with AsyncioClient.attach("bot", cwd=host.folder, env=host.environment) as agent:
            return agent.cursor, await agent.request("get_state"), agent.cursor

    result = threads.submit(asyncio.run, converse())
    first = host.accept()
    attached(first, "1:7")
    answer(first, command(first), {"isStreaming": False})
    assert first.next_control() == Detach()
    first.end()

    assert result.result(TIMEOUT_S) == (None, {"isStreaming": False}, "J.1:7")
