"""An abort in a real agent whose extensions ignore it: a tool, a blocking call in a thread, a handler of a prompt."""

import time

from tests.rpc.conftest import CONVERSATION_TIMEOUT_S
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, calls

from pinnace_agent.core.jobs import ABORT_GRACE_S
from pinnace_spec.rules import errors

ABANDONED = errors.tool_abandoned(f"{ABORT_GRACE_S:g}")

HOLDER = '''
    import time
    from pathlib import Path

    import trio

    def extension(pi):
        async def released(ctx):
            (Path(ctx.cwd) / "begun").touch()
            with trio.CancelScope(shield=True):
                while not (Path(ctx.cwd) / "released").exists():
                    await trio.sleep(0.01)

        @pi.tool
        async def shielded(ctx) -> str:
            """Wait, whatever happens."""
            await released(ctx)
            return "late"

        @pi.tool
        async def blocking(ctx) -> str:
            """Wait in a thread."""
            def wait():
                (Path(ctx.cwd) / "blocked").touch()
                while not (Path(ctx.cwd) / "released").exists():
                    time.sleep(0.01)
            await trio.to_thread.run_sync(wait)
            return "late"

        @pi.on("before_agent_start")
        async def begin(ctx, event):
            if event.prompt == "stuck":
                await released(ctx)
                return {"systemPrompt": "late"}
'''


def wait_for(agent: Extended, *names: str) -> None:
    give_up = time.monotonic() + CONVERSATION_TIMEOUT_S
    while not all((agent.work / name).exists() for name in names):
        assert time.monotonic() < give_up
        time.sleep(0.01)


def abort(agent: Extended) -> None:
    agent.pi.request({"type": "abort"})


def test_an_abort_ends_the_run_of_tools_that_ignore_it(extended: Start, written: MakeExtension) -> None:
    """R-ABT-02."""
    script = [calls(("shielded", {}), ("blocking", {})), {"text": "fine"}, {"text": "again"}]
    agent = extended(written(HOLDER), script=script)
    agent.begin("go")
    wait_for(agent, "begun", "blocked")
    abort(agent)
    assert [(ABANDONED, True)] * 2 == agent.ends
    agent.say("and now?")
    assert [ABANDONED] * 2 == agent.read

    (agent.work / "released").touch()
    agent.say("and then?")
    assert [(ABANDONED, True)] * 2 == agent.ends
    assert [ABANDONED] * 2 == agent.read
    assert "no longer waited for: tool shielded, tool blocking" in agent.pi.stderr_text


def test_an_abort_refuses_a_prompt_whose_handler_ignores_it(extended: Start, written: MakeExtension) -> None:
    agent = extended(written(HOLDER), script=[{"text": "fine"}])
    stuck = agent.begin("stuck")
    wait_for(agent, "begun")
    abort(agent)
    assert not agent.pi.wait_response(stuck)["success"]
    assert " on before_agent_start" in agent.pi.stderr_text

    (agent.work / "released").touch()
    agent.say("and now?")
    assert "late" != agent.prompt
    assert ["and now?"] == agent.user_messages
