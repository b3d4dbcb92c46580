"""Keys, pastes, defects and sizes that are rare: none ends the client, and no text is lost."""

import asyncio
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.tui.terminal import Screen, terminal
from textual.widgets import Input, OptionList, TextArea

from pinnace_tui.actions import Actions
from pinnace_tui.drafts import Drafts
from pinnace_tui.editor import Editor
from pinnace_tui.fields import LineInput, TextBox
from pinnace_tui.input.decoder import InputDecoder
from pinnace_tui.screens import Dialog, EditorDialog, Picker
from pinnace_tui.search import SearchLine

# Newer than the tables of old runtimes, for private use, unassigned, spaces, marks of direction, halves of a family.
RARE: Final = "🫨\ue0a0\u0378\xa0\u3000\u200e\u200d\xad👩‍👧é日"


def play(work: Coroutine[object, object, None]) -> None:
    asyncio.run(work)


def send(screen: Screen, data: bytes) -> None:
    """Give the client what a terminal sends."""
    decoder = InputDecoder()
    messages = decoder.feed(data)
    while decoder.wait_s is not None:
        messages += decoder.expire()
    for message in messages:
        screen.app.post_message(message)


async def asked(screen: Screen, command: str, *kinds: type[object]) -> None:
    """Submit a command that asks; wait until the question takes keys."""
    screen.editor.put(command)
    send(screen, b"\r")
    await screen.until(lambda: isinstance(screen.app.screen, kinds) and screen.app.focused is not None)
    await screen.takes_keys()


async def left(screen: Screen) -> None:
    send(screen, b"\x1b")
    await screen.until(lambda: screen.app.focused is screen.editor)


ASKING: Final = """
def extension(pi):
    @pi.command("asks", description="asks")
    async def asks(ctx, args):
        arguments = {"select": (["a longer option", "b"],), "input": ("name",), "editor": ("text",)}
        answer = await getattr(ctx.ui, args)("A question?", *arguments.get(args, ("really? " * 20,)))
        ctx.ui.set_status("answer", repr(answer))
"""


def test_what_is_typed_and_pasted_arrives_in_every_field(tmp_path: Path) -> None:
    """In the editor, in a line, and in a longer text: characters that Textual does not call printable, too."""
    (tmp_path / "asks.py").write_text(ASKING)
    coloured = "\x1b[31mred\x1b[0m\rsecond\x0cthird\u2028fourth\r"
    pasted = b"\x1b[200~" + coloured.encode() + b"\x1b[201~"

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "asks.py")) as screen:
            send(screen, RARE.encode() + b"\xff\x1b[99999999u\x1b[57358u\x1b[25~.")
            await screen.until(lambda: screen.editor.text == f"{RARE}\ufffd.")
            screen.editor.put("")
            send(screen, b"a" + pasted + b"b")
            await screen.until(lambda: screen.editor.text == "a\x1b[31mred\x1b[0m\nsecond\nthird\nfourth\nb")
            assert screen.app.transcript.prompts() == []
            await asked(screen, "/asks input", Dialog)
            send(screen, RARE.encode() + pasted + b".")
            line = screen.app.screen.query_one(Input)
            await screen.until(lambda: line.value == f"{RARE}red second third fourth .")
            await left(screen)
            await asked(screen, "/asks editor", EditorDialog)
            send(screen, RARE.encode() + pasted)
            box = screen.app.screen.query_one(TextArea)
            await screen.until(lambda: box.text == f"text{RARE}\x1b[31mred\x1b[0m\nsecond\nthird\nfourth\n")
            await left(screen)
            await asked(screen, "/asks select", Dialog)
            send(screen, RARE.encode() + pasted + b"\x1b[B\x1b[B\r")
            await screen.until(lambda: "'b'" in screen.line("#footer"))

    play(check())


