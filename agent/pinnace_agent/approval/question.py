r"""The question of tool approval: shows a call completely, so that the user approves exactly what will run.

Every argument is shown in full; a call that is too long is denied. Each argument is one line, `name: text`; text of
several lines is `name (3 lines):` with `| ` before each; other values are `name = JSON`, with the parts of lists and
objects one by one, such as `edits[0].oldText`. Invisible characters are escaped (`visible_text`). Lines in parentheses
are notes of this program, which no argument can forge, so the question fits one call only. The path of a file is its
real path, because that file will be changed.

The command of `bash` comes first: nothing that a model or a project chose stands before it and moves it out of view.
What follows it, notes and other arguments, is bounded.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import trio

import pinnace_agent
from pinnace_agent.core.json_values import is_list, is_object
from pinnace_agent.core.visible_text import visible_line, visible_lines
from pinnace_agent.files.protected import ALWAYS_ASK, Places, is_inside, protection_of
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.change_queue import real_path
from pinnace_agent.tools.local.files import LOCAL_WRITE
from pinnace_agent.tools.paths import existing_path, resolve_path

MAX_COMMAND_CHARS: Final = 10_000
MAX_COMMAND_LINES: Final = 200
"""More than models write into one command, and still readable. A longer script can be written to a file, which is
shown, and run from there."""
MAX_SHOWN_CHARS: Final = 64_000
"""Of all arguments together: about 16,000 tokens, more than most models write in one answer."""

_TOO_LONG: Final = f"its arguments take more than {MAX_SHOWN_CHARS} characters to show. Make several calls of it"
MAX_BESIDE_COMMAND_CHARS: Final = 8_000
"""Of everything that is shown behind a command: its folder, its shell, what the settings put before it, a reason."""
_TOO_MUCH_BESIDE_COMMAND: Final = (
    f"what is shown beside its command takes more than {MAX_BESIDE_COMMAND_CHARS} characters: its other arguments, its "
    "folder, and the shellCommandPrefix of the settings. Give a shorter reason"
)
_MAX_PATHS: Final = 1000
_MAX_PATH_CHARS: Final = 4096
"""PATH_MAX of Linux; a longer string is not a path."""
_MAX_DEPTH: Final = 4
"""Levels of lists and objects that are shown with one value a line; deeper ones are shown as JSON."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class TooLongError(Exception):
    """A call can't be shown in full; the text says why and what to do."""


class ExaminedCall(NamedTuple):
    """A call as it would run now. Two are equal if both would do the same."""

    tool: str
    arguments: Mapping[str, object]
    written: str
    """The `repr` of the arguments, because arguments that are not JSON may change."""
    path: str | None
    """The real path of the changed file; None: the tool is not known to change a file of this machine."""
    reason: str | None
    """Why the user is asked in spite of earlier answers, such as `it is in the agent folder`."""
    notes: tuple[str, ...] = ()
    """Facts that the arguments do not show."""
    bound_path: str | None = None
    """The only file that the call may change, or the folder that it runs in; None: not restricted."""


async def examine(
    tool: str, arguments: Mapping[str, object], cwd: str, places: Callable[[], Places], *, is_builtin: bool
) -> ExaminedCall:
    """Resolve the paths of a call.

    Args:
        tool: The name of the tool.
        arguments: The arguments; kept.
        cwd: The working folder of the session.
        places: Returns the protected places.
        is_builtin: Whether the tool is the built-in one of its name.

    Raises:
        ToolError: The path is invalid, or a circle of links.
        OSError: The path can't be resolved.
    """
    written = repr(arguments)
    if is_builtin and tool == "bash":
        folder = await real_path(cwd)
        return ExaminedCall(tool, arguments, written, None, None, (f"in {visible_line(folder)}",), folder)
    known = places()
    if is_builtin and tool in ("write", "edit"):
        given = arguments.get("path")
        if not isinstance(given, str):
            raise ToolError(f"{tool}: the path must be a string")
        # As the tool finds it, also in a sandbox.
        path = await LOCAL_WRITE.real_path(await existing_path(given, cwd, LOCAL_WRITE.exists))
        notes = () if path in (os.path.join(cwd, given), given) else (f"named {visible_line(given)}",)
        reason = await trio.to_thread.run_sync(_reason, path, cwd, known)
        return ExaminedCall(tool, arguments, written, path, reason, notes, path)
    paths = await trio.to_thread.run_sync(_paths, arguments, cwd, known)
    return ExaminedCall(tool, arguments, written, None, paths.reason, paths.notes)


def question(call: ExaminedCall) -> str:
    """Return the question about a call.

    Raises:
        TooLongError: The call can't be shown in full.
    """
    return f"{_heading(call)}\n\n{_whole(call)}"


def outside_question(call: ExaminedCall) -> str:
    """Return the question whether a command runs outside the sandbox.

    Raises:
        TooLongError: The call can't be shown in full.
    """
    return f"{_heading(call)}\n(outside the sandbox)\n\n{_whole(call)}"


def _heading(call: ExaminedCall) -> str:
    """Return the first line, by which clients recognise a permission and its tool."""
    return f"Allow tool: {visible_line(call.tool)}"


