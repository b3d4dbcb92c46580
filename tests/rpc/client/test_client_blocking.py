"""The blocking client: the same, from any thread, and gone with what started it."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.process_tree import await_end, processes_of, words_of
from pinnace_fuzz.trials.workbench import LEFT_BEHIND_TIMEOUT_S
from pinnace_rpc.client import AgentExited, BlockingClient, ClientClosed, CommandFailed

Prepare = Callable[..., Any]
PATIENCE_S = 60.0


def test_a_run_a_stream_and_a_command_return_what_the_async_ones_do(prepare: Prepare) -> None:
    with prepare([{"text": "one"}, {"text": ["two", " three"]}]).blocking() as client:
        assert "one" == client.run("go").text
        assert "two three" == "".join(client.stream_text("go on"))
        assert 4 == client.get_state()["messageCount"]
        with pytest.raises(CommandFailed):
            client.prompt("")
    with pytest.raises(ClientClosed):
        client.get_state()


def test_events_are_an_iterator(prepare: Prepare) -> None:
    with prepare([{"text": "one"}]).blocking() as client:
        events = client.events()
        client.run("go")
    kinds = [event["type"] for event in events]

    assert ["agent_start", "agent_settled"] == [kinds[0], kinds[-1]]


def test_events_that_were_dropped_are_not_kept(stand_in_command: list[str], marked: dict[str, str]) -> None:
    with BlockingClient(stand_in_command, env=marked) as client:
        hub = client._portal.context._open.link.hub
        events = client.events()
        client.request("anything")
        assert 1 == len(hub._mailboxes)
        del events
        client.request("anything")

        assert 0 == len(hub._mailboxes)


def test_leaving_a_stream_early_aborts_the_run(prepare: Prepare) -> None:
    with prepare([{"text": ["x", {"gate": "never"}, "y"]}]).blocking() as client:
        for piece in client.stream_text("go"):
            assert "x" == piece
            break

        assert not client.get_state()["isStreaming"]


@pytest.mark.parametrize("is_in_clients_thread", [False, True], ids=["this thread", "the client's"])
def test_a_stream_in_a_reference_cycle_is_aborted_when_it_is_collected(
    prepare: Prepare, is_in_clients_thread: bool
) -> None:
    """Whichever thread collects, it does not wait; the next call does."""

    async def collect() -> None:
        gc.collect()

    gc.disable()
    try:
        with prepare([{"text": ["x", {"gate": "never"}, "y"]}]).blocking() as client:
            stream = client.stream_text("go")
            assert "x" == next(stream)
            gone = weakref.ref(stream)
            cycle: list[Any] = [stream]
            cycle.append(cycle)
            del stream, cycle
            assert client.get_state()["isStreaming"]
            if is_in_clients_thread:
                client._portal.call(collect)
            else:
                gc.collect()

            assert gone() is None
            assert not client.get_state()["isStreaming"]
    finally:
        gc.enable()


def test_a_stream_can_be_closed_and_reports_what_there_is(prepare: Prepare) -> None:
    with prepare([{"text": ["x", {"gate": "never"}, "y"]}]).blocking() as client:
        with client.stream_text("go") as pieces:
            assert "x" == next(pieces)

        assert not client.get_state()["isStreaming"]
        assert ["user"] == [message["role"] for message in pieces.result.messages][:1]
        assert [] == list(pieces)


def test_a_client_that_was_left_is_collected_with_its_streams_and_events(prepare: Prepare) -> None:
    with prepare([{"text": "one"}]).blocking() as client:
        events, stream = client.events(), client.stream_text("go")
        assert "one" == "".join(stream)
    gone = [weakref.ref(each) for each in (client, events, stream, client._portal)]
    del client, events, stream
    gc.collect()

    assert [None] * 4 == [each() for each in gone]


def test_several_threads_may_call_at_a_time_and_several_clients_live_beside_each_other(prepare: Prepare) -> None:
    with prepare().blocking() as first, prepare().blocking() as second, ThreadPoolExecutor(8) as pool:
        pids = list(pool.map(lambda client: client.get_state()["pid"], [first, second] * 20))

        assert {first.pid, second.pid} == set(pids)
        assert pids[0] != pids[1]


def test_its_death_is_raised_in_the_thread_that_calls(stand_in_command: list[str], marked: dict[str, str]) -> None:
    with BlockingClient(stand_in_command, env=marked) as client:
        with pytest.raises(AgentExited, match="code 5"):
            client.request("die", code=5)
        with pytest.raises(AgentExited):
            next(client.events())


def test_leaving_ends_the_calls_of_other_threads(stand_in_command: list[str], marked: dict[str, str]) -> None:
    told: list[BaseException] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            client.request("unanswered")
        except ClientClosed as error:
            told.append(error)

    with BlockingClient(stand_in_command, env=marked) as client:
        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        client.request("anything")
    thread.join(PATIENCE_S)

    assert 1 == len(told)


def test_a_command_that_can_not_be_started_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), BlockingClient([str(tmp_path / "nothing")]):
        pass


def test_a_call_before_the_block_is_refused(stand_in_command: list[str]) -> None:
    with pytest.raises(ClientClosed):
        BlockingClient(stand_in_command).get_state()


INTERRUPTED = """
import sys
from pinnace import BlockingClient
with BlockingClient(sys.argv[1:]) as client:
    events = client.events()
    client.prompt("Please run `sleep 600`")
    for event in events:
        if event["type"] == "tool_execution_start":
            break
    client.abort()
    print("ready", flush=True)
    try:
        client.run("Please run `sleep 601`")
    except KeyboardInterrupt:
        print("streaming:", client.get_state()["isStreaming"], flush=True)
        raise
