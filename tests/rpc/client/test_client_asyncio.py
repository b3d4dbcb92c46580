"""What only asyncio has: its ways to cancel, its loops, and tasks that come and go.

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

import pinnace
from pinnace_rpc.client import AsyncioClient, ClientClosed, Dialogs

Prepare = Callable[..., Any]
StandIn = Callable[..., Any]
PATIENCE_S = 60.0
CONFIRM = {"type": "extension_ui_request", "id": "1", "method": "confirm", "title": "Sure?", "message": "Really?"}


@pytest.mark.parametrize("name", ["Client", "AsyncioClient"])
@pytest.mark.parametrize("run", [trio.run, asyncio.run], ids=["trio", "asyncio"])
def test_either_name_runs_under_either_library(
    stand_in_command: list[str], marked: dict[str, str], run: Callable[..., object], name: str
) -> None:
    async def main() -> object:
        async with getattr(pinnace, name)(stand_in_command, env=marked) as client:
            return await client.request("anything")

    assert {} == run(main if run is trio.run else main())


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


async def stay(stand_in: StandIn, clients: list[AsyncioClient], is_in: asyncio.Event) -> None:
    """Be in a client, which is noted, until the task is cancelled."""
    async with stand_in("--farewell") as client:
        clients.append(client)
        await client.request("anything")
        is_in.set()
        await asyncio.Event().wait()


def test_a_task_that_is_cancelled_while_it_leaves_ends_the_agent_first(stand_in: StandIn) -> None:
    clients: list[AsyncioClient] = []

    async def main() -> None:
        is_in = asyncio.Event()
        task = asyncio.create_task(stay(stand_in, clients, is_in))
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


def test_a_client_may_be_left_in_another_task(stand_in: StandIn) -> None:
    """As fixtures and notebooks do."""

    async def main() -> int | None:
        client: AsyncioClient = await asyncio.create_task(stand_in("--farewell").__aenter__())
        await client.request("anything")
        await asyncio.create_task(client.__aexit__(None, None, None))
        return client.exit_code

    assert 0 == asyncio.run(main())


def test_clients_may_be_left_in_any_order(stand_in: StandIn) -> None:
    async def main() -> list[int | None]:
        first, second = [await stand_in().__aenter__() for _ in range(2)]
        await first.__aexit__(None, None, None)
        assert {} == await second.request("anything")
        await second.__aexit__(None, None, None)
        return [first.exit_code, second.exit_code]

    assert [0, 0] == asyncio.run(main())


def test_an_agent_leaves_in_order_when_every_task_of_the_loop_is_cancelled(stand_in: StandIn) -> None:
    clients: list[AsyncioClient] = []

    async def main() -> None:
        is_in = asyncio.Event()
        task = asyncio.create_task(stay(stand_in, clients, is_in))
        await is_in.wait()
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert 0 == clients[0].exit_code


def test_being_cancelled_with_every_task_before_any_begins_leaves_nothing_behind(stand_in: StandIn) -> None:
    async def use() -> None:
        async with stand_in():
            pass

    async def main() -> None:
        task = asyncio.create_task(use())

        def cancel_all() -> None:
            for each in asyncio.all_tasks() - {me}:
                each.cancel()

        me = asyncio.current_task()
        asyncio.get_running_loop().call_soon(cancel_all)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_callback_that_is_cancelled_has_said_no(stand_in: StandIn) -> None:
    async def cancelled(_: object) -> bool:
        raise asyncio.CancelledError

    async def main() -> dict[str, Any]:
        async with stand_in(dialogs=Dialogs(confirm=cancelled)) as client:
            events = client.events()
            await client.request("say", records=[CONFIRM])
            heard = [dict(await anext(events)) for _ in range(2)]
            answer: dict[str, Any] = heard[1]["answer"]
            return answer

    assert asyncio.run(main())["confirmed"] is False


def test_a_client_that_was_left_is_collected_with_its_events(stand_in: StandIn) -> None:
    async def main() -> list[weakref.ref[Any]]:
        async with stand_in() as client:
            events = client.events()
            await client.request("anything")
        return [weakref.ref(each) for each in (client, events, client._lifetime)]

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
