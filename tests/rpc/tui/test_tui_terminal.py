"""Whole conversations in a real terminal: keys in, screen out, by tmux."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.conftest import await_gone
from tests.rpc.tui.terminal import TIMEOUT_S, environment

from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_fuzz.process_tree import processes_with, state_of, words_of

TMUX: Final = shutil.which("tmux") or shutil.which("tmux", path=str(Path(__file__).parents[3] / ".tools" / "bin"))
NEEDS_TMUX: Final = pytest.mark.skipif(TMUX is None, reason="no tmux: scripts/peers installs it")


class RealTerminal:
    """A program in a terminal of tmux."""

    def __init__(self, folder: Path, words: list[str], env: dict[str, str], width: int, height: int) -> None:
        self._folder = folder
        self._command = [str(TMUX), "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._env = {**env, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
        script = folder / "run.sh"
        variables = "".join(f"export {name}='{value}'\n" for name, value in self._env.items())
        program = " ".join(word if word.startswith("2>") else f"'{word}'" for word in words)
        lines = f"trap : INT\ncd '{folder}/project'\n{program}\necho \"[left with $?]\"\nexec sleep 1000\n"
        script.write_text(variables + lines)
        self._tmux("new-session", "-d", "-x", str(width), "-y", str(height), f"sh '{script}'")

    def _tmux(self, *words: str, must_succeed: bool = True) -> str:
        command = [*self._command, *words]
        done = subprocess.run(command, env=self._env, check=must_succeed, capture_output=True, timeout=TIMEOUT_S)
        return done.stdout.decode()

    def screen(self, *options: str) -> str:
        """The rows of the screen."""
        return self._tmux("capture-pane", "-p", *options)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def write(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._folder.joinpath("bytes").write_bytes(data)
        self._tmux("load-buffer", str(self._folder / "bytes"))
        self._tmux("paste-buffer", "-r")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def shows(self, *texts: str) -> str:
        """Wait until all of these are on the screen; return it."""
        return self.until(lambda screen: all(each in screen for each in texts))

    def until(self, condition: Callable[[str], bool], *options: str) -> str:
        """Wait until a screen is so, since one alone may be half drawn; return it."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition(screen := self.screen(*options)):
            assert time.monotonic() < deadline, f"not so:\n{screen}"
            time.sleep(0.1)
        return screen

    def has_title(self, wanted: str) -> None:
        """Wait until the terminal has this title."""
        deadline = time.monotonic() + TIMEOUT_S
        while (title := self._tmux("display-message", "-p", "#{pane_title}").strip()) != wanted:
            assert time.monotonic() < deadline, f"the title is {title!r}"
            time.sleep(0.1)

    def is_on_another_screen(self) -> bool:
        """Return whether a program has the whole screen, which comes back when it ends."""
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def process(self) -> int:
        """The id of the program."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def end(self) -> None:
        """Close the terminal: with it ends the client, whatever it does, and its agent."""
        found = processes_with(os.fsencode(self._folder))
        begun = [pid for pid in found if any(b"pinnace_rpc" in word for word in words_of(pid))]
        self._tmux("kill-server", must_succeed=False)
        assert [] == await_gone(begun)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    folder = make_short_folder("pt-")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


TITLED: Final = """
def extension(pi):
    @pi.command("titled", description="titled")
    async def titled(ctx, args):
        ctx.ui.set_title("A\\n\\x07\\x1b[31mtitle")