SHORTCUTS: Final = """
def extension(pi):
    @pi.shortcut("f6", description="Ask at a key")
    async def ask(ctx):
        ctx.ui.set_status("answer", repr(await ctx.ui.input("A question?")))

    @pi.shortcut("f7")
    def read(ctx):
        ctx.ui.set_status("answer", repr(ctx.ui.get_editor_text()))
        ctx.ui.paste_to_editor(" and pasted")

    @pi.shortcut("f8")
    def change(ctx):
        ctx.ui.set_theme("light")
        ctx.ui.set_status("answer", f"{ctx.ui.get_all_themes()} {ctx.ui.set_theme('no such').error}")

    @pi.shortcut("ctrl+c")
    def never(ctx):
        ctx.ui.set_status("answer", "never")

    @pi.shortcut("f3")
    def search(ctx):
        raise RuntimeError("a defect at a key")
"""


def test_keys_of_extensions_run_their_functions(tmp_path: Path) -> None:
    """R-UI-12, R-UI-21: what is written stays, and is read; reserved keys are the client's; conflicts are shown."""
    (tmp_path / "keys.py").write_text(SHORTCUTS)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "keys.py"), size=(120, 40)) as screen:
            shown = (
                "shortcutctrl+chasnoeffect",
                "shortcutf3takesthekeyoftui.altScreen.search",
            )  # wherever it is wrapped
            await screen.until(lambda: all(each in "".join(screen.text.split()) for each in shown))
            screen.editor.put("written")
            send(screen, b"\x1b[17~")
            await screen.until(lambda: isinstance(screen.app.screen, Dialog) and screen.app.focused is not None)
            await screen.takes_keys()
            send(screen, b"yes\r")
            await screen.until(lambda: "'yes'" in screen.line("#footer"))
            assert "written" == screen.editor.text
            send(screen, b", too\x1b[18~")
            await screen.until(lambda: screen.editor.text == "written, too and pasted")
            assert "'written, too'" in screen.line("#footer")
            send(screen, b"\x1b[18~")
            await screen.until(lambda: "'written, too and pasted'" in screen.line("#footer"))
            send(screen, b"\x1b[19~")
            await screen.until(lambda: "Theme not found: no such" in screen.line("#footer"))
            assert screen.app.looks.current.name == "light"
            send(screen, b"\x1bOR")
            await screen.shows("a defect at a key")
            send(screen, b"\x03")
            await screen.until(lambda: screen.editor.text == "")
            assert "never" not in screen.line("#footer")
            await screen.say("/hotkeys")
            await screen.until(lambda: isinstance(screen.app.screen, Picker))
            assert any("F6" in row and "Ask at a key" in row for row in screen.app.keys.table())
            await left(screen)

    play(check())


HEARING: Final = """
import trio

def extension(pi):
    async def hear(data):
        if data == "h":
            await trio.sleep_forever()
        return {"x": {"consume": True}, "y": {"data": "why\\x1b[D"}}.get(data)

    @pi.on("session_start")
    def begin(ctx, event):
        ctx.ui.on_terminal_input(hear)

    @pi.command("again")
    def listen(ctx, args):
        ctx.ui.on_terminal_input(hear)
"""


def test_extensions_see_the_keys_first(tmp_path: Path) -> None:
    """R-UI-42: keys are taken or changed; one that hangs loses none, in order; Ctrl+C twice ends it at once."""
    (tmp_path / "hears.py").write_text(HEARING)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "hears.py")) as screen:
            await screen.until(lambda: screen.app._filtered_keys.are_seen)
            send(screen, b"axby")
            await screen.until(lambda: screen.editor.text == "abwhy")
            send(screen, b"\x1b[200~x y\x1b[201~")
            await screen.until(lambda: screen.editor.text == "abwhx yy")
            send(screen, b"hello")
            await screen.shows("did not answer within two seconds")
            await screen.until(lambda: screen.editor.text == "abwhx yhelloy")
            send(screen, b"\x03")
            await screen.until(lambda: screen.editor.text == "")
            send(screen, b"/again\r")
            await screen.until(lambda: screen.app._filtered_keys.are_seen)
            send(screen, b"hx")
            send(screen, b"\x03\x03")
            await screen.until(lambda: not screen.app._filtered_keys.are_seen)

    play(check())


