"""A Node process that dies, hangs or floods: gates deny, tools fail, the session goes on, and nothing is left.

`Extended` checks at the end of every test that each line of stdout is a record that the specification knows, that
nothing is left open, and that the agent and all that it has started end.
"""

import os
import signal
import time
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, call, calls

from pinnace_fuzz.process_tree import is_alive, kill_each
from pinnace_fuzz.script import Scripted

WITH_CALLS: list[Scripted] = [call("bash", command="touch ran"), call("bash", command="touch ran"), {"text": "done"}]
PATIENCE_S = 60.0
# Its process loads the extension in a part of that time.
HANG_S = "1"
# A gate whose first question is where the process is lost, and which says its number.
GATE = """
export default (pi) => {
  pi.on("session_start", (event, ctx) => ctx.ui.notify(`${process.pid} ${event.reason}`));
  pi.on("tool_call", async (event, ctx) => { BODY });
};
"""


def gate(body: str) -> str:
    return GATE.replace("BODY", body)


def process_of(one: Extended) -> int:
    return int(one.notice().split()[0])


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended; who started it may be gone, and init take its time."""
    deadline_s = time.monotonic() + PATIENCE_S
    while is_alive(pid):
        assert time.monotonic() < deadline_s, f"the process {pid} is still there"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_gate_whose_process_is_killed_denies_the_call(scripted: Start, number: signal.Signals) -> None:
    """It is reported once, started again for the next call, and asked again there."""
    one = scripted(gate('await ctx.ui.confirm("Sure?", "");'), WITH_CALLS)
    process = process_of(one)
    done = one.begin("go")
    one.asked("confirm")
    os.kill(process, number)
    second = one.notice()
    assert second.endswith("reload")
    one.reply(one.asked("confirm"), confirmed=True)
    one.accepted(done)
    one.pi.wait({"type": "agent_settled"}, since=0)
    [(text, is_denied), (_, is_error)] = one.ends
    assert is_denied
    assert "the Node process of the extensions has ended with status" in text
    assert not is_error
    assert (one.work / "ran").exists()
    assert ["tool_call", "process"] == sorted((event for event, _ in one.errors), reverse=True)


def test_a_process_that_is_lost_twice_is_not_started_again(scripted: Start) -> None:
    """From then on every call is denied, until the extensions are loaded again."""
    one = scripted(
        gate("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {});"),
        [WITH_CALLS[0], *WITH_CALLS, {"text": "more"}],
    )
    process_of(one)
    one.say("go")
    assert [True, True, True] == [is_error for _, is_error in one.ends]
    assert not (one.work / "ran").exists()
    assert 2 == len([error for event, error in one.errors if event == "process"])
    assert one.pi.request({"type": "reload"})["success"]
    assert one.pi.request({"type": "prompt", "message": "hello"})["success"]


def test_a_process_that_can_not_be_restored_denies(scripted: Start, tmp_path: Path) -> None:
    """Here the file of the extension is gone when the process is started again."""
    one = scripted(gate('await ctx.ui.confirm("Sure?", "");'), WITH_CALLS)
    process = process_of(one)
    done = one.begin("go")
    one.asked("confirm")
    (tmp_path / "extension.ts").unlink()
    os.kill(process, signal.SIGKILL)
    one.accepted(done)
    one.pi.wait({"type": "agent_settled"})
    assert [True, True] == [is_error for _, is_error in one.ends]
    assert not (one.work / "ran").exists()


def test_another_registration_of_a_process_that_is_started_again_denies(scripted: Start, tmp_path: Path) -> None:
    """What is registered under the number of the gate must be the gate."""
    text = gate('await ctx.ui.confirm("Sure?", "");')
    one = scripted(text, WITH_CALLS)
    process = process_of(one)
    done = one.begin("go")
    one.asked("confirm")
    (tmp_path / "extension.ts").write_text('export default (pi) => pi.on("session_start", () => {});')
    os.kill(process, signal.SIGKILL)
    one.accepted(done)
    one.pi.wait({"type": "agent_settled"})
    assert [True, True] == [is_error for _, is_error in one.ends]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for (;;);", f"did not respond for {HANG_S} s"),
        ("process.kill(process.pid, 'SIGSTOP'); await new Promise(() => {});", f"did not respond for {HANG_S} s"),
        ("for (;;) ctx.ui.setStatus('k', 'x');", "has sent 20000 displays without a pause"),
        (
            "fs.writeSync(Number(process.argv[3]), 'forged\\n'); await new Promise(() => {});",
            "has written what is no message",
        ),
        (
            "fs.writeSync(Number(process.argv[3]), '{}\\n'); await new Promise(() => {});",
            "has written what is no message",
        ),
        ("process.exit(0);", "has ended with status 0"),
        ("process.abort();", "has ended with status"),
        ("const all = []; for (;;) all.push(new Array(1e6).fill(all.length));", "has ended with status"),
    ],
    ids=["loop", "stopped", "flood", "forged", "empty", "exit", "abort", "memory"],
)
def test_a_gate_that_ruins_its_process_denies_the_call(scripted: Start, body: str, reason: str) -> None:
    env = {"PINNACE_NODE_HANG_S": HANG_S} if "respond" in reason else {}
    env["NODE_OPTIONS"] = "--max-old-space-size=256"  # node's own limit is some GiB
    text = 'import fs from "node:fs";\n' + gate(body)
    one = scripted(text, [call("bash", command="touch ran"), {"text": "done"}], env=env)
    process = process_of(one)
    one.say("go")
    [(denied, is_error)] = one.ends
    assert is_error
    assert reason in denied
    assert not (one.work / "ran").exists()
    wait_for_end(process)
    assert ["process", "tool_call"] == sorted(event for event, _ in one.errors)


@pytest.mark.parametrize(
    "body",
    [
        "console.log('{\"type\": \"forged\"}'); process.stdout.write('forged\\n');",
        "fs.writeSync(1, 'forged\\n');",
        "spawnSync('echo', ['forged'], { stdio: 'inherit' });",
        "fs.readFileSync(0);",
        "process.chdir('/');",
        "process.stdin.on('data', () => {});",
        "Promise.reject(new Error('unhandled'));",
        "setTimeout(() => { throw new Error('late'); });",
        "process.emit('uncaughtException', new Error('emitted'));",
        "console.error('x'.repeat(1e6));",
    ],
)
def test_what_harms_no_other_changes_nothing(scripted: Start, body: str) -> None:
    """The protocol has nothing of it, and the call runs."""
    head = 'import fs from "node:fs";\nimport { spawnSync } from "node:child_process";\n'
    one = scripted(head + gate(body), [call("bash", command="touch ran"), {"text": "done"}])
    one.say("go")
    assert [False] == [is_error for _, is_error in one.ends]
    assert (one.work / "ran").exists()


def test_a_tool_whose_process_is_killed_fails(scripted: Start) -> None:
    text = """
        import { Type } from "typebox";
        export default (pi) => {
          pi.on("session_start", (event, ctx) => ctx.ui.notify(`${process.pid} ${event.reason}`));
          pi.registerTool({ name: "wait", label: "W", description: "Wait", parameters: Type.Object({}),
            execute: (id, params, signal, onUpdate) => {
              onUpdate({ content: [{ type: "text", text: "begun" }], details: {} });
              return new Promise(() => {});
            } });
        };
    """
    one = scripted(text, [calls(("wait", {})), {"text": "done"}])
    process = process_of(one)
    done = one.begin("go")
    one.pi.wait({"type": "tool_execution_update"})
    os.kill(process, signal.SIGKILL)
    one.accepted(done)
    one.pi.wait({"type": "agent_settled"})
    [(text, is_error)] = one.ends
    assert is_error
    assert "the Node process of the extensions has ended" in text


def test_an_abort_does_not_wait_for_a_process_that_hangs(scripted: Start) -> None:
    one = scripted(gate("ctx.ui.notify('looping'); for (;;);"), WITH_CALLS)
    process = process_of(one)
    one.begin("go")
    assert "looping" == one.notice()
    one.pi.ask("abort")
    one.pi.wait({"type": "agent_settled"})
    assert not (one.work / "ran").exists()
    kill_each([process])  # unless the agent has, since it does not answer


def test_all_extensions_of_the_process_are_loaded_again(
    extended: Start, written: MakeExtension, node_program: str
) -> None:
    """With what each has registered in its `session_start`."""
    tool = """
        import { Type } from "typebox";
        export default (pi) => pi.on("session_start", (event, ctx) => {
          pi.registerTool({ name: "NAME", label: "N", description: "Say it", parameters: Type.Object({}),
            execute: async () => ({ content: [{ type: "text", text: `NAME ${event.reason}` }], details: {} }) });
          ctx.ui.notify(`${process.pid} NAME`);
        });
    """
    files = [written(tool.replace("NAME", name), f"{name}.ts") for name in ("one", "two")]
    script = [calls(("one", {}), ("two", {})), {"text": "done"}]
    one = extended(files, script, env={"PINNACE_NODE": node_program})
    process = process_of(one)
    one.notice()
    os.kill(process, signal.SIGKILL)
    one.pi.wait({"type": "extension_error"})
    one.say("go")
    assert [("one reload", False), ("two reload", False)] == sorted(one.ends)


def test_the_process_ends_with_an_agent_that_is_killed(scripted: Start) -> None:
    """Also while it waits for an answer."""
    one = scripted(gate(""), is_checked=False)
    process = process_of(one)
    one.pi.kill()
    one.pi.wait_exit()
    wait_for_end(process)


def test_the_end_of_the_agent_is_handled(scripted: Start) -> None:
    """When stdin has ended, programs are killed, and this process is not: it handles `session_shutdown`."""
    one = scripted("""
        export default (pi) => {
          pi.on("session_shutdown", async (event, ctx) => {
            await new Promise((resolve) => setTimeout(resolve, 50));
            const { stdout } = await pi.exec("echo", ["late"]);
            ctx.ui.notify(`${event.reason} ${stdout.trim()} ${ctx.sessionManager.getEntries().length >= 0}`);
          });
        };
    """)
    one.pi.ask("get_state")
    one.pi.check_end()
    assert ["quit late true"] == [each["message"] for each in one.frames("notify")]
    assert [] == one.errors