"""
PINNACE: Final = [sys.executable, "-P", "-m", "pinnace_rpc"]


@NEEDS_TMUX
def test_a_whole_conversation(short: Path) -> None:
    """Wide characters, pasted lines, steering, a resize in mid-answer to 40 columns, an abort, and leaving."""
    env = environment(short, PINNACE_OFFLINE_DELAY_MS="40")
    terminal = RealTerminal(short, [*PINNACE, "--provider", "offline"], env, 90, 24)
    try:
        terminal.shows("rehearsal")
        terminal.paste("日本語の行\nsecond line")
        terminal.shows("│日本語の行", "│second line")
        terminal.press("Enter")
        terminal.shows("> 日本語の行", "no network")
        terminal.write("count to 4000")
        terminal.press("Enter")
        terminal.shows("Working", "1 2 3 4 5 6 7 8 9 10")
        terminal.write("and then?")
        terminal.press("Enter")
        terminal.shows("steering: and then?")
        terminal.write("at last")
        terminal.press("M-Enter")
        terminal.shows("follow-up: at last")
        terminal.resize(40, 20)
        terminal.shows("steering: and then?", "follow-up: at last", "Escape: abort")
        terminal.until(lambda screen: max(map(len, screen.splitlines())) <= 40)
        terminal.press("Escape")
        terminal.shows("Aborted.", "│and then?", "│at last")
        terminal.resize(90, 24)
        terminal.shows("│and then?", "│at last", "Aborted.", "╭" + "─" * 88 + "╮")
        terminal.press("C-c")
        terminal.until(lambda screen: "│at last" not in screen)
        terminal.send("\x1b[99999999u\x1b[57358u\x1b[97:65;5:3u\ue0a0\u3000日".encode() + b"\xff\xfe.")
        terminal.shows("\ue0a0\u3000日\ufffd\ufffd.")
        terminal.send(b" \x1b[200~\x1b[31mred\x1b[0m\rnext\r\x1b[201~")
        terminal.shows("\ufffd[31mred\ufffd[0m", "│next")
        terminal.resize(5, 12)
        terminal.write("/hotkeys")
        terminal.resize(90, 24)
        terminal.shows("│/hotkeys")
        terminal.press("C-c")
        terminal.press("C-d")
        terminal.shows("[left with 0]")
    finally:
        terminal.end()


@NEEDS_TMUX
def test_a_terminal_without_colours_and_an_editor_that_gets_the_keys_alone(short: Path) -> None:
    (short / "editor").write_text('#!/bin/sh\nprintf \'write: \'\nread line\necho "$line" > "$1"\n')
    (short / "wl-paste").write_text("#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n'\n")
    for program in ("editor", "wl-paste"):
        (short / program).chmod(0o700)
    (short / "titled.py").write_text(TITLED)
    path, temporary = f"{short}:{os.environ['PATH']}", str(short)
    env = {**environment(short, NO_COLOR="1", VISUAL=str(short / "editor")), "PATH": path, "TMPDIR": temporary}
    words = [*PINNACE, "--provider", "offline", "-e", str(short / "titled.py"), "run `echo hi`"]
    terminal = RealTerminal(short, words, env, 60, 20)
    try:
        terminal.shows("> run `echo hi`", "● bash  echo hi", "is done. It said")
        grays = {"16", "231", *map(str, range(232, 256))}
        terminal.until(lambda screen: {code.split("m")[0] for code in screen.split("8;5;")[1:]} <= grays, "-e")
        terminal.press("C-g")
        terminal.shows("write:")
        terminal.write("from outside")
        terminal.press("Enter")
        terminal.shows("│from outside")
        terminal.press("C-v")
        terminal.shows("pinnace-clipboard-")
        terminal.press("C-c")
        terminal.write("/titled")
        terminal.press("Enter")
        terminal.has_title("A title")
        terminal.press("C-d")
        terminal.shows("is done. It said", "To continue this session: pinnace --continue", "[left with 0]")
        terminal.until(lambda screen: "╭" not in screen)
    finally:
        terminal.end()


@NEEDS_TMUX
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_editor_that_fails_a_stop_and_a_signal_leave_a_terminal_that_works(short: Path) -> None:
    """Also where stderr is a file and the locale is not UTF-8."""
    (short / "editor").write_text(FAILING)
    (short / "editor").chmod(0o700)
    env = {**environment(short, VISUAL=str(short / "editor")), "TMPDIR": str(short), "PYTHONIOENCODING": "latin-1"}
    env |= {"TERM": "xterm", "COLORTERM": ""}  # which has 256 colours without saying so
    words = [*PINNACE, "--provider", "offline", "--use-theme", "nowhere", "日本 1"]
    terminal = RealTerminal(short, [*words, "2>errors"], env, 90, 24)
    try:
        terminal.shows("> 日本 1", "no network", "! no theme nowhere; there are dark, light, high-contrast")
        terminal.until(lambda screen: "8;5;" in screen, "-e")
        terminal.write("/resume")
        terminal.press("Enter")
        terminal.shows("Sessions", "日本 1")
        terminal.press("Escape")
        terminal.until(lambda screen: "Sessions" not in screen)
        terminal.write("/queue")
        terminal.press("Enter")
        terminal.until(lambda screen: "no message is queued" in "".join(screen.splitlines()[:5]))  # not over the editor
        terminal.write("text")
        for shown in ("it has ended with exit code 3", "'utf-8' codec can't decode", "[Errno 2] No such file"):
            terminal.press("C-g")
            terminal.shows(f"editor: {shown}", "│text ")
        terminal.press("C-g")
        terminal.shows("now:")
        terminal.press("C-c")
        terminal.shows("│from outside ")
        process = terminal.process()
        terminal.press("C-z")
        wait_for(lambda: state_of(process) == "T")
        os.kill(process, signal.SIGCONT)
        wait_for(terminal.is_on_another_screen)
        terminal.shows("> 日本 1", "no network", "│from outside ")
        os.kill(process, signal.SIGTERM)
        terminal.shows("[left with 143]")
        assert not terminal.is_on_another_screen()
        assert (short / "project" / "errors").read_text() == ""
        (draft,) = Path(env["PI_CODING_AGENT_DIR"], "terminal").glob("*.draft")
        assert json.loads(draft.read_text())["text"].startswith("from outside")
    finally:
        terminal.end()


FAILING: Final = """#!/bin/sh
echo >> "$TMPDIR/count"
case $(wc -l < "$TMPDIR/count") in
    *1) exit 3 ;;
    *2) printf '\\377' > "$1" ;;
    *3) rm "$1" ;;
    *4) trap 'echo from outside > "$1"; exit 0' INT; echo now:; while :; do sleep 0.1; done ;;