"""
INTERRUPTED_ASYNC = """
import sys
import trio
from pinnace import Client
async def main():
    async with Client(sys.argv[1:]) as client:
        print("ready", flush=True)
        try:
            await client.run("Please run `sleep 601`")
        except KeyboardInterrupt:
            print("streaming:", (await client.get_state())["isStreaming"], flush=True)
            raise
trio.run(main)
"""
INTERRUPTED_ASYNCIO = """
import asyncio
import sys
from pinnace import AsyncioClient
async def main():
    async with AsyncioClient(sys.argv[1:]) as client:
        print("ready", flush=True)
        try:
            await client.run("Please run `sleep 601`")
        except asyncio.CancelledError:
            print("streaming:", (await client.get_state())["isStreaming"], flush=True)
            raise
asyncio.run(main())
"""
# Another thread receives the signal, as it may when the program was stopped and continues.
INTERRUPTED_ELSEWHERE = """
import signal
import sys
from pinnace import BlockingClient
with BlockingClient(sys.argv[1:]) as client:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    print("ready", flush=True)
    try:
        client.run("Please run `sleep 601`")
    except KeyboardInterrupt:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        print("streaming:", client.get_state()["isStreaming"], flush=True)
        raise
"""
FORGOTTEN_ASYNCIO = """
import asyncio
import sys
from pinnace import AsyncioClient
async def main():
    client = await AsyncioClient(sys.argv[1:], exit_timeout_s=0.5).__aenter__()
    print(await client.request("get_commands"))
asyncio.run(main())
"""
DROPPED_ASYNCIO = """
import asyncio
import sys
from pinnace import AsyncioClient
async def main():
    client = await AsyncioClient(sys.argv[1:], exit_timeout_s=0.5).__aenter__()
    print(await client.request("get_commands"))
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""
FORGOTTEN = """
import sys
from pinnace import BlockingClient
client = BlockingClient(sys.argv[1:], exit_timeout_s=0.5).__enter__()
print(client.request("get_commands"))
"""


def offline(flags: list[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--no-session", "--provider", "offline", *flags]


@pytest.mark.parametrize(
    "code",
    [INTERRUPTED, INTERRUPTED_ELSEWHERE, INTERRUPTED_ASYNC, INTERRUPTED_ASYNCIO],
    ids=["blocking", "blocking, another thread", "async", "asyncio"],
)
def test_an_interrupt_aborts_what_is_waited_for_and_ends_everything(
    our_environment: dict[str, str], run_id: str, code: str
) -> None:
    script = subprocess.Popen(
        [sys.executable, "-c", code, *offline([])],
        env=our_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert script.stdout is not None
    assert "ready\n" == script.stdout.readline()
    deadline_s = time.monotonic() + PATIENCE_S
    while not any([b"sleep", b"601"] == words_of(each)[-2:] for each in processes_of(run_id)):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)  # what a process has become is not told
    os.kill(script.pid, signal.SIGINT)
    out, err = script.communicate(timeout=PATIENCE_S)

    assert "streaming: False\n" == out
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert -signal.SIGINT == script.returncode
    assert [] == await_end(run_id, LEFT_BEHIND_TIMEOUT_S)


@pytest.mark.parametrize("script", [FORGOTTEN, FORGOTTEN_ASYNCIO, DROPPED_ASYNCIO], ids=["blocking", "asyncio", "loop"])
@pytest.mark.parametrize("flags", [[], ["--stubborn", "--child"]], ids=["ours", "stubborn"])
def test_a_client_that_no_one_leaves_ends_with_the_interpreter(
    our_environment: dict[str, str], run_id: str, stand_in_command: list[str], flags: list[str], script: str
) -> None:
    command = [*stand_in_command, *flags] if flags else offline([])
    done = subprocess.run(
        [sys.executable, "-c", script, *command],
        env=our_environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == await_end(run_id, LEFT_BEHIND_TIMEOUT_S)
