"""The terminal client on a screen in memory, with real agents and the offline model."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine
from functools import partial
from pathlib import Path

import pytest
from tests.rpc.tui.terminal import Screen, environment, terminal
from textual import events
from textual.events import Key
from textual.widget import Widget
from textual.widgets import Input, TextArea

from pinnace import AsyncioClient, Dialogs
from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_tui.app import TerminalClient
from pinnace_tui.content.rows import cache_lines
from pinnace_tui.conversation import ConversationView
from pinnace_tui.editor import Suggestions
from pinnace_tui.input.decoder import BackgroundReported
from pinnace_tui.screens import Dialog, EditorDialog, Picker
from pinnace_tui.search import SearchLine


def play(work: Coroutine[object, object, None]) -> None:
    asyncio.run(work)


def script(folder: Path, *turns: object) -> tuple[str, str]:
    (folder / "project").mkdir(exist_ok=True)
    path = folder / "script.json"
    path.write_text(json.dumps({"turns": turns, "delay_ms": 0}))
    return "--model", str(path)


def test_a_conversation_with_tools_thoughts_and_a_diff(tmp_path: Path) -> None:
    flags = script(
        tmp_path,
        {
            "thinking": "Where is it?\nHere.",
            "text": "I **write**.",
            "tools": [call("write", path="a.txt", content="one\n")],
        },
        {"tools": [call("edit", path="a.txt", edits=[{"oldText": "one", "newText": "eins"}])]},
        {"text": "# Done\n\n- 日本語\n\n```python\nprint(1)\n```"},
    )

    async def check() -> None:
        async with terminal(tmp_path, *flags, size=(80, 40)) as screen:
            await screen.say("Write a.txt")
            await screen.shows("> Write a.txt", "▸ Thinking (2 lines)", "I write.", "● write  a.txt", "+one")
            await screen.shows("● edit  a.txt", "-1 one", "+1 eins", "Done", "• 日本語", "print(1)")
            await screen.press("ctrl+t")
            await screen.shows("▾ Thinking", "Where is it?")
            await screen.press("ctrl+o")
            await screen.shows("▾ Thinking")
            await screen.press("up")
            await screen.until(lambda: screen.editor.text == "Write a.txt")

    play(check())


def call(name: str, **arguments: object) -> object:
    return {"name": name, "arguments": arguments}


def test_each_sub_agent_has_a_line_while_it_works_and_at_its_end(tmp_path: Path) -> None:
    """The first one waits for its command until the second has ended."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    tasks = [f"run `read line < {gate}; echo $line`", "run `echo second`"]
    calls = [call("subagent", task=task, model="offline/rehearsal") for task in tasks]

    async def work() -> None:
        flags = script(tmp_path, {"tools": calls}, {"text": "both are done"})
        async with terminal(tmp_path, *flags, "--tools", "+subagent", size=(100, 30)) as screen:
            await screen.say("delegate")
            await screen.shows("subagent  run `read line", "↳ running · 1 turn · bash read line")
            await screen.shows("subagent  run `echo second`", "↳ completed · 2 turns")
            await asyncio.to_thread(gate.write_text, "first\n")
            await screen.shows("both are done")
            await screen.until(lambda: 2 == screen.text.count("↳ completed · 2 turns"))

    play(work())


def test_a_sub_agent_that_works_is_given_a_message(tmp_path: Path) -> None:
    """By the beginning of its id, or from the list where there are several; what became of it is below the call."""
    gates = [tmp_path / "project" / each for each in ("first", "second")]
    gates[0].parent.mkdir()
    for gate in gates:
        os.mkfifo(gate)
    tasks = [f"run `cat {gate.name}`" for gate in gates]
    calls = [call("subagent", task=task, model="offline/rehearsal") for task in tasks]

    async def work() -> None:
        flags = script(tmp_path, {"tools": calls}, {"text": "both are done"}, {"text": "later"})
        async with terminal(tmp_path, *flags, "--tools", "+subagent", size=(110, 40)) as screen:
            await screen.say("/message masts")
            await screen.shows("no sub-agent works")
            await screen.until(lambda: screen.editor.text == "masts")
            screen.editor.put("")
            await screen.say("delegate")
            await screen.until(lambda: 2 == screen.text.count("↳ running · 1 turn"))
            listed = (await screen.app.connection.client.list_agents())["agents"]
            first = next(each["agentId"] for each in listed if "first" in each["task"])
            screen.editor.put("/message ")
            suggestions = screen.app.query_one(Suggestions)
            await screen.until(
                lambda: [f"{each['agentId']} " for each in listed] == [s.text for s in suggestions.found]
            )
            screen.editor.put("")
            await screen.say("/message")
            await screen.until(lambda: isinstance(screen.app.screen, Picker))
            await screen.press("escape")
            await screen.until(lambda: not isinstance(screen.app.screen, Picker))
            await screen.say(f"/message {first} and `echo masts`")
            await screen.shows("message accepted for the sub-agent run `cat first`: and `echo masts`")
            await asyncio.to_thread(gates[0].write_text, "one\n")
            await screen.shows("↳ message delivered: and `echo masts`")
            await asyncio.to_thread(gates[1].write_text, "two\n")
            await screen.shows("both are done")

    play(work())


