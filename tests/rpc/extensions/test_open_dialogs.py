"""Dialogs that are open when something ends: each has its default at once, and no handler is left.

Rule R-UI-01.
"""

from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, call

from pinnace_fuzz.script import Scripted

DONE: dict[str, object] = {"text": "done"}
METHODS = {"select": "None", "confirm": "False", "input": "None", "editor": "None"}

# Notes what became of each question. A cancellation is noted as such.
ASKER = '''
import os


def extension(pi):
    async def ask(ctx, method, where):
        ui = ctx.ui
        questions = {
            "select": lambda: ui.select("q", ["a", "b"]),
            "confirm": lambda: ui.confirm("q"),
            "input": lambda: ui.input("q"),
            "editor": lambda: ui.editor("q"),
        }
        outcome = "nothing"
        try:
            outcome = repr(await questions[method]())
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            with open(os.environ["NOTES"], "a") as notes:
                notes.write(f"{where} {outcome}\\n")
        return outcome

    @pi.tool
    async def asks(ctx, method: str) -> str:
        """Ask something."""
        return await ask(ctx, method, "tool")

    @pi.command("ask")
    async def command(ctx, args):
        await ask(ctx, args, "command")

    @pi.on("tool_call", tool="bash")
    async def gate(ctx, event):
        if await ask(ctx, event.input["command"], "gate") in ("None", "False"):
            return {"block": True, "reason": "not approved"}

    @pi.on("session_start")
    def start(ctx, event):
        if "BACKGROUND" in os.environ and event.reason == "startup":
            pi.background.start_soon(ask, ctx, os.environ["BACKGROUND"], "background")
'''


class Asking:
    """An agent with a dialog that is open."""

    def __init__(self, one: Extended, notes: Path, method: str) -> None:
        self.one = one
        self.pi = one.pi
        self.method = method
        self._notes = notes

    @property
    def notes(self) -> list[str]:
        """What became of the questions."""
        return self._notes.read_text().splitlines() if self._notes.exists() else []


@pytest.fixture
def asker(written: MakeExtension) -> Path:
    return written(ASKER)


def asking(extended: Start, asker: Path, where: str, method: str, *more: str, is_checked: bool = True) -> Asking:
    """Open a dialog: in a tool, in a gate, in a command or in a background task."""
    notes = asker.with_name("notes")
    script = {"tool": call("asks", method=method), "gate": call("bash", command=method)}
    env = {"NOTES": str(notes)} | ({"BACKGROUND": method} if where == "background" else {})
    one = extended(
        [asker, *more],
        [script.get(where, DONE), {**DONE, "repeat": -1}],
        env=env,
        has_session=True,
        is_checked=is_checked,
    )
    if where == "command":
        one.begin(f"/ask {method}")
    elif where != "background":
        one.begin("go")
    one.asked(method)
    return Asking(one, notes, method)


