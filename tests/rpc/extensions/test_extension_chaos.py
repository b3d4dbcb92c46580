"""Extensions that do what no extension should: the session goes on, gates stay shut, stdout is the protocol's alone.

`Extended` checks at the end of every test that each line of stdout is a record that the specification knows, that the
agent ends in order and in time, and that nothing of it is left.
"""

import re
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, call

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

DONE: dict[str, object] = {"text": "done"}
WITH_A_CALL: list[Scripted] = [call("bash", command="touch ran"), DONE, {"text": "still here"}]

# What a handler may do. `hung` is set while it hangs, so that it does so once.
MISDEEDS = {
    "raises": "raise ValueError('on purpose')",
    "raises a group": "raise BaseExceptionGroup('several', [ValueError('one'), SystemExit(2)])",
    "exits": "sys.exit(3)",
    "raises an exit": "raise SystemExit",
    "raises GeneratorExit": "raise GeneratorExit",
    "raises an interrupt": "raise KeyboardInterrupt",
    "raises what is no Exception": "raise Unusual",
    "raises an interrupt in a task": "async with trio.open_nursery() as n: n.start_soon(interrupt)",
    "fails in a task": "async with trio.open_nursery() as n: n.start_soon(fail)",
    "fails without words": "raise Speechless",
    "runs out of stack": "deeper()",
    "divides": "1 / 0",
}
HARMLESS = {
    "prints": 'print(\'{"type": "forged"}\', flush=True)',
    "writes to stdout": "sys.stdout.write('forged\\n'); sys.stdout.flush()",
    "writes to the first stdout": "sys.__stdout__.write('forged\\n'); sys.__stdout__.flush()",
    "writes to the descriptor": "os.write(1, b'forged\\n')",
    "has a child that prints": "subprocess.run(['echo', 'forged'], check=True)",
    "reads stdin": "sys.stdin.read()",
    "blocks the loop": "time.sleep(1.2)",
    "ends a scope of its own": "with trio.CancelScope() as scope: scope.cancel(); await trio.lowlevel.checkpoint()",
    "speaks": "pi.send_message('note', 'hello', deliver_as='next_turn'); pi.append_entry('note', {'a': 1})",
    "asks for nothing": "ctx.ui.notify('hello'); ctx.ui.set_status('a')",
    "changes tools": "pi.set_active_tools(pi.get_active_tools())",
    "changes the folder": "os.chdir('/')",
    "takes stdout away": "sys.stdout = None",
    "closes stdout": "sys.stdout.close()",
}
HEAD = """
import os
import subprocess
import sys
import time

import trio


class Speechless(Exception):
    def __str__(self):
        raise ValueError


class Unusual(BaseException):
    pass


async def fail():
    raise RuntimeError("in a task")


async def interrupt():
    raise KeyboardInterrupt


def deeper():
    return deeper()


def extension(pi):
"""


def misbehaves(event: str, deed: str, *, is_async: bool = True) -> str:
    return f"{HEAD}    @pi.on({event!r})\n    {'async ' if is_async else ''}def handler(ctx, event):\n        {deed}\n"


def chooses(registration: str, name: str, chosen_by: str) -> str:
    """One function with all misdeeds: which one, a text says."""
    cases = "".join(f"            case {each!r}:\n                {deed}\n" for each, deed in MISDEEDS.items())
    head = f"    {registration}\n    async def chosen(ctx, {name}):\n        match {chosen_by}:\n"
    return f"{HEAD}{head}{cases}"


def runs(one: Extended) -> bool:
    return (one.work / "ran").exists()


EVENTS = ["input", "before_agent_start", "agent_start", "turn_start", "message_start", "message_update", "message_end"]
EVENTS += ["context", "before_provider_headers", "before_provider_request", "after_provider_response"]
EVENTS += ["tool_execution_start", "tool_execution_end", "tool_result", "turn_end", "agent_end", "agent_before_settle"]
EVENTS += ["agent_settled"]


