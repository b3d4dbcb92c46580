"""Tasks of extensions: contained, queued, watched, and ended with their session."""

import logging
import re
import time
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.runtime.instances import NotRunningError
from pinnace_agent.extensions.services.watchdog import SLOW_S, Owner, Watchdog

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

    from pinnace_agent.extensions.api.contexts import Context


async def test_a_crashed_background_task_is_reported_and_its_siblings_continue(rig: "Rig") -> None:
    extension, other = rig.extension("a"), rig.extension("b")
    ended: list[str] = []

    async def crash() -> None:
        raise ValueError("broken")

    async def leave() -> None:
        raise SystemExit(1)

    async def live(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(name)

    async with rig.running() as runner:
        runner.instances[extension].start_soon(live, "sibling")
        runner.instances[other].start_soon(live, "other")
        runner.instances[extension].start_soon(crash)
        runner.instances[extension].start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        assert [] == ended
        assert {("/ext/a.py", "background")} == {(path, event) for path, event, _ in rig.host.reported}
        assert 2 == len(rig.host.reported)

    assert {"sibling", "other"} == set(ended)


async def test_background_tasks_need_a_session(rig: "Rig") -> None:
    extension = rig.extension()
    runner = rig.runner()
    with pytest.raises(NotRunningError, match="session_start"):
        runner.instances[extension].start_soon(trio.sleep_forever)
    async with rig.running(runner):
        pass
    with pytest.raises(NotRunningError):
        runner.instances[extension].start_soon(trio.sleep_forever)


async def test_a_background_task_may_be_started_from_a_thread(rig: "Rig") -> None:
    done = trio.Event()

    async def work() -> None:
        done.set()

    extension = rig.extension()
    async with rig.running() as runner:
        await trio.to_thread.run_sync(lambda: runner.instances[extension].start_soon(work))
        await done.wait()


def level(name: str) -> ev.ThinkingLevelSelect:
    return ev.ThinkingLevelSelect(level=name, previous_level="off")  # type: ignore[arg-type]


async def test_queued_events_are_handled_in_order_by_each_extension(rig: "Rig") -> None:
    seen: list[str] = []
    released = trio.Event()

    async def slow(_ctx: object, event: ev.ThinkingLevelSelect) -> None:
        await released.wait()
        seen.append(f"slow {event.level}")

    rig.on("thinking_level_select", slow)
    rig.on("thinking_level_select", lambda _ctx, event: seen.append(f"fast {event.level}"))
    async with rig.running() as runner:
        runner.notify_later("thinking_level_select", lambda: level("low"))
        runner.notify_later("thinking_level_select", lambda: level("high"))
        assert [] == seen
        await trio.testing.wait_all_tasks_blocked()
        assert ["fast low", "fast high"] == seen
        released.set()
        await trio.testing.wait_all_tasks_blocked()

    assert ["slow low", "slow high"] == seen[2:]


async def test_a_queued_event_without_handlers_is_not_created(rig: "Rig") -> None:
    rig.extension()
    rig.runner().notify_later("thinking_level_select", lambda: pytest.fail("created without a handler"))


async def test_a_hanging_handler_delays_only_its_own_extension(rig: "Rig") -> None:
    seen: list[str] = []

    async def hangs(_ctx: object, _event: object) -> None:
        await trio.sleep_forever()

    rig.on("thinking_level_select", hangs)
    rig.on("session_info_changed", lambda _ctx, event: seen.append(event.name))
    async with rig.running() as runner:
        runner.notify_later("thinking_level_select", lambda: level("low"))
        runner.notify_later("session_info_changed", lambda: ev.SessionInfoChanged(name="N"))
        await trio.testing.wait_all_tasks_blocked()
        assert ["N"] == seen


async def test_open_dialogs_fire_ui_prompt_events(rig: "Rig") -> None:
    seen: list[tuple[str, str, str | None]] = []

    def note(_ctx: object, event: ev.UiPromptStart | ev.UiPromptEnd) -> None:
        seen.append((event.type, event.kind, event.title))

    async def asks(ctx: "Context", _event: object) -> None:
        await ctx.ui.confirm("Sure?")

    rig.on("ui_prompt_start", note)
    rig.on("ui_prompt_end", note)
    rig.on("agent_start", asks)
    async with rig.running() as runner, trio.open_nursery() as nursery:
        nursery.start_soon(runner.chains.notify, "agent_start", rig.started)
        await trio.testing.wait_all_tasks_blocked()
        runner.dialogs.close_all()
        await trio.testing.wait_all_tasks_blocked()

    assert [("ui_prompt_start", "confirm", "Sure?"), ("ui_prompt_end", "confirm", "Sure?")] == seen


# The watchdog. A loop is blocked for real: no clock of the tests can stand for that.


def block_for(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def test_a_handler_that_blocks_the_loop_is_named_with_the_place_where_it_is(
    rig: "Rig", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pinnace.extensions")

    def block_until_warned(_ctx: object, _event: object) -> None:
        # The thread that watches may have its turn at any time behind the limit.
        while not any("blocks the event loop" in message for message in caplog.messages):
            block_for(0.1)

    rig.on("agent_start", block_until_warned)
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)
        [offender] = runner.watchdog.offenders

    assert ("/ext/x0.py", "agent_start", 1) == (offender.path, offender.event, offender.stalls)
    assert offender.longest_s > 1
    while_it_blocked, afterwards = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "blocks the event loop in agent_start" in while_it_blocked
    assert "in block_until_warned" in while_it_blocked
    assert re.search(r"blocked the event loop for \d+\.\d s in agent_start", afterwards)


@pytest.mark.parametrize("place", ["handler", "after a checkpoint", "child", "background"])
async def test_a_blocking_function_is_reported_with_its_extension(
    rig: "Rig", place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pinnace.extensions")

    async def block() -> None:
        await trio.lowlevel.checkpoint()
        block_for(0.15)
        await trio.lowlevel.checkpoint()

    async def handler(_ctx: object, _event: object) -> None:
        if place == "handler":
            block_for(0.15)
        elif place == "after a checkpoint":
            await block()
        elif place == "child":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(block)
        else:
            runner.instances[rig.extensions[1]].start_soon(block)

    rig.on("agent_start", lambda _ctx, _event: None)
    rig.on("agent_start", handler)
    rig.on("agent_start", lambda _ctx, _event: None)
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)
        await trio.testing.wait_all_tasks_blocked()

    [reported] = [record.getMessage() for record in caplog.records if "blocked" in record.getMessage()]
    event = "background" if place == "background" else "agent_start"
    assert re.fullmatch(rf"/ext/x1\.py blocked the event loop for \d{{3}} ms in {event}", reported)


async def test_the_agents_own_code_is_not_reported(rig: "Rig", caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pinnace.extensions")
    rig.on("agent_start", lambda _ctx, _event: None)
    async with rig.running() as runner:
        block_for(0.15)
        await runner.chains.notify("agent_start", rig.started)
        block_for(0.15)
        await trio.lowlevel.checkpoint()

    assert [] == caplog.records


async def test_without_extensions_nothing_is_watched(rig: "Rig") -> None:
    import threading

    before = set(threading.enumerate())
    async with rig.running():
        assert set() == set(threading.enumerate()) - before


async def test_a_handler_that_waits_for_long_is_named_once(
    rig: "Rig", autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:

    async def waits(_ctx: object, _event: object) -> None:
        await trio.sleep(SLOW_S * 4)

    rig.on("agent_start", waits)
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)

    assert ["/ext/x0.py has been handling agent_start for 30 s"] == [each.getMessage() for each in caplog.records]


async def test_a_user_may_take_as_long_as_he_likes(
    rig: "Rig", autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:

    async def asks(ctx: "Context", _event: object) -> None:
        await ctx.ui.confirm("Sure?", timeout=SLOW_S * 4)

    rig.on("agent_start", asks)
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)

    assert [] == caplog.records


async def test_many_short_handlers_do_not_wake_the_watchdog_each_time(autojump_clock: trio.testing.MockClock) -> None:
    watchdog, owner = Watchdog(), Owner("/x", "message_update")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.watch_waits)
        for _ in range(1000):
            watchdog.end_wait(watchdog.begin_wait(owner))
            await trio.lowlevel.checkpoint()
        assert 0 == trio.current_time()
        nursery.cancel_scope.cancel()