def test_a_sub_agent_is_started_beside_the_conversation(tmp_path: Path) -> None:
    """R-SUB-13, R-SUB-14: it is given a message as others are, and its answer is shown when it has ended."""
    gate = tmp_path / "project" / "gate"
    gate.parent.mkdir()
    os.mkfifo(gate)
    bash = call("bash", command="cat gate")

    async def work() -> None:
        flags = script(tmp_path, {"tools": [bash]}, {"text": "two sails"})
        async with terminal(tmp_path, *flags, size=(110, 40)) as screen:
            await screen.say("/agent count the sails")
            await screen.shows("works: count the sails")
            [child] = (await screen.app.connection.client.list_agents())["agents"]
            await screen.say(f"/message {child['agentId']} masts, too")
            await screen.shows("message accepted for the sub-agent count the sails: masts, too")
            await asyncio.to_thread(gate.write_text, "one\n")
            await screen.shows(f"sub-agent {child['agentId'][-8:]} completed: count the sails", "two sails")
            await screen.say("/agent")
            await screen.until(lambda: isinstance(screen.app.screen, Dialog))
            await screen.press("escape")
            await screen.until(lambda: not isinstance(screen.app.screen, Dialog))

    play(work())


def test_steering_following_up_editing_the_queue_and_aborting(tmp_path: Path) -> None:
    """Escape gives back what was queued, in the order of its delivery."""
    flags = script(tmp_path, {"text": "I begin.", "hang": True})

    async def check() -> None:
        async with terminal(tmp_path, *flags) as screen:
            await screen.say("first")
            await screen.shows("I begin.")
            await screen.say("steered")
            await screen.shows("steering: steered")
            await screen.say("later", "alt+enter")
            await screen.shows("follow-up: later")
            await screen.press("alt+up")
            await screen.until(lambda: screen.editor.text == "steered\n\nlater")
            await screen.press("enter")
            await screen.shows("steering: steered  later")
            for message in ("second", "third"):
                await screen.say(message)
                await screen.shows(f"steering: {message}")
            await screen.press("alt+q")
            await screen.shows("Queued messages", "Ctrl+R: remove")
            await is_open(screen, Picker, Input)
            await screen.press("ctrl+r")
            await screen.until(lambda: screen.line("#queue").startswith("steering: second\nsteering: third\nAlt"))
            await is_open(screen, Picker, Input)
            await screen.press("ctrl+down")
            await screen.until(lambda: screen.line("#queue").startswith("steering: third\nsteering: second\nAlt"))
            await is_open(screen, Picker, Input)
            await screen.press("enter")
            await is_open(screen, EditorDialog, TextArea)
            await screen.press("!", "enter")
            await screen.until(lambda: screen.line("#queue").startswith("steering: third\nsteering: second!\nAlt"))
            await is_open(screen, Picker, Input)
            await screen.press("escape")
            await screen.until(lambda: not isinstance(screen.app.screen, Picker))
            await screen.press("escape")
            await screen.shows("Aborted.")
            await screen.until(lambda: screen.editor.text == "third\n\nsecond!")
            await screen.is_settled()

    play(check())


def test_tool_approval_shows_the_diff_and_an_early_enter_permits_nothing(tmp_path: Path) -> None:
    edit = call("edit", path="a.txt", edits=[{"oldText": "one", "newText": "eins"}])
    flags = script(tmp_path, {"tools": [edit]}, {"text": "Denied."}, {"tools": [edit]}, {"text": "Allowed."})
    (tmp_path / "project" / "a.txt").write_text("one\n")

    async def check() -> None:
        async with terminal(tmp_path, *flags, "--tool-approval", "ask") as screen:
            for keys, outcome in ((["enter"], "one\n"), (["down", "enter"], "eins\n")):
                await screen.say("go")
                await screen.until(lambda: isinstance(screen.app.screen, Dialog))
                await screen.shows("Allow tool: edit", "edits[0].newText: eins", "-one", "+eins")
                await screen.press(*keys)
                await screen.is_settled()
                assert (tmp_path / "project" / "a.txt").read_text() == outcome
            await screen.say("/approval never")
            await screen.until(lambda: "tools: ask" not in screen.line("#footer"))

    play(check())