def test_a_handler_that_raises_is_reported_and_changes_nothing(extended: Start, written: MakeExtension) -> None:
    handlers = "".join(
        f"    @pi.on({event!r})\n    def of_{event}(ctx, event):\n        raise ValueError('on purpose')\n"
        for event in EVENTS
    )
    one = extended(written(f"{HEAD}{handlers}"), WITH_A_CALL)
    one.say("go")
    one.say("and on")

    assert runs(one)
    assert set(EVENTS) == {event for event, _ in one.errors}
    assert all(error.startswith("ValueError: on purpose (written_1.py, line ") for _, error in one.errors)
    assert "still here" == one.pi.ask("get_last_assistant_text")["text"]


def test_the_session_continues_whatever_handlers_do(extended: Start, written: MakeExtension) -> None:
    handlers = "".join(
        f"    @pi.on('agent_start')\n    async def handler_{number}(ctx, event):\n        {deed}\n"
        for number, deed in enumerate(MISDEEDS.values())
    )
    one = extended(written(f"{HEAD}{handlers}"), WITH_A_CALL)
    one.say("go")
    one.say("and on")

    assert runs(one)
    assert 2 * len(MISDEEDS) == len(one.errors)
    assert "still here" == one.pi.ask("get_last_assistant_text")["text"]


@pytest.mark.parametrize("deed", HARMLESS)
def test_a_diagnostic_does_not_fail_the_extension(extended: Start, written: MakeExtension, deed: str) -> None:
    one = extended(written(misbehaves("turn_start", HARMLESS[deed])), WITH_A_CALL)
    one.say("go")

    assert runs(one)
    assert "forged" not in str(one.pi.records)


@pytest.mark.parametrize("deed", ["prints", "writes to the descriptor", "has a child that prints"])
def test_output_printed_while_loading_is_not_a_record(extended: Start, written: MakeExtension, deed: str) -> None:
    one = extended(written(f"{HEAD}    {HARMLESS[deed]}\n"), [DONE])
    one.say("go")

    assert "forged" in one.pi.stderr_text


# Gates.


def test_a_gate_that_fails_in_any_way_blocks(extended: Start, written: MakeExtension) -> None:
    gate = chooses('@pi.on("tool_call", tool="bash")', "event", 'event.input["command"].removeprefix("touch ran; : ")')
    script = [call("bash", command=f"touch ran; : {deed}") for deed in MISDEEDS]
    one = extended(written(gate), [*script, DONE, {"text": "still here"}])
    one.say("go")
    one.say("and on")

    assert not runs(one)
    assert dict.fromkeys(MISDEEDS, True) == dict(zip(MISDEEDS, [is_error for _, is_error in one.ends], strict=True))
    assert ["tool_call"] * len(MISDEEDS) == [event for event, _ in one.errors]
    assert "still here" == one.pi.ask("get_last_assistant_text")["text"]


def test_a_gate_that_makes_no_sense_blocks(extended: Start, written: MakeExtension) -> None:
    answers = ["'no'", "True", "{'blok': True}", "{'block': 'yes'}", "[None]", "object()"]
    gate = misbehaves("tool_call", f"return [{', '.join(answers)}][seen.append(1) or len(seen) - 1]")
    script = [call("bash", command="touch ran")] * len(answers)
    one = extended(written(gate.replace("def extension(pi):", "seen = []\n\n\ndef extension(pi):")), [*script, DONE])
    one.say("go")

    assert not runs(one)
    assert dict.fromkeys(answers, True) == dict(zip(answers, [is_error for _, is_error in one.ends], strict=True))
    assert ["tool_call"] * len(answers) == [event for event, _ in one.errors]


def aborted_in_hook(extended: Start, extension: Path) -> Extended:
    """Abort while the extension's approval hook decides about a call, and prompt again."""
    one = extended(extension, [call("bash", command="touch ran"), {"text": "more"}])
    one.begin("go")
    one.pi.wait({"type": "tool_execution_start"})
    one.pi.ask("abort")
    one.pi.wait({"type": "agent_settled"}, since=0)
    one.say("and on")
    return one