PROVIDING: Final = """
import trio
from pinnace.extensions import Completion

def extension(pi):
    async def issues(before, after):
        word = before.split()[-1]
        if word.startswith("@"):
            await trio.sleep_forever()
        found = [Completion(f"#{each}", f"#{each}", f"Issue {each}") for each in (12, 13)]
        return word, [each for each in found if word in each.value and word.startswith("#")]

    @pi.on("session_start")
    def begin(ctx, event):
        ctx.ui.add_autocomplete_provider(issues, triggers="#@/")
"""


def test_extensions_complete_the_text(tmp_path: Path) -> None:
    """R-UI-41: beside the client's own completions, which do not wait for them; what stands behind the cursor stays."""
    (tmp_path / "issues.py").write_text(PROVIDING)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "plan.md").touch()

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "issues.py")) as screen:
            await screen.until(lambda: screen.editor.ask_text is not None)
            send(screen, b"see below")
            await screen.until(lambda: screen.editor.text == "see below")
            send(screen, b"\x1b[D" * 5)
            await screen.until(lambda: screen.editor.cursor_location == (0, 4))
            send(screen, b"#1")
            await screen.shows("→ #12  Issue 12", "  #13  Issue 13")
            send(screen, b"\x1b[B\r")
            await screen.until(lambda: screen.editor.text == "see #13below")
            send(screen, b" @pl")
            await screen.shows("→ @plan.md")
            send(screen, b"\t")
            await screen.until(lambda: screen.editor.text == "see #13 @plan.md below")

    play(check())


COMPLETING: Final = """
from pinnace.extensions import Completion

def extension(pi):
    def offers(prefix):
        known = [Completion("staging", "Staging", "For tests"), Completion("stable line", description="For users")]
        return [each for each in known if each.value.startswith(prefix)]

    @pi.command("deploy", description="Deploy", complete=offers)
    def deploy(ctx, args):
        ctx.ui.set_status("answer", repr(args))
"""


def test_arguments_of_commands_are_completed(tmp_path: Path) -> None:
    """R-UI-20: like commands: shown with their descriptions, chosen by Tab and Enter, sent by the next Enter."""
    (tmp_path / "deploy.py").write_text(COMPLETING)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "deploy.py")) as screen:
            await screen.until(lambda: "deploy" in dict(screen.editor.agent_commands))
            send(screen, b"/deploy st")
            await screen.shows("→ Staging  For tests", "  stable line  For users")
            send(screen, b"\x1b[B\t")
            await screen.until(lambda: screen.editor.text == "/deploy stable line")
            send(screen, b"\x7f")  # another text is completed anew
            await screen.shows("→ stable line  For users")
            send(screen, b"\r")
            await screen.until(lambda: screen.editor.text == "/deploy stable line")
            send(screen, b"\r")
            await screen.until(lambda: "'stable line'" in screen.line("#footer"))
            send(screen, b"/deploy no\r")
            await screen.until(lambda: "'no'" in screen.line("#footer"))

    play(check())


def test_a_narrow_terminal_ends_nothing(tmp_path: Path) -> None:
    """Questions of each kind, lists, a search, completions and typing, at six columns and fewer."""
    (tmp_path / "asks.py").write_text(ASKING)

    async def check() -> None:
        async with terminal(tmp_path, "-e", str(tmp_path / "asks.py")) as screen:
            screen.app.transcript.notice("text before")
            for width, height in ((6, 10), (2, 3), (1, 1)):
                await screen.pilot.resize_terminal(width, height)
                for command in ("/asks select", "/asks confirm", "/asks input", "/asks editor", "/model", "/hotkeys"):
                    await asked(screen, command, Dialog, Picker)
                    send(screen, b"\x1b[6~\x1b[Ba\x7f")
                    await screen.pilot.pause()
                    await left(screen)
                for typed in ("/a日", "@a🫨"):
                    screen.editor.put("")
                    send(screen, typed.encode())
                    await screen.until(lambda typed=typed: screen.editor.text == typed)  # type: ignore[misc]
                screen.app.query_one(SearchLine).open("text")
                await screen.until(lambda: screen.app.focused is not screen.editor)
                await left(screen)

    play(check())