def test_the_session_shows_what_a_prompt_cache_gave_and_missed() -> None:
    missed = {"missCount": 2, "missedTokens": 12_345, "missedCost": 0.0471}
    reasons = [{"reason": "expired", **missed}, {"reason": "of tomorrow", **missed}]
    stats = {"session": {"tokens": {"cacheRead": 98_765}}, "cacheMisses": {**missed, "reasons": reasons}}

    assert list(cache_lines(stats)) == [
        "98,765 tokens read from the prompt cache",
        "12,345 tokens ($0.047) missed in 2 requests: pauses, of tomorrow",
    ]
    assert list(cache_lines({})) == []  # an agent of an older release


def test_commands_of_the_client(tmp_path: Path) -> None:
    async def check() -> None:
        async with terminal(tmp_path) as screen:
            await screen.say("count to 3")
            await screen.shows("1 2 3")
            await screen.is_settled()
            await screen.say("/name counting")
            await screen.until(lambda: "counting" in screen.line("#footer"))
            await screen.say("/session")
            await screen.shows("1 messages of the user, 1 answers, 0 tool calls")
            await screen.say("/thinking high")
            await screen.until(lambda: "rehearsal · high" in screen.line("#footer"))
            await screen.press("shift+tab")
            await screen.until(lambda: "rehearsal · high" not in screen.line("#footer"))
            await screen.say("/theme light")
            await screen.until(lambda: screen.app.theme == "light")
            await screen.say("/model offline/unknown")
            await screen.shows("no model offline/unknown")
            await screen.say("/modle now")
            await screen.shows("There is no command /modle. Did you mean /model?")
            await screen.until(lambda: isinstance(screen.app.screen, Dialog))
            await screen.press("enter")
            await screen.until(lambda: screen.editor.text == "/modle now")
            await screen.press("enter")
            await screen.until(lambda: isinstance(screen.app.screen, Dialog))
            await screen.press("down", "enter")
            await screen.shows("> /modle now")
            await screen.is_settled()
            await screen.say("/tmp/a is a path")
            await screen.shows("> /tmp/a is a path")
            await screen.is_settled()
            await screen.say("!echo $((6*7))")
            await screen.shows("$ echo $((6*7))", " 42")
            await screen.say("!!exit 3")
            await screen.shows("(not for the model)", "exit code 3")
            await opened(screen, "/hotkeys")
            await screen.shows("Page Up ", "scroll a page up  (tui.altScreen.pageUp)")
            await screen.press("escape")
            await opened(screen, "/settings")
            await screen.shows("Compact by itself: yes")
            await screen.press(*["down"] * 3, "enter")
            await screen.shows("Compact by itself: no")
            await is_open(screen, Picker, Input)
            await screen.press("escape")

    play(check())


def test_the_conversation_is_searched(tmp_path: Path) -> None:
    """Also what is folded or above the screen; behind the end it continues at the beginning."""
    flags = script(tmp_path, *({"text": f"Answer {number}.\n\n- a\n- Needle {number}\n- b\n"} for number in range(3)))

    async def check() -> None:
        async with terminal(tmp_path, *flags, size=(60, 12)) as screen:
            for number in range(3):
                await screen.say(f"question {number}")
                await screen.shows(f"Needle {number}")
                await screen.is_settled()
            await screen.say("!echo; seq 20; echo hidden")
            await screen.shows("hidden", " 20")
            view = screen.app.query_one(ConversationView)
            await screen.press("f3")
            await screen.until(lambda: isinstance(screen.app.focused, SearchLine))
            await screen.press(*"needle")
            found = []
            for key in ("", "enter", "enter", "enter", "up", "up"):
                before = view.marked_line
                if key:
                    await screen.press(key)
                    await screen.until(lambda before=before: view.marked_line != before)  # type: ignore[misc]
                await screen.until(lambda: "Needle" in (view.marked_line or ""))
                found.append((view.marked_line or "").strip(" •\n"))
            first = int(found[0][-1])
            assert found == [f"Needle {(first + step) % 3}" for step in (0, 1, 2, 3, 2, 1)]
            await screen.press("escape")
            await screen.until(lambda: screen.app.focused is screen.editor)
            await screen.say("/find seq 20; ECHO")
            await screen.until(lambda: "$ echo; seq 20; echo hidden" in (view.marked_line or ""))
            view.scroll_y = view.max_scroll_y - 1
            assert not view.is_following
            screen.app.transcript.notice("below the end that is shown")
            view.scroll_y = view.max_scroll_y
            assert view.is_following

    play(check())


