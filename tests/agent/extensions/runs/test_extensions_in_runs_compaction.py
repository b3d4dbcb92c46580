"""What extensions have a say in when the session is compacted, and when the user runs a command."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import results as rs
from pinnace_agent.tools.operations import CommandTimedOut
from pinnace_spec.rules import errors

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig
    from tests.agent.extensions.runs.conftest import InRuns


def listen(rig: "Rig", *names: str) -> list[Any]:
    seen: list[Any] = []
    for name in names:
        rig.on(name, lambda _ctx, event: seen.append(event))
    return seen


async def compacted(agent: Any) -> Any:
    """Have a conversation and compact it; return the end of the compaction."""
    await agent.prompt("a question of some words")
    await agent.prompt("another question")
    agent.send("compact")
    end = await agent.until("compaction_end")
    await trio.testing.wait_all_tasks_blocked()
    return end


async def test_an_extension_keeps_the_session_from_being_compacted(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("session_before_compact", lambda *_: {"cancel": True})
    seen = listen(rig, "session_compact_failed", "session_compact")
    async with in_runs.agent(in_runs.says("one"), in_runs.says("two")) as agent:
        end = await compacted(agent)
        assert (True, None) == (end["aborted"], end["result"])
        assert "errorMessage" not in end
        assert ("refuse", errors.COMPACTION_CANCELLED) == agent.answers[-1]
        assert "compaction" not in [entry["type"] for entry in agent.session.tree.entries]
    assert [("session_compact_failed", True, "manual")] == [(each.type, each.aborted, each.reason) for each in seen]


async def test_an_extension_makes_the_compaction(rig: "Rig", in_runs: "InRuns") -> None:
    asked: list[Any] = []

    def makes(_ctx: object, event: Any) -> rs.Compaction:
        asked.append(event)
        kept = event.preparation["firstKeptEntryId"]
        return rs.Compaction("in short", kept, event.preparation["tokensBefore"], {"own": 1})

    rig.on("session_before_compact", makes)
    seen = listen(rig, "session_compact")
    async with in_runs.agent(in_runs.says("one"), in_runs.says("two")) as agent:
        end = await compacted(agent)
        entry = agent.session.tree.entries[-1]
        assert 2 == len(agent.requests)
        assert ("in short", {"own": 1}) == (end["result"]["summary"], end["result"]["details"])
        assert ("compact", end["result"]) == agent.answers[-1]
        assert ("compaction", True, "in short") == (entry["type"], entry["fromHook"], entry["summary"])
        assert "compactionSummary" == agent.session.messages[0]["role"]
    [event] = asked
    assert ("manual", "look here", False) == (event.reason, event.custom_instructions, event.will_retry)
    assert ["user", "assistant"] == [each["role"] for each in event.preparation["messagesToSummarize"]]
    assert [(True, "manual", dict(entry))] == [
        (each.from_extension, each.reason, dict(each.compaction_entry)) for each in seen
    ]


async def test_a_model_writes_the_summary_without_a_result_of_extensions(rig: "Rig", in_runs: "InRuns") -> None:
    seen = listen(rig, "session_before_compact", "session_compact")
    async with in_runs.agent(*map(in_runs.says, ("one", "two", "a summary", "another"))) as agent:
        end = await compacted(agent)
        assert "a summary" in end["result"]["summary"]
        assert "fromHook" not in agent.session.tree.entries[-1]
    assert ["session_before_compact", "session_compact"] == [each.type for each in seen]
    assert seen[1].from_extension is False


@pytest.mark.parametrize("made", [("", None), ("short", "nowhere")])
async def test_a_compaction_that_can_not_be_used_has_failed(
    rig: "Rig", in_runs: "InRuns", made: tuple[str, str | None]
) -> None:
    def makes(_ctx: object, event: Any) -> rs.Compaction:
        return rs.Compaction(made[0], made[1] or event.preparation["firstKeptEntryId"], 1)

    rig.on("session_before_compact", makes)
    seen = listen(rig, "session_compact_failed")
    async with in_runs.agent(in_runs.says("one"), in_runs.says("two")) as agent:
        end = await compacted(agent)
        assert errors.EXTENSION_COMPACTION_INVALID in end["errorMessage"]
    assert [False] == [each.aborted for each in seen]


async def test_an_abort_ends_a_handler_that_makes_the_compaction(rig: "Rig", in_runs: "InRuns") -> None:
    async def hangs(_ctx: object, _event: object) -> None:
        await trio.sleep_forever()

    rig.on("session_before_compact", hangs)
    seen = listen(rig, "session_compact_failed")
    async with in_runs.agent(in_runs.says("one"), in_runs.says("two")) as agent:
        await agent.prompt("a question")
        await agent.prompt("another")
        agent.send("compact")
        await trio.testing.wait_all_tasks_blocked()
        agent.send("abort")
        await trio.testing.wait_all_tasks_blocked()
        assert agent.of("compaction_end")[0]["aborted"]
    assert [True] == [each.aborted for each in seen]


# Commands of the user.


class Remote:
    """Runs commands elsewhere."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.fails = fails

    async def exec(
        self,
        command: str,
        *,
        cwd: str,
        on_data: Callable[[bytes], None],
        timeout_s: float | None,
        env: Mapping[str, str],
        shell_path: str | None,
    ) -> int | None:
        await trio.lowlevel.checkpoint()
        if self.fails is not None:
            raise self.fails
        on_data(f"{command} elsewhere\n".encode())
        return 3