PLACES = ["tool", "gate", "command", "background"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("where", ["tool", "gate"])
def test_an_abort_ends_the_question_and_the_run(extended: Start, asker: Path, where: str, method: str) -> None:
    asked = asking(extended, asker, where, method)
    asked.pi.ask("abort")
    asked.pi.wait({"type": "agent_settled"}, since=0)
    asked.one.say("and on")

    [note] = asked.notes
    assert note in (f"{where} {METHODS[method]}", f"{where} Cancelled")
    assert [] == asked.one.errors


@pytest.mark.parametrize("method", METHODS)
def test_an_abort_answers_the_question_of_a_command_with_its_default(extended: Start, asker: Path, method: str) -> None:
    asked = asking(extended, asker, "command", method)
    asked.pi.ask("abort")
    asked.one.accepted("prompt-1")

    assert [f"command {METHODS[method]}"] == asked.notes


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("method", ["confirm", "editor"])
def test_the_end_of_input_ends_the_question_and_the_process(
    extended: Start, asker: Path, where: str, method: str
) -> None:
    """At once: a process that something holds up reports what it is, and ends after some seconds."""
    asked = asking(extended, asker, where, method, is_checked=False)
    asked.pi.close_stdin()

    assert 0 == asked.pi.wait_exit()
    assert "pinnace: error" not in asked.pi.stderr_text
    [note] = asked.notes
    assert note in (f"{where} {METHODS[method]}", f"{where} Cancelled")


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("command", ["new_session", "switch_session", "fork", "clone"])
def test_another_session_ends_the_question_of_the_old_one(
    extended: Start, asker: Path, where: str, command: str
) -> None:
    asked = asking(extended, asker, where, "confirm")
    fields: dict[str, object] = {}
    if command != "new_session" and where not in ("tool", "gate"):
        asked.one.say("something to go back to")
    if command == "fork":
        fields = {"entryId": asked.pi.ask("get_fork_messages")["messages"][0]["entryId"]}
    if command == "switch_session":
        fields = {"sessionPath": asked.pi.ask("get_state")["sessionFile"]}
    asked.pi.ask(command, **fields)
    asked.one.say("in the other session")

    [note] = asked.notes
    assert note in (f"{where} False", f"{where} Cancelled")
    assert [] == asked.one.errors


@pytest.mark.parametrize("where", ["command", "background"])
def test_a_reload_ends_the_question_of_what_was_there_before(extended: Start, asker: Path, where: str) -> None:
    asked = asking(extended, asker, where, "confirm", "reload_command.py")
    asked.one.command("/reload-runtime")
    asked.one.say("after it")

    [note] = asked.notes
    assert note in (f"{where} False", f"{where} Cancelled")


@pytest.mark.parametrize("where", PLACES)
def test_an_unanswered_dialog_does_not_block_the_client(extended: Start, asker: Path, where: str) -> None:
    asked = asking(extended, asker, where, "confirm")
    state = asked.pi.ask("get_state")
    asked.pi.ask("set_session_name", name="meanwhile")
    asked.pi.ask("bash", command="true") if where != "gate" else None

    assert state["isStreaming"] is (where in ("tool", "gate"))
    assert [] == asked.notes


def test_an_answer_after_the_abort_is_dropped(extended: Start, asker: Path) -> None:
    asked = asking(extended, asker, "command", "select")
    request = asked.one.frames("select")[0]
    asked.pi.ask("abort")
    asked.one.accepted("prompt-1")
    asked.one.reply(request, value="a")
    asked.one.say("go on")

    assert ["command None"] == asked.notes


def test_several_questions_are_open_at_once_and_end_together(extended: Start, asker: Path) -> None:
    notes = asker.with_name("notes")
    two: Scripted = {"tool_calls": [{"name": "asks", "args": {"method": method}} for method in ("select", "input")]}
    one = extended(asker, [two, {**DONE, "repeat": -1}], env={"NOTES": str(notes)})
    one.begin("go")
    first = one.pi.wait({"type": "extension_ui_request", "method": "select"}, since=0)
    one.pi.wait({"type": "extension_ui_request", "method": "input"}, since=0)
    one.reply(first, value="b")
    one.pi.wait({"type": "tool_execution_end"})
    one.pi.ask("abort")
    one.pi.wait({"type": "agent_settled"}, since=0)

    assert ["tool 'b'"] == notes.read_text().splitlines()[:1]
    assert 2 == len(notes.read_text().splitlines())


@pytest.mark.parametrize("command", ["new_session", "start"])
def test_an_abort_ends_a_beginning_that_hangs(extended: Start, written: MakeExtension, command: str) -> None:
    """R-ABT-01, R-EXT-06: everything waits for the handlers of session_start, so they must not wait for ever."""
    hangs = written(
        f"""
        import trio

        def extension(pi):
            @pi.on("session_start")
            async def wait(ctx, event):
                if event.reason == {"new" if command == "new_session" else "startup"!r}:
                    ctx.ui.notify("here")
                    await trio.sleep_forever()
        """
    )
    one = extended(hangs, [{"text": "fine"}])
    if command == "new_session":
        one.pi.send({"id": "n", "type": "new_session"})
    assert "here" == one.notice()
    one.pi.send({"id": "p", "type": "get_state"})
    one.pi.ask("abort")

    assert ["session_start"] == [event for event, _ in one.errors]
    assert one.pi.wait_response("p")["success"]
    one.say("hello")