def test_the_tree_labels_forks_and_continues_from_another_place(tmp_path: Path) -> None:
    async def check() -> None:
        async with terminal(tmp_path, size=(80, 40)) as screen:
            for message in ("count to 2", "count to 4"):
                await screen.say(message)
                await screen.shows(message)
                await screen.is_settled()
            await opened(screen, "/tree")
            await screen.shows("you: count to 2", "● model: 1 2 3 4")
            await screen.press("up", "up", "ctrl+l")
            await screen.shows("Label, or nothing")
            await write(screen, "here")
            await screen.shows("[here] model: 1 2")
            await screen.press("up", "enter")
            await screen.until(lambda: not isinstance(screen.app.screen, Picker))
            await screen.until(lambda: screen.editor.text == "count to 4")
            await opened(screen, "/fork")
            await screen.shows("Fork before", "count to 2", "count to 4")
            await screen.press("up", "enter")
            await screen.until(lambda: screen.editor.text == "count to 2")
            await opened(screen, "/resume")
            await screen.shows("Sessions", "count to 2")
            await screen.press("escape")

    play(check())


async def opened(screen: Screen, command: str) -> None:
    screen.editor.put("")
    await screen.say(command)
    await is_open(screen, Picker, Input)


async def is_open(screen: Screen, kind: type[Widget], focused: type[Widget]) -> None:
    """Wait until a question takes keys."""
    await screen.until(lambda: isinstance(screen.app.screen, kind) and isinstance(screen.app.focused, focused))


async def write(screen: Screen, value: str) -> None:
    await screen.until(lambda: isinstance(screen.app.focused, Input))
    screen.app.screen.query_one(Input).value = value
    await screen.press("enter")


def test_every_request_of_an_extension_is_shown_and_answered(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKING)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "asks.py")) as screen:
            await screen.say("/asks")
            await screen.shows("Which [b]one[/b]?", "[red]a")
            await screen.press("enter", "down", "down", "enter")
            await screen.shows("Sure?", "Really sure?")
            await screen.press("up", "enter")
            await screen.shows("Your name?")
            await write(screen, "Ada")
            await screen.shows("Edit it")
            await is_open(screen, EditorDialog, TextArea)
            await screen.press("!", "enter")
            await screen.shows("✗ reported")
            assert "got b True Ada text!" in screen.line("#footer")
            assert screen.line("#above") == "one\ntwo"
            assert screen.line("#below") == "three"
            assert screen.line("#title") == "A title"
            await screen.until(lambda: screen.editor.text == "put here and there")

    play(check())


ASKING = """
def extension(pi):
    @pi.command("asks", description="asks")
    async def asks(ctx, args):
        ui = ctx.ui
        one = await ui.select("Which [b]one[/b]?", ["[red]a", "b"])
        two = await ui.confirm("Sure?", "Really sure?")
        three = await ui.input("Your name?", "name")
        four = await ui.editor("Edit it", "text")
        ui.set_status("work", f"got {one} {two} {three} {four}")
        ui.set_widget("w", ["one", "two"])
        ui.set_widget("v", ["three"], placement="below_editor")
        ui.set_title("A title")
        ui.set_editor_text("put here")
        ui.paste_to_editor(" and there")
        ui.notify("shown for a moment", "info")
        ui.notify("reported", "error")
"""


def test_an_enter_that_was_meant_for_the_editor_permits_nothing(tmp_path: Path) -> None:
    """Not one that came before the question was drawn, and not the first one after it."""
    (tmp_path / "asking.py").write_text(PERMITTING)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "asking.py")) as screen:
            early = [events.Key("up", None), events.Key("enter", "\r")]
            await screen.say("/permits")
            await screen.shows("Delete all?")
            for each in early:
                screen.app.post_message(each)
            await screen.pilot.pause()
            assert isinstance(screen.app.screen, Dialog)
            await screen.press("enter")
            await screen.shows("Which?")
            for _ in range(3):
                await screen.press("enter")
            assert isinstance(screen.app.screen, Dialog)
            await screen.press("escape")
            await screen.until(lambda: "got False None" in screen.line("#footer"))

    play(check())


PERMITTING = """
def extension(pi):
    @pi.command("permits", description="asks")
    async def permits(ctx, args):
        one = await ctx.ui.confirm("Delete all?", "")
        two = await ctx.ui.select("Which?", ["all", "none"])
        ctx.ui.set_status("work", f"got {one} {two}")
"""


def test_a_question_shows_its_time_and_is_closed_after_it(tmp_path: Path) -> None:
    (tmp_path / "timed.py").write_text(TIMED)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "timed.py")) as screen:

            def is_over(work: str) -> bool:
                return f"{work} is over" in screen.line("#footer")

            def shows_its_time(seconds: int) -> bool:
                found = re.search(r"closes in (\d+) s, without an answer", screen.text)
                return found is not None and int(found[1]) <= seconds

            for kind in ("select", "confirm", "input"):
                for seconds in SECONDS:
                    work = f"{kind} {seconds}"
                    is_shown, is_past = partial(shows_its_time, seconds), partial(is_over, work)
                    await screen.say(f"/timed {work}")
                    await screen.until(lambda is_shown=is_shown, is_past=is_past: is_shown() or is_past())  # type: ignore[misc]
                    has_shown_it = is_shown()
                    await screen.until(is_past)
                    await screen.until(lambda: not isinstance(screen.app.screen, Dialog))
                    if has_shown_it:
                        break
                assert has_shown_it

    play(check())


