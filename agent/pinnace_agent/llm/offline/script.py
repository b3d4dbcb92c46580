"""Scripts of the offline model: its answers, turn by turn. The format is described in docs/offline.md.

Validates scripts: an error names the file, the place and the problem. Independent of how a turn is
played. YAML is imported only when a script is YAML.
"""

import re
import stat
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.core.json_access import kind_of as json_kind
from pinnace_agent.llm.cost import RequestTokens
from pinnace_spec.records.messages import StopReason
from pinnace_spec.wire.json_text import WireError, decode_line

T = TypeVar("T")

FOR_EVER: Final = -1
# Far more than a script needs; a device or a log file named by mistake is refused before it is read.
MAX_SCRIPT_BYTES: Final = 16 * 1024 * 1024
# Far more than any tool takes; an alias of YAML that refers to itself has no end.
MAX_ARGUMENT_LEVELS: Final = 64
# Pieces of a text that the script does not cut itself: a word or two, as models send them.
_PIECE: Final = re.compile(r"\s*\S{1,24}(?:[ \t]+(?=\S))?|\s+\Z")

_WHOLE: Final = "the file"
_POSITION: Final = re.compile(r"line \d+, column \d+")

_STOPS: Final[Mapping[str, StopReason]] = {"stop": "stop", "length": "length", "toolUse": "toolUse"}
TURN_KEYS: Final = (
    *("match", "thinking", "text", "tools", "delay_ms", "start_delay_ms"),
    *("error", "stop", "usage", "hang", "repeat"),
)


class ScriptError(Exception):
    """A script can't be played. The text says which file, where in it, and what was expected."""


class ScriptedCall(NamedTuple):
    """A tool call. Without an id it gets one that is new in the conversation."""

    name: str
    arguments: dict[str, object]
    call_id: str | None = None


class ScriptedError(NamedTuple):
    """The failure of a turn: with a status before its first delta, without one after its last."""

    message: str
    status: int | None = None


class ScriptedAnswer(NamedTuple):
    """What the offline model streams for one request, and how fast."""

    match: re.Pattern[str] | None = None
    thinking: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    tools: tuple[ScriptedCall, ...] = ()
    delay_ms: float | None = None
    """Before each delta; None: as everywhere."""
    start_delay_ms: float = 0
    error: ScriptedError | None = None
    stop: StopReason | None = None
    """None: `toolUse` with tool calls, else `stop`."""
    usage: RequestTokens | None = None
    """None: estimated."""
    is_hanging: bool = False
    """Streams everything and then waits to be cancelled."""
    repeat: int = 1


class Script(NamedTuple):
    """A whole script."""

    turns: tuple[ScriptedAnswer, ...]
    delay_ms: float | None = None