@pytest.mark.parametrize(
    "deed",
    [
        "await trio.sleep_forever()",
        "await ctx.ui.confirm('anybody there?')",
        "with trio.CancelScope(shield=True): await trio.sleep(0.3)",
    ],
    ids=["hangs", "asks", "is shielded"],
)
def test_a_gate_that_takes_for_ever_is_ended_by_an_abort(extended: Start, written: MakeExtension, deed: str) -> None:
    one = aborted_in_hook(extended, written(misbehaves("tool_call", deed)))

    assert not runs(one)
    assert [] == one.errors


def test_a_gate_that_swallows_the_abort_lets_nothing_through(extended: Start, written: MakeExtension) -> None:
    deed = "\n        ".join(["try: await trio.sleep_forever()", "except trio.Cancelled: pass"])
    one = aborted_in_hook(extended, written(misbehaves("tool_call", deed)))

    assert not runs(one)


@pytest.mark.parametrize("is_loop_blocked", [True, False])
def test_a_gate_that_blocks_the_loop_decides_all_the_same(
    extended: Start, written: MakeExtension, is_loop_blocked: bool
) -> None:
    deed = "time.sleep(1.2); return {'block': True, 'reason': 'slow, and no'}"
    text = misbehaves("tool_call", deed, is_async=False)
    if not is_loop_blocked:
        text = text.replace("@pi.on('tool_call')", "@pi.on('tool_call', thread=True)")
    one = extended(written(text), WITH_A_CALL)
    one.say("go")

    assert not runs(one)
    assert [("slow, and no", True)] == one.ends
    # While it does, with the place, or behind it: whichever thread gets the processor first.
    expected = re.search(r"block(s|ed) the event loop", one.pi.stderr_text)
    assert is_loop_blocked == (expected is not None)


def test_a_gate_that_aborts_the_run_lets_nothing_through(extended: Start, written: MakeExtension) -> None:
    one = extended(
        written(misbehaves("tool_call", "ctx.abort()")), [call("bash", command="touch ran"), {"text": "more"}]
    )
    one.begin("go")
    one.pi.wait({"type": "agent_settled"})
    one.say("and on")

    assert not runs(one)


def test_a_gate_of_the_shell_that_fails_in_any_way_refuses_the_command(extended: Start, written: MakeExtension) -> None:
    one = extended(written(chooses('@pi.on("user_bash")', "event", 'event.command.removeprefix("touch ran; : ")')))
    answers = {deed: one.pi.request({"type": "bash", "command": f"touch ran; : {deed}"}) for deed in MISDEEDS}

    assert dict.fromkeys(MISDEEDS, False) == {deed: answer["success"] for deed, answer in answers.items()}
    assert not runs(one)
    assert ["user_bash"] * len(MISDEEDS) == [event for event, _ in one.errors]


# Calling back into the session.


CALLBACKS = {
    "says something": "pi.send_user_message('and this', deliver_as='follow_up')",
    "sends a message": "pi.send_message('note', 'hello', trigger_turn=True)",
    "names": "pi.session_name = 'named'",
    "changes the level": "pi.set_thinking_level('high')",
    "registers": "pi.register_command('late', lambda ctx, args: None)",
    "subscribes": "pi.on('turn_end', lambda ctx, event: None)",
}


@pytest.mark.parametrize("event", ["tool_call", "tool_result", "turn_end", "message_end", "agent_end"])
def test_handlers_may_act_on_the_session_that_waits_for_them(
    extended: Start, written: MakeExtension, event: str
) -> None:
    acts = "".join(f"        {deed}\n" for deed in CALLBACKS.values())
    once = "        if done:\n            return\n        done.append(1)\n"
    text = f"{HEAD}    done = []\n\n    @pi.on({event!r})\n    def act(ctx, event):\n{once}{acts}"
    script = [call("bash", command="touch ran"), {**DONE, "repeat": -1}]
    one = extended(written(text), script, "--model", "m2")
    one.begin("go")
    one.pi.wait({"type": "agent_settled"})
    one.pi.ask("abort")
    state = one.pi.ask("get_state")

    assert runs(one)
    assert ("named", "high") == (state["sessionName"], state["thinkingLevel"])
    assert "late" in [each["name"] for each in one.pi.ask("get_commands")["commands"]]
    assert [] == one.errors