SECONDS = (2, 20)
"""How long a question is open; it has the longer time where the machine was too busy to draw it in the shorter one."""
TIMED = """
def extension(pi):
    @pi.command("timed", description="asks for some seconds")
    async def timed(ctx, args):
        kind, seconds = args.split()
        arguments = {"select": (["a"],), "confirm": ("?",), "input": ("",)}[kind]
        await getattr(ctx.ui, kind)("Now?", *arguments, timeout=float(seconds))
        ctx.ui.set_status("timed", f"{args} is over")
"""


def test_names_of_others_and_texts_in_the_editor_change_no_terminal(tmp_path: Path) -> None:
    """A file's name or a message has control characters; they are kept, and shown as replacements."""
    name = "evil\x1b]0;title\x07.txt"

    async def check() -> None:
        async with terminal(tmp_path) as screen:
            (tmp_path / "project" / name).touch()
            await screen.press(*"@evil")
            suggestions = screen.app.query_one(Suggestions)
            await screen.until(lambda: bool(suggestions.found))
            assert str(suggestions.render()) == "→ @evil.txt"
            await screen.press("tab")
            await screen.until(lambda: screen.editor.text == f"@{name} ")
            assert screen.editor.get_line(0).plain == "@evil\ufffd]0;title\ufffd.txt "
            screen.editor.put("a\ud800b")
            assert screen.editor.get_line(0).plain == "a\ufffdb"
            await screen.shows("a\ufffdb")
            screen.editor.put("")

    play(check())


def test_a_key_behind_the_one_that_clears_the_editor_is_for_the_empty_editor(tmp_path: Path) -> None:
    """Both come at once, as a terminal sends them."""

    async def check() -> None:
        async with terminal(tmp_path) as screen:
            screen.editor.put("not this")
            for key in ("ctrl+c", "x"):
                screen.app.post_message(Key(key, key if len(key) == 1 else None))
            await screen.until(lambda: screen.editor.text == "x")
            screen.editor.put("")
            await screen.press("up")
            await screen.until(lambda: screen.editor.text == "not this")

    play(check())


def test_keys_that_come_at_once_are_not_completed_by_what_was_offered_before_them(tmp_path: Path) -> None:
    async def check() -> None:
        async with terminal(tmp_path) as screen:
            await screen.press("/")
            await screen.until(lambda: bool(screen.app.query_one(Suggestions).found))
            for key in (*"hotkeys", "enter"):
                screen.app.post_message(Key(key, key if len(key) == 1 else None))
            await screen.until(lambda: isinstance(screen.app.screen, Picker) or screen.editor.text not in ("/", ""))
            await is_open(screen, Picker, Input)
            await screen.press("escape")

    play(check())


def test_what_is_shown_or_run_before_the_agent_is_there_stays(tmp_path: Path) -> None:
    async def check() -> None:
        command = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--provider", "offline"]
        env = environment(tmp_path)

        def connect(dialogs: Dialogs) -> AsyncioClient:
            return AsyncioClient(command, cwd=tmp_path / "project", env=env, dialogs=dialogs)

        app = TerminalClient(connect, notices=["a theme is wrong"])
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.say("!echo $((6*7))")
            await screen.until(lambda: "no model" not in screen.line("#footer"))
            await screen.shows("! a theme is wrong", "$ echo $((6*7))", " 42")
            await app.leave()
            await app.left.wait()

    play(check())


