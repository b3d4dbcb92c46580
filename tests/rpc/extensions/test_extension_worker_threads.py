"""Extensions that work in other threads: output goes on, an abort aborts, and a shutdown ends the process."""

from tests.rpc.extensions.conftest import MakeExtension, Start, call

WORKER = """
import threading
import trio

def extension(pi):
    async def elsewhere(kind, function):
        if kind == "worker":
            await trio.to_thread.run_sync(function)
            return
        done, token = trio.Event(), trio.lowlevel.current_trio_token()
        def work():
            function()
            token.run_sync_soon(done.set)
        threading.Thread(target=work, daemon=True).start()
        await done.wait()

    @pi.tool
    async def work(ctx, kind: str) -> str:
        "Works in another thread."
        def there():
            for number in range(3):
                ctx.update(f"part {number}")
                ctx.ui.notify(f"{kind} {number}")
            ctx.ui.set_status("key", "text")
        await elsewhere(kind, there)
        return "worked"

    @pi.tool
    async def stop(ctx, kind: str) -> str:
        "Aborts from another thread."
        await elsewhere(kind, ctx.abort)
        await trio.sleep_forever()

    @pi.command("leave")
    async def leave(ctx, args):
        await elsewhere(args, ctx.shutdown)
"""


def test_output_continues_after_progress_from_other_threads(extended: Start, written: MakeExtension) -> None:
    script = [call("work", kind="worker"), call("work", kind="thread"), {"text": "done"}]
    pi = extended(written(WORKER), script)
    pi.say("go")
    assert pi.ends == [("worked", False)] * 2
    assert [frame["message"] for frame in pi.frames("notify")] == [
        f"{kind} {number}" for kind in ("worker", "thread") for number in range(3)
    ]
    updates = pi.pi.found({"type": "tool_execution_update"})
    assert [each["partialResult"]["content"][0]["text"] for each in updates] == [f"part {n}" for n in range(3)] * 2
    assert pi.errors == []


def test_an_abort_from_another_thread_ends_the_run(extended: Start, written: MakeExtension) -> None:
    pi = extended(written(WORKER), [call("stop", kind="worker"), call("stop", kind="thread"), {"text": "alive"}])
    for _ in range(2):
        pi.say("go")
    assert [each["aborted"] for each in pi.pi.found({"type": "agent_settled"})] == [True, True]
    pi.say("again")
    assert pi.pi.request({"type": "get_state"})["data"]["isStreaming"] is False


def test_a_shutdown_from_another_thread_ends_the_process(extended: Start, written: MakeExtension) -> None:
    for kind in ("worker", "thread"):
        pi = extended(written(WORKER), [])
        pi.command(f"/leave {kind}")
        assert pi.pi.wait_exit() == 0