def test_a_handler_that_keeps_a_context_of_a_command_can_not_lock_the_session(
    extended: Start, written: MakeExtension
) -> None:
    text = f"""{HEAD}
    kept = []

    @pi.command("keep")
    def keep(ctx, args):
        kept.append(ctx)

    @pi.on("turn_start")
    async def replace(ctx, event):
        await kept[0].new_session()
"""
    one = extended(written(text), [DONE])
    one.command("/keep")
    one.say("go")

    [(event, error)] = one.errors
    assert "turn_start" == event
    assert "this would be a deadlock" in error


# Background tasks, tools, commands, the end.


def test_a_background_task_that_crashes_ends_nothing_else(extended: Start, written: MakeExtension) -> None:
    text = f"""{HEAD}
    async def other():
        await trio.sleep(0.05)
        pi.session_name = "still here"

    @pi.on("session_start")
    def start(ctx, event):
        pi.background.start_soon(fail)
        pi.background.start_soon(other)
"""
    one = extended(written(text), [DONE])
    one.pi.wait({"type": "session_info_changed", "name": "still here"})

    assert [("background", "RuntimeError: in a task (written_1.py, line 20)")] == one.errors


def test_a_tool_that_fails_in_any_way_is_a_result(extended: Start, written: MakeExtension) -> None:
    text = chooses('@pi.tool(description="Do it")', "deed", "deed").replace("deed):", "deed: str):")
    one = extended(written(text), [*(call("chosen", deed=deed) for deed in MISDEEDS), DONE])
    one.say("go")

    assert dict.fromkeys(MISDEEDS, True) == dict(zip(MISDEEDS, [is_error for _, is_error in one.ends], strict=True))
    assert [] == one.errors


def test_every_failure_of_a_command_is_reported(extended: Start, written: MakeExtension) -> None:
    one = extended(written(chooses('@pi.command("odd")', "args", "args")), [DONE])
    for deed in MISDEEDS:
        one.begin(f"/odd {deed}")
        error = one.pi.wait({"type": "extension_error"})
        assert ("command:odd", "command") == (error["extensionPath"], error["event"]), deed
    one.say("go on")


@pytest.mark.parametrize("deed", ["await trio.sleep_forever()", "sys.exit(3)", "raise ValueError", "time.sleep(0.5)"])
def test_the_end_does_not_wait_for_a_handler(extended: Start, written: MakeExtension, deed: str) -> None:
    one = extended(written(misbehaves("session_shutdown", deed)), [DONE], is_checked=False)
    one.say("go")
    one.pi.close_stdin()

    assert 0 == one.pi.wait_exit()


def test_output_printed_without_a_client_is_not_the_answer(print_agent: OneShotStarter, written: MakeExtension) -> None:
    path = written(misbehaves("agent_start", HARMLESS["prints"]))
    printed = print_agent(["-p", "go", "-e", str(path)], [DONE]).end()

    assert (0, "done\n") == printed[:2]
    assert "forged" in printed.err


# Loading.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def extension(pi:\n", "SyntaxError"),
        ("import not_there\n", "not_there"),
        ("def something(pi): ...\n", "extension"),
        ("import sys\nsys.exit(3)\n", "exit"),
        ("def extension(pi):\n    raise ValueError('no')\n", "no"),
        ("def extension(pi):\n    pi.on('tool_call')(lambda event, ctx: None)\n", "wrong order"),
        ("def extension(pi):\n    pi.send_message('a', 'b')\n", "session"),
    ],
)
def test_an_extension_that_fails_to_load_prevents_the_start(
    extended: Start, written: MakeExtension, text: str, expected: str
) -> None:
    path = written(text)
    one = extended(path, is_checked=False)

    assert 1 == one.pi.wait_exit()
    assert expected in one.pi.stderr_text
    assert str(path) in one.pi.stderr_text
    assert [] == one.pi.records