@pytest.mark.parametrize("ends", ["left", "broken"])
def test_a_client_ends_while_what_the_agent_needs_is_imported(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """By its key, or by a defect there: it has neither a conversation nor an agent yet."""
    begun, gate = threading.Event(), threading.Event()

    def load() -> None:
        begun.set()
        gate.wait()
        if ends == "broken":
            raise ZeroDivisionError

    monkeypatch.setattr("pinnace_tui.app._load_client", load)

    def connect(_: Dialogs) -> AsyncioClient:
        raise AssertionError("an agent is started")

    async def check() -> None:
        app = TerminalClient(connect)
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.until(begun.is_set)
            try:
                if ends == "left":
                    await screen.press("ctrl+d")
                    await screen.until(app.left.is_set)
            finally:
                gate.set()
            await screen.until(app.left.is_set)
        assert app.return_code == 0
        failure = None if ends == "left" else "the terminal client has a defect: ZeroDivisionError: "
        assert app.return_value == failure

    play(check())


class Broken(TerminalClient):
    """A client with a defect, which shows when the conversation is there."""

    def on_ready(self) -> None:
        self.set_interval(0.01, self.fail)

    def fail(self) -> None:
        if self.transcript.prompts():
            raise ZeroDivisionError


def test_warnings_of_the_agent_are_shown_once_in_each_conversation(tmp_path: Path) -> None:
    """What an extension that was left out would have guarded is not: its user has to know."""
    environment(tmp_path)
    folder = tmp_path / "home" / "agent" / "extensions"
    folder.mkdir()
    (folder / "gate.py").write_text("def extension(pi):\n    raise ValueError('no gate')\n")
    (folder / "other.ts").write_text("")

    async def check() -> None:
        async with terminal(tmp_path, "--keep-going", size=(160, 40)) as screen:
            await screen.shows("gate.py: ValueError: no gate", "TypeScript or JavaScript are left out")
            await screen.say("count to 2")
            await screen.shows("1 2")
            assert (1, 1) == tuple(map(screen.text.count, ("no gate", "are left out")))
            await screen.say("/new")
            await screen.until(lambda: "1 2" not in screen.text)
            await screen.shows("gate.py: ValueError: no gate", "2 warnings: /warnings")
            await screen.say("/warnings")
            await screen.until(lambda: (2, 2) == tuple(map(screen.text.count, ("no gate", "are left out"))))

    play(check())


def test_a_defect_of_the_client_is_its_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    app = Broken(lambda dialogs: AsyncioClient([sys.executable, "-c", RACING], dialogs=dialogs))
    assert app.run(headless=True) is None
    assert app.return_code == 1
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_what_cannot_be_sent_goes_back_into_the_editor(tmp_path: Path) -> None:
    async def check() -> None:
        async with terminal(tmp_path, "--provider", "anthropic", "--model", "opus") as screen:
            await screen.say("hello")
            await screen.until(lambda: screen.editor.text == "hello")

    play(check())


def test_without_a_model_the_first_screen_and_the_list_of_models_name_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc"]
    env = environment(tmp_path)

    async def check() -> None:
        app = TerminalClient(lambda dialogs: AsyncioClient(command, cwd=tmp_path / "project", env=env, dialogs=dialogs))
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.shows("· pinnace ", "No model is selected. /login lists the providers", "Enter: send")
            await screen.say("/model")
            await screen.shows("✗ no model can be used: no provider has a key. /login lists the providers")
            await app.leave()
            await app.left.wait()

    play(check())


def test_an_extension_that_ends_the_agent_in_order_ends_the_client_so(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(ENDING)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "ends.py")) as screen:
            await screen.say("count to 3")
            await screen.shows("1 2 3")
            await screen.is_settled()
            await screen.say("/ends")
            await screen.app.left.wait()
            assert (screen.app.return_value, screen.app.return_code) == (None, 0)
            assert screen.app.session.last_words() == ["1 2 3", "To continue this session: pinnace --continue"]

    play(check())


ENDING = """
def extension(pi):
    @pi.command("ends", description="ends")
    async def ends(ctx, args):
        ctx.shutdown()
"""


def test_a_theme_is_drawn_on_the_background_of_the_terminal_where_it_can_be_read(tmp_path: Path) -> None:
    """Without a chosen theme the one that fits is used; a chosen one keeps its own background on another."""

    async def check() -> None:
        async with terminal(tmp_path) as screen:
            app = screen.app
            assert (app.theme, app.current_theme.background) == ("dark on the terminal's background", "ansi_default")
            app.post_message(BackgroundReported(is_dark=False))
            await screen.until(lambda: app.theme == "light on the terminal's background")
            app.looks.use("dark")
            assert app.theme == "dark"
            app.post_message(BackgroundReported(is_dark=True))
            await screen.until(lambda: app.theme == "dark on the terminal's background")
            for name in ("light", "high-contrast"):
                app.looks.use(name)
                assert app.theme == name

    play(check())


def test_an_agent_that_cannot_start_ends_the_client_with_its_reason(tmp_path: Path) -> None:
    async def check() -> None:
        env = environment(tmp_path)
        command = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--provider", "nowhere"]
        app = TerminalClient(lambda dialogs: AsyncioClient(command, env=env, dialogs=dialogs))
        async with app.run_test():
            await app.left.wait()
        assert app.return_value is not None
        assert "nowhere" in app.return_value

    play(check())