esac
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@NEEDS_TMUX
def test_a_terminal_that_cannot_show_it_is_refused(short: Path) -> None:
    words = [*PINNACE, "--provider", "offline"]
    terminal = RealTerminal(short, words, environment(short, TERM="dumb"), 140, 10)
    try:
        terminal.shows("TERM is dumb", "to ask once: pinnace -p", "[left with 2]")
    finally:
        terminal.end()


@NEEDS_TMUX
def test_without_the_extra_one_line_says_how_to_install_it_and_how_to_ask_once(short: Path) -> None:
    hiding = (
        "import importlib.util as u, runpy, sys; found = u.find_spec; "
        "u.find_spec = lambda name, *rest: None if name == 'textual' else found(name, *rest); "
        "sys.argv[1:] = []; sys.path[:0] = []; runpy.run_module('pinnace_rpc', run_name='__main__')"
    )
    (short / "hiding.py").write_text(hiding)
    terminal = RealTerminal(short, [sys.executable, "-P", str(short / "hiding.py")], environment(short), 140, 10)
    try:
        terminal.shows("needs the extra tui. Install it with: ", "To ask once: pinnace -p TEXT", "[left with 2]")
    finally:
        terminal.end()


def test_attach_needs_a_terminal_for_the_terminal_client(short: Path) -> None:
    env = {**os.environ, **environment(short)}
    done = subprocess.run([*PINNACE, "attach", "--tui", "a"], env=env, capture_output=True, cwd=short, check=False)
    assert (done.returncode, b"needs a terminal" in done.stderr) == (2, True)