def _whole(call: ExaminedCall) -> str:
    lines: list[str] = []
    arguments = dict(call.arguments)
    _check_size(arguments)
    left, too_long = MAX_SHOWN_CHARS, _TOO_LONG
    if call.path is not None:
        lines += _shown("path", call.path)
        del arguments["path"]
    if call.tool == "bash" and isinstance(command := arguments.get("command"), str):
        _check_command(command)
        lines += _shown("command", command)
        del arguments["command"]
        left, too_long = MAX_BESIDE_COMMAND_CHARS, _TOO_MUCH_BESIDE_COMMAND
    lines += (f"({note})" for note in call.notes)
    if call.reason is not None:
        lines.append(f"(always asked about: {call.reason})")
    if (left := left - sum(map(len, call.notes))) < 0:
        raise TooLongError(too_long)
    for name, value in arguments.items():
        for line in _shown(_label(name), value):
            lines.append(line)
            if (left := left - len(line)) < 0:
                raise TooLongError(too_long)
    return "\n".join(lines)


def _check_size(arguments: Mapping[str, object]) -> None:
    """Reject arguments that are too long even without escapes, before each character is examined."""
    if sum(map(len, _texts(arguments))) > MAX_SHOWN_CHARS:
        raise TooLongError(_TOO_LONG)


def _check_command(command: str) -> None:
    lines = visible_lines(command)
    size = max(len(command), sum(map(len, lines)))
    if size > MAX_COMMAND_CHARS or len(lines) > MAX_COMMAND_LINES:
        raise TooLongError(
            f"its command takes {size} characters and {len(lines)} lines to show, of at most {MAX_COMMAND_CHARS} and "
            f"{MAX_COMMAND_LINES}. Write a long script to a file, and run that"
        )


def _shown(label: str, value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        if "\n" not in value or label == "path":
            yield f"{label}: {visible_line(value)}"
            return
        lines = visible_lines(value)
        yield f"{label} ({len(lines)} lines):"
        for line in lines:
            yield f"| {line}" if line else "|"
    elif value and depth < _MAX_DEPTH and is_object(value):
        for name, each in value.items():
            yield from _shown(f"{label}.{_label(name)}", each, depth + 1)
    elif value and depth < _MAX_DEPTH and is_list(value):
        for index, each in enumerate(value):
            yield from _shown(f"{label}[{index}]", each, depth + 1)
    else:
        yield f"{label} = {visible_line(json.dumps(value, ensure_ascii=False, default=repr))}"


def _label(name: str) -> str:
    return name if _NAME.fullmatch(name) else visible_line(json.dumps(name, ensure_ascii=False))


def _reason(path: str, cwd: str, places: Places) -> str | None:
    """Return why a write to a real path always needs approval."""
    if (protection := protection_of(path, places)) is not None and protection in ALWAYS_ASK:
        return f"it {protection.value}"
    if _is_of_program(path):
        return "it is part of the program that runs this session"
    folder = os.path.realpath(cwd)
    if not is_inside(path, folder):
        return "it is outside of the folder of the session"
    if places.home and is_inside(places.home, folder) and path.startswith(f"{places.home.rstrip('/')}/."):
        return "it is a hidden file of the home folder"
    return _reason_of_links(path)


def _is_of_program(path: str) -> bool:
    """Return whether a file belongs to the interpreter, its installed packages, or an imported module."""
    if any(is_inside(path, os.path.realpath(each)) for each in (sys.prefix, *pinnace_agent.__path__)):
        return True
    name = os.path.basename(path)
    # Not the attribute itself: some modules import attributes on access, and some entries are not modules.
    files = (getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values()))
    return any(
        isinstance(file, str) and os.path.basename(file) == name and os.path.realpath(file) == path for file in files
    )


def _reason_of_links(path: str) -> str | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        return f"it is one file with {status.st_nlink - 1} other(s), which may be anywhere (hard links)"
    return None


class _Paths(NamedTuple):
    """The strings of a call, resolved as paths."""

    reason: str | None
    """Why the call always needs approval: a string leads to a protected place."""
    notes: tuple[str, ...] = ()
    """The strings that lead elsewhere through a link."""


def _paths(arguments: Mapping[str, object], cwd: str, places: Places) -> _Paths:
    notes: list[str] = []
    for count, text in enumerate(_texts(arguments)):
        if count == _MAX_PATHS:
            return _Paths(f"it has more than {_MAX_PATHS} arguments")
        if not text or len(text) > _MAX_PATH_CHARS:
            continue
        try:
            named = resolve_path(text, cwd)
            path = os.path.realpath(named)
        except (ToolError, OSError, ValueError):
            continue
        protection = protection_of(path, places)
        if protection is not None and protection in ALWAYS_ASK:
            return _Paths(f"{visible_line(path)} {protection.value}", tuple(notes))
        if path != os.path.join(os.path.realpath(cwd), os.path.relpath(named, cwd)) and path != named:
            notes.append(f"{visible_line(text)} leads to {visible_line(path)}")
    return _Paths(None, tuple(notes))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for each in value.values():
            yield from _texts(each)
    elif is_list(value):
        for each in value:
            yield from _texts(each)