def test_an_event_behind_the_entries_is_shown_however_both_are_taken(tmp_path: Path) -> None:
    """The answer and the event come in one write, many times: each order of taking them is seen."""
    program = [sys.executable, "-c", RACING]

    async def check() -> None:
        app = TerminalClient(lambda dialogs: AsyncioClient(program, dialogs=dialogs))
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.until(lambda: app.transcript.prompts() == ["question 1"])
            for count in range(2, 40):
                await app.session.reload()
                await screen.until(lambda wanted=f"question {count}": app.transcript.prompts() == [wanted])  # type: ignore[misc]
            await app.leave()
            await app.left.wait()

    play(check())


RACING = """
import json, sys
known = {
    "get_state": {"sessionId": "s", "isStreaming": False, "cwd": "/", "model": None, "thinkingLevel": "off"},
    "get_entries": {"entries": [], "leafId": None}, "get_session_stats": {}, "get_commands": {"commands": []},
    "get_queue": {"messages": [], "paused": False},
}
count = 0
for line in sys.stdin:
    command = json.loads(line)
    name = command["type"]
    records = [{"type": "response", "id": command["id"], "command": name, "success": True, "data": known.get(name, {})}]
    if name == "get_entries":
        count += 1
        message = {"role": "user", "content": f"question {count}"}
        records.append({"type": "message_start", "entryId": f"e{count}", "message": message})
    sys.stdout.write("".join(json.dumps(record) + "\\n" for record in records))
    sys.stdout.flush()
"""


def test_a_lost_connection_is_shown_until_there_is_another(tmp_path: Path) -> None:
    """What was missed is shown then."""
    lost = tmp_path / "lost"
    program = [sys.executable, "-c", LOSING, str(lost)]

    async def check() -> None:
        app = TerminalClient(lambda dialogs: AsyncioClient.attach("bot", command=program, dialogs=dialogs))
        async with app.run_test() as pilot:
            screen = Screen(app, pilot)
            await screen.until(lambda: app.transcript.prompts() == ["question 1"])
            lost.touch()
            await screen.until(lambda: "The connection to the agent is lost since" in screen.line("#work"))
            lost.unlink()
            await screen.until(lambda: app.transcript.prompts() == ["question 1", "question 2"])
            await screen.is_settled()
            await app.leave()
            await app.left.wait()

    play(check())


LOSING = """
import json, os, sys, threading, time
while os.path.exists(sys.argv[1]):
    time.sleep(0.02)
def say(*records):
    sys.stdout.write("".join(json.dumps(record) + "\\n" for record in records))
    sys.stdout.flush()
seq = 1 if "--since" in sys.argv else 0
say({"type": "attached", "agent": "bot", "journal": "J", "epoch": 1, "seq": seq, "knownClient": True})
def lose():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
    os._exit(75)
threading.Thread(target=lose, daemon=True).start()
known = {
    "get_state": {"sessionId": "s", "isStreaming": False, "cwd": "/", "model": None, "thinkingLevel": "off"},
    "get_entries": {"entries": [], "leafId": None}, "get_session_stats": {}, "get_commands": {"commands": []},
    "get_queue": {"messages": [], "paused": False},
}
def ask():
    message = {"role": "user", "content": f"question {seq + 1}"}
    say({"type": "message_start", "seq": seq + 1, "entryId": f"e{seq + 1}", "message": message})
if seq:
    ask()
for line in sys.stdin:
    command = json.loads(line)
    name = command["type"]
    say({"type": "response", "id": command["id"], "command": name, "success": True, "data": known.get(name, {})})
    if name == "get_commands" and not seq:
        ask()
"""


def test_a_second_terminal_and_a_host_that_is_killed(tmp_path: Path) -> None:
    """Both show what either does; after the host's end both attach to the next one, with what they missed."""
    runtime = make_short_folder("pt-")  # the path of a socket is short
    env = environment(tmp_path, XDG_RUNTIME_DIR=str(runtime))
    host = [sys.executable, "-P", "-m", "pinnace_rpc", "host"]
    stop = [*host, "stop"]

    def kill() -> None:
        known = subprocess.run([*host, "status"], env=env, check=True, cwd=tmp_path, capture_output=True)
        os.kill(json.loads(known.stdout)["pid"], signal.SIGKILL)

    async def check() -> None:
        async with (
            terminal(tmp_path, env=env, attached="pair") as first,
            terminal(tmp_path, env=env, attached="pair") as second,
        ):
            await first.say("count to 3")
            await second.shows("> count to 3", "1 2 3")
            await first.is_settled()
            await asyncio.to_thread(kill)
            await second.say("count to 5")
            await first.shows("> count to 3", "> count to 5", "1 2 3 4 5")
            await second.shows("> count to 5", "1 2 3 4 5")

    try:
        play(check())
    finally:
        subprocess.run(stop, env=env, check=False, cwd=tmp_path, capture_output=True)
        shutil.rmtree(runtime, ignore_errors=True)


