"""Reads the short form in which tests and files write the fake LLM's answers.

Pure. A response in short form is a JSON-able object:

    text, reasoning   one delta or a list of them; a list may also hold the pieces below
    tool_calls        [{name, args, id?, pieces?}]: `args` an object or text, sent in `pieces` parts (2)
    gen               {n, size, kind?}: that many equal deltas of so many characters at full speed, at the end
    chunks            pieces in explicit order, instead of the four above
    finish, usage     the finish reason (by content) and {input, output, cacheRead, cacheWrite, reasoning}
                      (10 and 5); null leaves them out. `done: false` leaves out the end marker of the format
    error             {status, headers?, body?}: an HTTP error instead of a stream; with {message?, code?} in the
                      place of a body it has the one that the vendor's servers make for this status
    refuse            "rst" or "fin": the connection ends before any byte of an answer
    hold, delay_ms    a gate, a time, before the head of the answer
    chunk_delay_ms    a time before each chunk;  gate_each: "g" puts the gates g.0, g.1 … before the chunks
    gzip, cut_bytes   compress the body; cut it into network chunks of at most so many bytes
    headers           more headers of a stream
    match             a regular expression over the request's text; other requests do not take this response
    repeat            how many requests may take it; -1: any number

A piece: {text} {reasoning} {tool: {index, id, name}} {args, index?} {finish} {usage}
{event: any JSON, as one SSE event} {raw: bytes of the body} {socket: bytes past HTTP's framing}
{gate: name} {sleep_ms} {disconnect: "rst" | "fin"} {hang: true} {gen: {n, size, kind?}}.

A typo must not become a default, so an unknown key is an error.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from pinnace_fuzz.script import (
    Disconnect,
    Farewell,
    Finish,
    Gate,
    Generated,
    Hang,
    HttpError,
    Piece,
    Raw,
    Reasoning,
    Refusal,
    Response,
    Scripted,
    ScriptError,
    Sleep,
    SocketBytes,
    SseEvent,
    Text,
    TokenUsage,
    ToolArguments,
    ToolStart,
)

_KEYS = frozenset(
    {"text", "reasoning", "tool_calls", "gen", "chunks", "finish", "usage", "done", "error", "refuse", "hold"}
    | {"delay_ms", "chunk_delay_ms", "gate_each", "gzip", "cut_bytes", "headers", "match", "repeat"}
)
_DEFAULT_ERROR = "scripted error"


def read_response(source: Scripted, number: int) -> Response:
    """Spell out a scripted response; `number` makes the ids of its tool calls unique in the script.

    Raises:
        ScriptError: An unknown key, or a value of the wrong kind.
    """
    if isinstance(source, Response):
        return source
    if unknown := source.keys() - _KEYS:
        raise ScriptError(f"unknown keys {sorted(unknown)} in a response")
    if "chunks" in source and source.keys() & {"text", "reasoning", "tool_calls", "gen"}:
        raise ScriptError("chunks excludes text, reasoning, tool_calls and gen")
    try:
        return Response(
            pieces=tuple(_gated(_ended(_body(source, number), source), source.get("gate_each"))),
            done=bool(source.get("done", True)),
            error=_http_error(source["error"]) if "error" in source else None,
            refuse=_farewell(source["refuse"]) if "refuse" in source else None,
            hold=cast("str | None", source.get("hold")),
            delay_ms=_number(source.get("delay_ms", 0)),
            chunk_delay_ms=_number(source.get("chunk_delay_ms", 0)),
            gzip=bool(source.get("gzip", False)),
            cut_bytes=_positive(source["cut_bytes"]) if "cut_bytes" in source else None,
            headers=cast("Mapping[str, str] | None", source.get("headers")),
            match=re.compile(cast("str", source["match"])) if "match" in source else None,
            repeat=_repeat(source.get("repeat", 1)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ScriptError(f"{type(error).__name__}: {error} in a response") from error


def _items(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScriptError(f"{value!r} is not a number")
    return value


def _positive(value: object) -> int:
    if (number := int(_number(value))) < 1:
        raise ScriptError(f"{value!r} is not positive")
    return number


def _repeat(value: object) -> int:
    return -1 if value == -1 else _positive(value)


def _farewell(value: object) -> Farewell:
    if value not in ("rst", "fin"):
        raise ScriptError(f"{value!r} is not rst or fin")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ScriptError(f"{value!r} is not text")
    return value


def _octets(value: object) -> bytes:
    return value if isinstance(value, bytes) else _text(value).encode()


def _deltas(value: object, kind: type[Text] | type[Reasoning]) -> list[Piece]:
    return [
        kind(each) if isinstance(each, str) else read_piece(cast("Mapping[str, object]", each))
        for each in _items(value)
    ]


def _body(source: Mapping[str, object], number: int) -> list[Piece]:
    if "chunks" in source:
        return [read_piece(cast("Mapping[str, object]", each)) for each in _items(source["chunks"])]
    pieces: list[Piece] = []
    if "reasoning" in source:
        pieces += _deltas(source["reasoning"], Reasoning)
    if "text" in source:
        pieces += _deltas(source["text"], Text)
    for index, call in enumerate(_items(source.get("tool_calls", ()))):
        pieces += _tool_call(cast("Mapping[str, object]", call), index, f"call_{number}_{index}")
    if "gen" in source:
        pieces.append(_generated(source["gen"]))
    return pieces


def _tool_call(call: Mapping[str, object], index: int, default_id: str) -> list[Piece]:
    if unknown := call.keys() - {"name", "args", "id", "pieces"}:
        raise ScriptError(f"unknown keys {sorted(unknown)} in a tool call")
    arguments = call.get("args", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    size = -(-len(text) // _positive(call.get("pieces", 2))) or 1
    start = ToolStart(index, _text(call.get("id", default_id)), _text(call["name"]))
    return [start, *(ToolArguments(index, text[at : at + size]) for at in range(0, len(text), size))]


def _ended(pieces: list[Piece], source: Mapping[str, object]) -> list[Piece]:
    if any(isinstance(piece, Disconnect | Hang) for piece in pieces):
        return pieces
    has_tools = any(isinstance(piece, ToolStart) for piece in pieces)
    finish = source.get("finish", "tool_calls" if has_tools else "stop")
    if finish is not None and not any(isinstance(piece, Finish) for piece in pieces):
        pieces.append(Finish(_text(finish)))
    usage = source.get("usage", {})
    if usage is not None and not any(isinstance(piece, TokenUsage) for piece in pieces):
        pieces.append(_usage(usage))
    return pieces


def _gated(pieces: list[Piece], name: object) -> list[Piece]:
    if name is None:
        return pieces
    gates = (Gate(f"{_text(name)}.{index}") for index in range(len(pieces)))
    return [each for pair in zip(gates, pieces, strict=True) for each in pair]


def _usage(value: object) -> TokenUsage:
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "cacheRead": "cache_read_tokens",
        "cacheWrite": "cache_write_tokens",
        "reasoning": "reasoning_tokens",
    }
    counts = {names[key]: int(_number(count)) for key, count in cast("Mapping[str, object]", value).items()}
    return TokenUsage(**counts)


def _http_error(value: object) -> HttpError:
    error = cast("Mapping[str, object]", value)
    if unknown := error.keys() - {"status", "headers", "body", "message", "code"}:
        raise ScriptError(f"unknown keys {sorted(unknown)} in an error")
    if "body" in error and len(error.keys() & {"body", "message", "code"}) > 1:
        raise ScriptError("body excludes message and code in an error")
    headers = cast("Mapping[str, str]", error.get("headers", {}))
    code = error.get("code")
    refusal = Refusal(_text(error.get("message", _DEFAULT_ERROR)), None if code is None else _text(code))
    return HttpError(int(_number(error.get("status", 500))), headers, error.get("body", refusal))


def _tool_start(value: object) -> ToolStart:
    tool = cast("Mapping[str, object]", value)
    return ToolStart(int(_number(tool.get("index", 0))), _text(tool["id"]), _text(tool["name"]))


def _generated(value: object) -> Generated:
    gen = cast("Mapping[str, object]", value)
    kind = gen.get("kind", "text")
    if kind not in ("text", "reasoning"):
        raise ScriptError(f"{kind!r} is not a kind of delta")
    return Generated(
        _positive(gen["n"]),
        _positive(gen["size"]),
        kind,
    )


def _args(value: object) -> ToolArguments:
    return ToolArguments(0, _text(value))


_PIECES: Mapping[str, Callable[[object], Piece]] = {
    "text": lambda value: Text(_text(value)),
    "reasoning": lambda value: Reasoning(_text(value)),
    "tool": _tool_start,
    "args": _args,
    "finish": lambda value: Finish(_text(value)),
    "usage": _usage,
    "event": SseEvent,
    "raw": lambda value: Raw(_octets(value)),
    "socket": lambda value: SocketBytes(_octets(value)),
    "gen": _generated,
    "gate": lambda value: Gate(_text(value)),
    "sleep_ms": lambda value: Sleep(_number(value)),
    "disconnect": lambda value: Disconnect(_farewell(value)),
    "hang": lambda _: Hang(),
}


def read_piece(source: Mapping[str, object]) -> Piece:
    """Spell out one piece.

    Raises:
        ScriptError: Not exactly one known key (`index` goes with `args`).
    """
    keys = source.keys() - {"index"} if "args" in source else source.keys()
    if len(keys) != 1 or (key := next(iter(keys))) not in _PIECES:
        raise ScriptError(f"{dict(source)!r} is not a piece")
    piece = _PIECES[key](source[key])
    if isinstance(piece, ToolArguments):
        return piece._replace(position=int(_number(source.get("index", 0))))
    return piece