def test_a_defect_in_a_handler_costs_its_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this client or of Textual, in the editor, a question or the app: it is reported, logged, and keys work."""
    drafts = Drafts(tmp_path / "drafts", "/project")

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("defect")

    async def check() -> None:
        async with terminal(tmp_path, drafts=drafts) as screen:
            app, log = screen.app, tmp_path / "drafts" / "errors.log"
            for owner, name, keys in (
                (Editor, "_submit", b"\r"),
                (Editor, "action_delete_left", b"\x7f"),
                (TextBox, "replace", b"y"),
                (Actions, "act", b"\x0f"),
                (SearchLine, "open", b"/find x\r"),
            ):
                screen.editor.put("")
                with monkeypatch.context() as broken:
                    broken.setattr(owner, name, fail)
                    send(screen, keys)
                    await screen.until(lambda: "ZeroDivisionError: defect" in app.reports.last_failure)
                app.reports.last_failure = ""
                screen.editor.put("")
                send(screen, b"works")
                await screen.until(lambda: screen.editor.text == "works")
            await asked(screen, "/model", Picker)
            for field, name, keys in (
                (OptionList, "action_cursor_down", b"\x1b[B"),
                (LineInput, "replace", "🫨".encode()),
            ):
                with monkeypatch.context() as broken:
                    broken.setattr(field, name, fail)
                    send(screen, keys)
                    await screen.until(lambda: "ZeroDivisionError: defect" in app.reports.last_failure)
                app.reports.last_failure = ""
            await left(screen)
            with monkeypatch.context() as broken:
                broken.setattr(type(app), "_take", fail)
                await screen.say("hello")
                await screen.until(lambda: "ZeroDivisionError" in app.reports.last_failure)
            await screen.shows("✗ The terminal client has a defect (ZeroDivisionError: defect); it continues.")
            app.reports.last_failure = ""
            content = log.read_text()
            assert "in fail" in content
            assert stat.S_IMODE(log.stat().st_mode) == 0o600

    play(check())


def test_what_was_not_sent_is_offered_by_the_next_client_of_the_folder(tmp_path: Path) -> None:
    """Whatever ended the client: the text in the editor, and messages that no agent has accepted."""
    folder = tmp_path / "drafts"

    async def check() -> None:
        drafts = Drafts(folder, "/project")
        async with terminal(tmp_path, drafts=drafts) as screen:
            screen.editor.put("written\nfor long")
            screen.app.sending.keep_draft()
            (path,) = folder.iterdir()
            assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)
            assert Drafts(folder, "/project").take_others() == []  # its client lives
        # As if it were killed here: what it holds is closed with it.
        drafts.close()
        assert Drafts(folder, "/elsewhere").take_others() == []
        async with terminal(tmp_path, drafts=Drafts(folder, "/project")) as screen:
            await screen.shows("what an earlier terminal had not sent is in the editor")
            assert screen.editor.text == "written\nfor long"
            await screen.say("sent")
            await screen.until(lambda: "sent" in screen.app.transcript.prompts())
            screen.app.sending.keep_draft()
            assert list(folder.iterdir()) == []

    play(check())


def test_drafts_keep_the_newest_text_and_take_each_once(tmp_path: Path) -> None:
    first, second = Drafts(tmp_path, "a"), Drafts(tmp_path, "a")
    for text in ("long " * 50, "short", "\ud800 and \0"):
        first.keep(text)
    second.keep("of the second")
    first.close()
    second.close()
    (tmp_path / "torn.draft").write_text('{"folder": "a", "te')
    (tmp_path / "other.draft").write_text("[]")
    next_one = Drafts(tmp_path, "a")
    assert next_one.take_others() == ["\ud800 and \0", "of the second"]
    assert Drafts(tmp_path, "a").take_others() == []
    next_one.close()
    last = Drafts(tmp_path, "a")
    assert last.take_others() == ["\ud800 and \0\n\nof the second"]
    last.keep(" \n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.draft", "torn.draft"]


def test_a_draft_that_cannot_be_kept_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def check() -> None:
        async with terminal(tmp_path, drafts=Drafts(tmp_path / "file" / "drafts", "/project")) as screen:
            screen.editor.put("text")
            for _ in range(2):
                screen.app.sending.keep_draft()
            await screen.shows("! what is not sent is not kept in case of a crash")
            assert screen.text.count("is not kept") == 1
            screen.editor.put("")

    play(check())