def test_a_terminal_on_a_sub_agent_shows_it_and_answers_its_questions(tmp_path: Path) -> None:
    """R-HST-09: what it did before and does now; what is typed there is a message to it."""
    runtime = make_short_folder("pt-")  # the path of a socket is short
    env = environment(tmp_path, XDG_RUNTIME_DIR=str(runtime))
    gate = tmp_path / "project" / "gate"
    os.mkfifo(gate)
    task = call("subagent", task="run `cat gate`", model="offline/rehearsal")
    flags = (*script(tmp_path, {"tools": [task]}, {"text": "all is done"}), "--tools", "+subagent")

    async def work() -> None:
        async with terminal(tmp_path, *flags, "--tool-approval", "ask", env=env, attached="pair") as first:
            await first.say("delegate")
            await first.shows("Allow tool: subagent")
            await first.press("down", "enter")
            await first.shows("Allow tool: bash")
            [child] = (await first.app.connection.client.list_agents())["agents"]
            async with terminal(tmp_path, env=env, attached=child["agentId"], is_view=True) as second:
                await second.shows("Task: run `cat gate`", "Allow tool: bash")
                await second.press("down", "enter")
                await first.until(lambda: not isinstance(first.app.screen, Dialog))
                await second.until(lambda: not isinstance(second.app.screen, Dialog))
                await second.say("count to 3")
                await second.until(lambda: second.editor.text == "")
                await asyncio.to_thread(gate.write_text, "two sails\n")
                await second.shows("two sails", "> Message: count to 3", "1 2 3")
                await second.is_settled()
            await first.shows("↳ message delivered: count to 3", "all is done")

    try:
        play(work())
    finally:
        stop = [sys.executable, "-P", "-m", "pinnace_rpc", "host", "stop"]
        subprocess.run(stop, env=env, check=False, cwd=tmp_path, capture_output=True)
        shutil.rmtree(runtime, ignore_errors=True)


CHANGING = """
def extension(pi):
    @pi.command("change", description="changes")
    async def change(ctx, args):
        await (ctx.new_session() if args == "new" else ctx.navigate_tree(None))

    @pi.command("ask", description="asks")
    async def ask(ctx, args):
        answer = await ctx.ui.input("Your name?", timeout=float(args) if args else None)
        ctx.ui.set_status("work", f"got {answer} of /ask {args}")
"""


def test_two_terminals_show_the_conversation_that_is_and_close_a_question_that_is_over(tmp_path: Path) -> None:
    """R-SES-16, R-HST-04: whoever moves or replaces the session, and however a question ends."""
    (tmp_path / "changes.py").write_text(CHANGING)
    runtime = make_short_folder("pt-")  # the path of a socket is short
    env = environment(tmp_path, XDG_RUNTIME_DIR=str(runtime))
    flags = ("-e", str(tmp_path / "changes.py"))

    async def is_empty(screen: Screen) -> None:
        await screen.until(lambda: "1 2 3" not in screen.text)
        assert [] == screen.app.transcript.prompts()

    def is_asked(screen: Screen) -> bool:
        app = screen.app
        return isinstance(app.screen, Dialog) and isinstance(app.focused, Input) and "Your name?" in screen.text

    def is_over(seconds: str, screen: Screen) -> bool:
        return f"got None of /ask {seconds}" in screen.line("#footer")

    async def check() -> None:
        async with (
            terminal(tmp_path, *flags, env=env, attached="pair") as first,
            terminal(tmp_path, *flags, env=env, attached="pair") as second,
        ):
            for change in ("/change", "/change new", "/new"):
                await first.say("count to 3")
                await second.shows("> count to 3", "1 2 3")
                await first.shows("1 2 3")
                await first.is_settled()
                await first.say(change)
                await is_empty(first)
                await is_empty(second)
            await second.say("count to 4")
            await first.shows("1 2 3 4")
            both = (first, second)
            for seconds in ("", *map(str, SECONDS)):
                await first.say(f"/ask {seconds}")
                is_past = partial(is_over, seconds)
                await first.until(lambda is_past=is_past: all(map(is_asked, both)) or any(map(is_past, both)))  # type: ignore[misc]
                were_asked = all(map(is_asked, both))
                if not seconds:
                    assert were_asked
                    await second.app.connection.client.abort()
                for screen in both:
                    await screen.until(partial(is_past, screen))
                    await screen.until(lambda screen=screen: not isinstance(screen.app.screen, Dialog))  # type: ignore[misc]
                if seconds and were_asked:
                    break
            assert were_asked

    try:
        play(check())
    finally:
        stop = [sys.executable, "-P", "-m", "pinnace_rpc", "host", "stop"]
        subprocess.run(stop, env=env, check=False, cwd=tmp_path, capture_output=True)
        shutil.rmtree(runtime, ignore_errors=True)
