"""Dialogs: answered by callbacks, and with no where there are none; so that nothing ever hangs."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.rpc.client.conftest import on_trio_and_asyncio

from pinnace_rpc.client import BlockingClient, Client, ClientClosed, Dialogs

StandIn = Callable[..., Client]
PATIENCE_S = 60.0

SELECT = {"method": "select", "title": "Which?", "options": ["a", "b"]}
CONFIRM = {"method": "confirm", "title": "Sure?", "message": "Really?"}
INPUT = {"method": "input", "title": "Name?"}
EDITOR = {"method": "editor", "title": "Text?", "prefill": "x"}
CANCELLED = {"cancelled": True}
DENIED = {"confirmed": False}


async def answers(client: Client, *requests: dict[str, Any]) -> list[dict[str, object]]:
    """Let the agent ask; return what it was answered, in that order, without the frame."""
    events = client.events()
    records = [{"type": "extension_ui_request", "id": str(number), **each} for number, each in enumerate(requests)]
    with anyio.fail_after(PATIENCE_S):
        await client.request("say", records=records)
        heard: dict[str, dict[str, object]] = {}
        while len(heard) < len(requests):
            event: Any = await anext(events)
            if event["type"] == "heard":
                answer = event["answer"]
                assert answer.pop("type") == "extension_ui_response"
                heard[answer.pop("id")] = answer
    return [heard[str(number)] for number in range(len(requests))]


@on_trio_and_asyncio
async def test_without_a_callback_every_dialog_is_denied_at_once(stand_in: StandIn) -> None:
    async with stand_in() as client:
        found = await answers(client, SELECT, CONFIRM, INPUT, EDITOR, {"method": "of a later generation"})

    assert [CANCELLED, DENIED, CANCELLED, CANCELLED, CANCELLED] == found


@on_trio_and_asyncio
async def test_what_is_only_shown_is_an_event_and_not_answered(stand_in: StandIn) -> None:
    async with stand_in() as client:
        events = client.events()
        found = await answers(client, CONFIRM)
        shown = {"type": "extension_ui_request", "id": "n", "method": "notify", "message": "Done"}
        await client.request("say", records=[shown])
        await client.request("anything")
        seen = [dict(each) for each in await events.take()]

    assert [DENIED] == found
    assert shown in seen
    assert 1 == sum(each["type"] == "heard" for each in seen)


@on_trio_and_asyncio
async def test_callbacks_answer(stand_in: StandIn) -> None:
    async def choose(request: Any) -> str:
        await anyio.lowlevel.checkpoint()
        return str(request["options"][1])

    dialogs = Dialogs(
        select=choose, confirm=lambda _: True, input=lambda _: "Ada", editor=lambda each: each["prefill"] + "y"
    )
    async with stand_in(dialogs=dialogs) as client:
        found = await answers(client, SELECT, CONFIRM, INPUT, EDITOR)

    assert [{"value": "b"}, {"confirmed": True}, {"value": "Ada"}, {"value": "xy"}] == found


@on_trio_and_asyncio
async def test_a_callback_that_fails_or_has_no_answer_has_said_no(
    stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> bool:
        raise LookupError("nobody here")

    dialogs = Dialogs(select=lambda _: "c", confirm=fail, input=lambda _: None)
    async with stand_in(dialogs=dialogs) as client:
        found = await answers(client, SELECT, CONFIRM, INPUT)

    assert [CANCELLED, DENIED, CANCELLED] == found
    assert "nobody here" in caplog.text
    assert "'c', which was not offered" in caplog.text


@on_trio_and_asyncio
async def test_a_callback_that_takes_longer_than_the_dialog_has_said_no(stand_in: StandIn) -> None:
    async def think(_: object) -> bool:
        await anyio.Event().wait()
        return True

    async with stand_in(dialogs=Dialogs(confirm=think)) as client:
        assert [DENIED] == await answers(client, {**CONFIRM, "timeout": 20})


@on_trio_and_asyncio
async def test_a_callback_that_waits_holds_nothing_up_and_ends_with_the_client(stand_in: StandIn) -> None:
    async def think(_: object) -> bool:
        await anyio.Event().wait()
        return True

    with anyio.fail_after(PATIENCE_S):
        async with stand_in(dialogs=Dialogs(confirm=think)) as client:
            await client.request("say", records=[{"type": "extension_ui_request", "id": "1", **CONFIRM}])
            assert {} == await client.request("anything")


class Unusual(BaseException):
    """Neither an exit nor an interrupt, and no `Exception`."""


EXITS = [SystemExit(3), KeyboardInterrupt(), Unusual("odd")]


def raising(error: BaseException) -> Callable[[object], bool]:
    def fail(_: object) -> bool:
        raise error

    return fail


def answers_in(record: Path) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in record.read_text().splitlines()]
    return [each for each in read if each["type"] == "extension_ui_response"]


@pytest.mark.parametrize("error", EXITS, ids=repr)
@on_trio_and_asyncio
async def test_a_callback_that_exits_is_answered_with_no_and_leaves_the_client(
    stand_in: StandIn, tmp_path: Path, error: BaseException
) -> None:
    """As it is, not in a group; the fixture looks for the agent's process."""
    record = tmp_path / "record"
    client = stand_in("--record", str(record), dialogs=Dialogs(confirm=raising(error)))
    caught: list[BaseException] = []
    try:
        async with client:
            await client.request("say", records=[{"type": "extension_ui_request", "id": "1", **CONFIRM}])
            await anyio.sleep(PATIENCE_S)
    except BaseException as left_by:
        caught.append(left_by)

    assert [error] == caught
    assert [{"type": "extension_ui_response", "id": "1", **DENIED}] == answers_in(record)
    assert 0 == client.exit_code