async def shell(agent: Any, command: str) -> Any:
    job = agent.bash(command)
    await agent.until("shell_answered")
    return job


async def test_a_command_runs_as_usual_without_a_result_of_extensions(rig: "Rig", in_runs: "InRuns") -> None:
    seen = listen(rig, "user_bash")
    async with in_runs.agent() as agent:
        assert {"output": "a\n", "exitCode": 0, "cancelled": False, "truncated": False} == (
            await shell(agent, "echo a")
        ).result
    assert [("echo a", "/", False)] == [(each.command, each.cwd, each.exclude_from_context) for each in seen]


@pytest.mark.parametrize("answer", ["raises", "invalid"])
async def test_a_guard_of_commands_fails_closed(rig: "Rig", in_runs: "InRuns", answer: str) -> None:

    def guard(_ctx: object, _event: object) -> object:
        if answer == "raises":
            raise ValueError("not that")
        return {"result": {"output": 1}}

    rig.on("user_bash", guard)
    async with in_runs.agent() as agent:
        job = await shell(agent, "echo a")
        assert (None, errors.ErrorCode.REFUSED_BY_EXTENSION) == (job.result, job.failure_code)
        assert "not that" == job.failure or answer == "invalid"
        assert [] == agent.of("bash_execution_update")
        assert [] == agent.session.messages


async def test_a_result_of_an_extension_is_recorded_like_any_other(rig: "Rig", in_runs: "InRuns") -> None:
    result = {"output": "made up", "exitCode": None, "cancelled": False, "truncated": True, "fullOutputPath": "/p"}
    rig.on("user_bash", lambda *_: {"result": result})
    async with in_runs.agent() as agent:
        job = await shell(agent, "echo a")
        reported = {"output": "made up", "exitCode": 0, "cancelled": False, "truncated": True, "fullOutputPath": "/p"}
        assert reported == job.result
        message: Any = agent.session.messages[0]
        assert ("bashExecution", "made up") == (message["role"], message["output"])


async def test_a_command_is_run_by_an_extension(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("user_bash", lambda *_: rs.UserBash(operations=Remote()))
    async with in_runs.agent() as agent:
        job = await shell(agent, "ls")
        assert ("ls elsewhere\n", 3) == (job.result["output"], job.result["exitCode"])
        assert "ls elsewhere\n" == "".join(each["delta"] for each in agent.of("bash_execution_update"))


@pytest.mark.parametrize(("error", "failure"), [(OSError("no route"), "no route"), (CommandTimedOut(), None)])
async def test_an_extension_that_can_not_run_it_is_a_shell_that_is_not_there(
    rig: "Rig", in_runs: "InRuns", error: Exception, failure: str | None
) -> None:
    rig.on("user_bash", lambda *_: rs.UserBash(operations=Remote(error)))
    async with in_runs.agent() as agent:
        assert failure == (await shell(agent, "ls")).failure


async def test_a_guard_that_asks_does_not_keep_other_commands_waiting_and_can_be_aborted(
    rig: "Rig", in_runs: "InRuns"
) -> None:

    async def asks(_ctx: object, _event: object) -> None:
        await trio.sleep_forever()

    rig.on("user_bash", asks)
    async with in_runs.agent(in_runs.says("end")) as agent:
        job = agent.bash("echo a")
        await agent.prompt("go")
        agent.send("abort_bash")
        await trio.testing.wait_all_tasks_blocked()
        assert {"output": "", "cancelled": True, "truncated": False} == job.result
