"""What only asyncio has: its ways to cancel, its loops, and programs that take the wrong client.

Everything else is tested for either kind, by `on_trio_and_asyncio`.
"""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import trio

from pinnace_rpc.client import Client, ClientClosed, Dialogs
from pinnace_rpc.client.aio import AsyncioClient

Prepare = Callable[..., Any]
StandIn = Callable[..., Any]
PATIENCE_S = 60.0
CONFIRM = {"type": "extension_ui_request", "id": "1", "method": "confirm", "title": "Sure?", "message": "Really?"}


def test_the_client_for_trio_names_the_one_for_asyncio() -> None:
    async def main() -> None:
        async with Client(["never started"]):
            pass

    with pytest.raises(RuntimeError, match=r"under trio.*under asyncio use AsyncioClient.*BlockingClient"):
        asyncio.run(main())


def test_the_client_for_asyncio_names_the_one_for_trio() -> None:
    async def main() -> None:
        async with AsyncioClient(["never started"]):
            pass

    with pytest.raises(RuntimeError, match="under trio use Client"):
        trio.run(main)


def test_a_timeout_aborts_the_run_and_is_raised(prepare: Prepare) -> None:
    prepared = prepare([{"text": ["x", {"gate": "never"}, "y"]}])

    async def main() -> None:
        async with prepared.client() as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.run("go")
            assert not (await client.get_state())["isStreaming"]

    asyncio.run(main())


def test_a_cancelled_task_aborts_its_run_before_it_ends(prepare: Prepare) -> None:
    prepared = prepare([{"text": ["x", {"gate": "never"}, "y"]}])

    async def main() -> None:
        async with prepared.client() as client:
            task = asyncio.create_task(client.run("go"))
            await asyncio.to_thread(prepared.llm.wait_reached, "never")
            task.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not (await client.get_state())["isStreaming"]

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_leaves_ends_the_agent_first(stand_in: StandIn) -> None:
    clients: list[AsyncioClient] = []

    async def leave(is_in: asyncio.Event) -> None:
        async with stand_in("--farewell") as client:
            clients.append(client)
            await client.request("anything")
            is_in.set()
            await asyncio.Event().wait()

    async def main() -> None:
        is_in = asyncio.Event()
        task = asyncio.create_task(leave(is_in))
        await is_in.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert 0 == clients[0].exit_code


def test_a_cancelled_reader_has_lost_no_event(stand_in: StandIn) -> None:
    async def main() -> list[int]:
        async with stand_in() as client:
            events = client.events()
            await client.request("flood", count=300, size=10)
            seen: list[int] = []
            while len(seen) < 300:
                task = asyncio.create_task(anext(events))
                for _ in range(len(seen) % 7):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    seen.append((await task)["number"])
                except asyncio.CancelledError:
                    seen.append((await anext(events))["number"])
            return seen

    assert list(range(300)) == asyncio.run(main())


def test_callbacks_run_in_the_event_loop_and_end_with_the_client(stand_in: StandIn) -> None:
    ended: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        is_asked = asyncio.Event()

        async def think(_: object) -> bool:
            assert loop is asyncio.get_running_loop()
            is_asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("think")
            return True

        async with stand_in(dialogs=Dialogs(confirm=think)) as client:
            await client.request("say", records=[CONFIRM])
            await is_asked.wait()
        assert ["think"] == ended

    asyncio.run(main())


def test_what_is_no_record_is_reported_in_the_event_loop(stand_in: StandIn) -> None:
    async def main() -> list[threading.Thread]:
        told: list[threading.Thread] = []
        async with stand_in("--banner", on_malformed=lambda _: told.append(threading.current_thread())) as client:
            await client.request("anything")
        return told

    assert [threading.current_thread()] == asyncio.run(main())


def test_a_callback_that_exits_does_not_leave_the_task_cancelled(stand_in: StandIn) -> None:
    def fail(_: object) -> bool:
        raise SystemExit(3)

    async def main() -> int:
        with pytest.raises(SystemExit):
            async with stand_in(dialogs=Dialogs(confirm=fail)) as client:
                await client.request("say", records=[CONFIRM])
                await asyncio.sleep(PATIENCE_S)
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return task.cancelling()

    assert 0 == asyncio.run(main())


def test_a_client_that_was_left_is_collected_with_its_events(stand_in: StandIn) -> None:
    async def main() -> list[weakref.ref[Any]]:
        async with stand_in() as client:
            events = client.events()
            await client.request("anything")
        return [weakref.ref(each) for each in (client, events, client._client)]

    gone = asyncio.run(main())
    gc.collect()

    assert [None] * 3 == [each() for each in gone]


def test_a_call_after_the_block_is_refused_also_in_another_loop(stand_in: StandIn) -> None:
    async def use() -> AsyncioClient:
        client: AsyncioClient = stand_in()
        async with client:
            assert await client.request("anything") == {}
        return client

    async def ask(client: AsyncioClient) -> None:
        with pytest.raises(ClientClosed):
            await client.request("anything")
        with pytest.raises(ClientClosed):
            client.events()

    client = asyncio.run(use())
    asyncio.run(ask(client))