@on_trio_and_asyncio
async def test_a_callback_that_exits_ends_a_call_that_waits(stand_in: StandIn) -> None:
    client = stand_in(dialogs=Dialogs(confirm=raising(SystemExit(3))))
    with pytest.raises(SystemExit) as caught:
        async with client:
            await client.request("say", records=[{"type": "extension_ui_request", "id": "1", **CONFIRM}], alone=True)

    assert 3 == caught.value.code


@pytest.mark.parametrize("error", EXITS, ids=repr)
def test_a_callback_that_exits_ends_the_call_of_a_blocking_client_and_leaves_it(
    stand_in_command: list[str], marked: dict[str, str], tmp_path: Path, error: BaseException
) -> None:
    record = tmp_path / "record"
    command = [*stand_in_command, "--record", str(record)]
    ended: list[BaseException] = []
    caught: list[BaseException] = []
    try:
        with BlockingClient(command, env=marked, dialogs=Dialogs(confirm=raising(error))) as client:
            try:
                client.request("say", records=[{"type": "extension_ui_request", "id": "1", **CONFIRM}], alone=True)
            except ClientClosed as closed:
                ended.append(closed)
    except BaseException as left_by:
        caught.append(left_by)

    assert 1 == len(ended)
    assert [error] == caught
    assert [{"type": "extension_ui_response", "id": "1", **DENIED}] == answers_in(record)


def test_callbacks_of_the_blocking_client_run_in_threads(stand_in_command: list[str], marked: dict[str, str]) -> None:
    threads: list[str] = []

    def confirm(_: object) -> bool:
        threads.append(threading.current_thread().name)
        assert {} == client.request("anything")  # it may use the client
        return True

    with BlockingClient(stand_in_command, env=marked, dialogs=Dialogs(confirm=confirm)) as client:
        events = client.events()
        client.request("say", records=[{"type": "extension_ui_request", "id": "1", **CONFIRM}])
        heard: Any = next(event for event in events if dict(event)["type"] == "heard")

    assert {"confirmed": True} == {"confirmed": heard["answer"]["confirmed"]}
    assert threads
    assert not {"MainThread", "pinnace-client"} & set(threads)
