"""Opens the terminal client: an agent of its own, or one of the host.

Called by the command line, which knows this module by its name alone. The agent of a terminal without a name is a child
in mode rpc, with the flags of the command line; it ends with the terminal, its session stays.
"""

import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pinnace
from pinnace_tui import PROGRAM
from pinnace_tui.content.look import Look
from pinnace_tui.content.themes import named_look, read_looks
from pinnace_tui.drafts import Drafts
from pinnace_tui.input.keys import FILE_NAME, read_keys

if TYPE_CHECKING:
    from pinnace import AsyncioClient, Dialogs
    from pinnace_tui.app import Connect

ThemeFiles = Callable[[str | None], tuple[Sequence[str], Sequence[str]]]
"""Returns the user's files of themes, or with them those of a trusted project, by its folder; and what is wrong."""
# Updates that hold the delta alone: a long answer costs its length.
_PROFILE: Final = ("--protocol", "1.5")


def open_own(
    flags: Sequence[str], messages: Sequence[str], *, opens_sessions: bool, look: str | None, themes: ThemeFiles
) -> int:
    """Open a terminal with an agent of its own.

    Args:
        flags: The agent's.
        messages: Sent at the beginning.
        opens_sessions: Whether to begin with the list of sessions.
        look: The name of the theme.
        themes: Returns files of themes.
    """
    profile = () if _names_profile(flags) else _PROFILE
    command = [*PROGRAM, "--mode", "rpc", "--surfaces", *profile, *flags]

    def connect(dialogs: "Dialogs") -> "AsyncioClient":
        return pinnace.AsyncioClient(command, dialogs=dialogs, on_stderr=_leave_out)

    return _run(connect, look=look, messages=messages, opens_sessions=opens_sessions, themes=themes)


def open_attached(name: str | None, flags: Sequence[str], themes: ThemeFiles) -> int:
    """Open a terminal on an agent of the host: one of this name or session, or a new one.

    Args:
        name: The agent's; None: a new one.
        flags: The agent's, and the theme.
        themes: As of `open_own`.
    """
    look, flags = theme_and_flags(flags)

    def connect(dialogs: "Dialogs") -> "AsyncioClient":
        return pinnace.AsyncioClient.attach(name, dialogs=dialogs, on_stderr=_leave_out, flags=flags)

    return _run(connect, look=look, agent=name or "", themes=themes)


def _names_profile(flags: Sequence[str]) -> bool:
    return any(flag.partition("=")[0] == "--protocol" for flag in flags)


def theme_and_flags(flags: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the theme that flags name, and the others."""
    look: str | None = None
    rest: list[str] = []
    left = iter(flags)
    for flag in left:
        name, has_value, value = flag.partition("=")
        if name == "--use-theme":
            look = value if has_value else next(left, None)
        else:
            rest.append(flag)
    return look, rest


def _run(
    connect: "Connect",
    *,
    look: str | None = None,
    agent: str = "",
    messages: Sequence[str] = (),
    opens_sessions: bool = False,
    themes: ThemeFiles,
) -> int:
    if _is_xterm(os.environ):
        os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", "256")  # read once, by the import
    from pinnace_tui.app import TerminalClient

    folder = Path(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent").expanduser()
    keys, problems = read_keys(folder / FILE_NAME)
    looks, notices = _looks(themes, None)

    def looks_of(project: str) -> tuple[list[Look], list[str]]:
        found, problems = _looks(themes, project)
        return found, [each for each in problems if each not in notices]

    look = look or named_look(folder / "settings.json", os.environ)
    make = partial(TerminalClient, connect, keys=keys, looks=looks, look=look, agent=agent, messages=messages)
    make = partial(make, looks_of=looks_of)
    drafts = Drafts(folder / "terminal", _working_folder())
    client = make(opens_sessions=opens_sessions, notices=[*notices, *problems], drafts=drafts)
    signal.signal(signal.SIGINT, _ignore)
    try:
        with _screen():
            failure = client.run()
    finally:
        client.sending.keep_draft()
    with suppress(OSError):  # the terminal may be gone
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        words = "".join(f"{line}\n" for line in client.session.last_words())
        sys.stdout.write(words.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    if failure:
        sys.stderr.write(f"pinnace: {failure.removeprefix('pinnace: ')}\n")
        return 1
    return client.return_code or 0


def _looks(themes: ThemeFiles, project: str | None) -> tuple[list[Look], list[str]]:
    files, problems = themes(project)
    looks, wrong = read_looks(files)
    return looks, [*problems, *wrong]


def _is_xterm(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal has 256 colours without saying so: Textual takes it for one with 8."""
    return environment.get("TERM") == "xterm" and not environment.get("COLORTERM")


def _leave_out(_line: str) -> None:
    """Keep a line of the agent's stderr off the screen: what it warns of are records, and its end is in the error."""


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _ignore(_: int, __: object) -> None:
    """Do nothing: Ctrl+C is a key here; as a signal it is for an editor that has the terminal."""


@contextmanager
def _screen() -> Generator[None]:
    """Let Textual, which draws on stderr, draw in UTF-8 on the terminal of stdout, wherever stderr goes."""
    error = sys.__stderr__
    if isinstance(error, TextIOWrapper):
        error.reconfigure(encoding="utf-8", errors="replace")
    if os.isatty(2):
        yield
        return
    kept = os.dup(2)
    os.dup2(1, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