def load_script(path: Path) -> Script:
    """Read a script. Blocking.

    Raises:
        ScriptError: With a text for the author of the script.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ScriptError(f"Offline script {path}: not a file")
        if status.st_size > MAX_SCRIPT_BYTES:
            raise ScriptError(f"Offline script {path}: larger than {MAX_SCRIPT_BYTES} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise ScriptError(f"Offline script {path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a name with a null character
        raise ScriptError(f"Offline script {path}: cannot be read: {error}") from None
    value = _parse_json(data, path) if path.suffix.lower() == ".json" else _parse_yaml(data, path)
    try:
        return _script(value)
    except _Misfit as misfit:
        raise ScriptError(f"Offline script {path}: {misfit}") from None


def pieces(text: str) -> tuple[str, ...]:
    """Cut a text into deltas."""
    return tuple(_PIECE.findall(text))


def _parse_json(data: bytes, path: Path) -> object:
    try:
        return decode_line(data)
    except WireError as error:
        raise ScriptError(f"Offline script {path}: not JSON: {error.text}") from None


def _parse_yaml(data: bytes, path: Path) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        # pure: YAML 1.2, so that `on` and `no` stay text.
        value: object = YAML(typ="safe", pure=True).load(data)  # pyright: ignore[reportUnknownMemberType]
    except MarkedYAMLError as error:
        # Its whole text is several lines that repeat the file.
        problem = str(error.problem)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        mark = str(error.problem_mark)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        position = _POSITION.search(mark)
        where = f"{position.group()}: " if position else ""
        raise ScriptError(f"Offline script {path}: not YAML: {where}{problem}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ScriptError(f"Offline script {path}: not YAML: {error}") from None
    except RecursionError:
        raise ScriptError(f"Offline script {path}: nested too deeply") from None
    return value


class _Misfit(Exception):
    """A value does not match the format."""

    def __init__(self, where: str, expected: str, value: object) -> None:
        super().__init__(f"{where or _WHOLE}: expected {expected}, got {_kind(value)}")


class _UnknownKey(_Misfit):
    """An unknown key: a misspelt one must not become a default."""

    def __init__(self, where: str, name: object, known: tuple[str, ...]) -> None:
        Exception.__init__(self, f"{where or _WHOLE}: unknown key {name}; known are {', '.join(known)}")


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool | str | int | float | list | dict):
        return json_kind(value)  # pyright: ignore[reportUnknownArgumentType]
    return f"a {type(value).__name__}"


def _script(value: object) -> Script:
    if as_list(value) is not None:
        return Script(_items(value, "turns", _turn))
    members = _members(value, "", ("turns", "delay_ms"), "a list of turns, or an object with `turns`")
    return Script(_items(members.get("turns", []), "turns", _turn), _optional(members, "", "delay_ms", _delay))


def _turn(value: object, where: str) -> ScriptedAnswer:
    members = _members(value, where, TURN_KEYS, "an object")
    turn = ScriptedAnswer(
        match=_optional(members, where, "match", _pattern),
        thinking=_optional(members, where, "thinking", _deltas) or (),
        text=_optional(members, where, "text", _deltas) or (),
        tools=_optional(members, where, "tools", lambda value, at: _items(value, at, _call)) or (),
        delay_ms=_optional(members, where, "delay_ms", _delay),
        start_delay_ms=_optional(members, where, "start_delay_ms", _delay) or 0,
        error=_optional(members, where, "error", _error),
        stop=_optional(members, where, "stop", _stop),
        usage=_optional(members, where, "usage", _usage),
        is_hanging=_optional(members, where, "hang", _flag) or False,
        repeat=_optional(members, where, "repeat", _repeat) or 1,
    )
    if turn.stop == "toolUse" and not turn.tools:
        raise _Misfit(f"{where}.tools", "calls, since `stop` is toolUse", None)
    return turn


def _call(value: object, where: str) -> ScriptedCall:
    members = _members(value, where, ("name", "arguments", "id"), "an object")
    arguments = as_object(members.get("arguments", {}))
    if arguments is None:
        raise _Misfit(f"{where}.arguments", "an object", members["arguments"])
    _check_json(arguments, f"{where}.arguments")
    return ScriptedCall(
        name=_text(members.get("name"), f"{where}.name"),
        arguments=arguments,
        call_id=_optional(members, where, "id", _text),
    )


def _error(value: object, where: str) -> ScriptedError:
    if isinstance(value, str):
        return ScriptedError(value)
    members = _members(value, where, ("status", "message"), "a text, or an object with `message`")
    status = _optional(members, where, "status", _status)
    return ScriptedError(_text(members.get("message", "Scripted error"), f"{where}.message"), status)


def _usage(value: object, where: str) -> RequestTokens:
    members = _members(value, where, ("input", "output", "cache_read", "cache_write"), "an object")
    counts = {name: _count(count, f"{where}.{name}") for name, count in members.items()}
    return RequestTokens(**counts)


def _members(value: object, where: str, known: tuple[str, ...], expected: str) -> dict[str, object]:
    members = as_object(value)
    if members is None:
        raise _Misfit(where, expected, value)
    for name in members:
        if name not in known:
            raise _UnknownKey(where, name, known)
    return members


def _items(value: object, where: str, read: Callable[[object, str], T]) -> tuple[T, ...]:
    items = as_list(value)
    if items is None:
        raise _Misfit(where, "a list", value)
    return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(items))


def _optional(members: Mapping[str, object], where: str, name: str, read: Callable[[object, str], T]) -> T | None:
    value = members.get(name)
    return None if value is None else read(value, f"{where}.{name}" if where else name)


def _deltas(value: object, where: str) -> tuple[str, ...]:
    """Take a text, which is cut into words, or a list of deltas, which are sent as they are."""
    if isinstance(value, str):
        return pieces(value)
    if as_list(value) is None:
        raise _Misfit(where, "a text or a list of texts", value)
    return _items(value, where, _text)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _Misfit(where, "a text", value)
    return value


def _pattern(value: object, where: str) -> re.Pattern[str]:
    try:
        return re.compile(_text(value, where), re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise _Misfit(where, f"a regular expression ({error})", value) from None


def _delay(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise _Misfit(where, "milliseconds, 0 or more", value)
    return value


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _Misfit(where, "a whole number, 0 or more", value)
    return value


def _status(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 400 <= value <= 599:
        raise _Misfit(where, "an HTTP status from 400 to 599", value)
    return value


def _stop(value: object, where: str) -> StopReason:
    reason = _STOPS.get(value) if isinstance(value, str) else None
    if reason is None:
        raise _Misfit(where, f"one of {', '.join(_STOPS)} (failures are written as `error`)", value)
    return reason


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _Misfit(where, "true or false", value)
    return value


def _repeat(value: object, where: str) -> int:
    if value == "forever":
        return FOR_EVER
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _Misfit(where, "a whole number, 1 or more, or `forever`", value)
    return value


def _check_json(value: object, where: str, levels: int = MAX_ARGUMENT_LEVELS) -> None:
    """Refuse values of YAML that JSON does not have: dates, keys that are not strings, infinity, recursive values."""
    if levels == 0:
        raise _Misfit(where, f"at most {MAX_ARGUMENT_LEVELS} levels", value)
    if (members := as_object(value)) is not None:
        for name, item in members.items():
            _text(name, f"a key of {where}")
            _check_json(item, f"{where}.{name}", levels - 1)
    elif (items := as_list(value)) is not None:
        for index, item in enumerate(items):
            _check_json(item, f"{where}[{index}]", levels - 1)
    elif isinstance(value, float) and not isfinite(value):
        raise _Misfit(where, "a finite number", value)
    elif value is not None and not isinstance(value, bool | str | int | float):
        raise _Misfit(where, "what JSON has (write it in quotes)", value)
