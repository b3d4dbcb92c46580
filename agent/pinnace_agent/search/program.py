"""The search program for systems without ripgrep and fd: accepts the options that the tools pass, with the same output.

A separate process, so that a search can be killed and shares no memory with the agent. A pattern that takes more than
`MATCH_S` of processor time on one line ends the search with an error; lines are read up to `MAX_LINE_BYTES`, and the
process is limited to `MAX_MEMORY_BYTES`.

`--files --null` lists files, `--entries --null` lists what fd would: folders with a trailing slash, and links.
Otherwise matches are written as ripgrep's JSON, with the beginning of long lines. Exit codes: 0 for a match, 1 for
none, 2 for an error.
"""

import base64
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

from pinnace_agent.search.glob_match import BadGlob
from pinnace_agent.search.ignore_files import IgnoreFiles, Overrides
from pinnace_agent.search.line_pattern import BadPattern, compiled
from pinnace_agent.search.walk import walk

MATCH_S: Final = 2
"""Processor time for one line; a simple pattern takes some milliseconds for the longest line."""
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
MAX_MEMORY_BYTES: Final = 2 * 1024**3
BLOCK_BYTES: Final = 64 * 1024
"""The size of a read. In a folder, a file is searched up to the block with the first NUL, as ripgrep does, whose
first read is three bytes."""
SHOWN_BYTES: Final = 8 * 1024
"""The length of a line that is written: more than the tools show."""
MAX_BEFORE_BYTES: Final = 4 * 1024 * 1024
"""The memory for the lines before a match."""

_IGNORED: Final = frozenset({"--no-config", "--json", "--line-number", "--color=never", "--hidden", "--null"})


class SearchOptions(NamedTuple):
    """The options of one run."""

    words: Sequence[str]
    """The pattern, unless files are listed, and the path."""
    globs: Sequence[str]
    context: int = 0
    ignores_case: bool = False
    is_literal: bool = False
    lists: str = ""
    """`files` or `entries`; empty: lines are searched."""
    needs_repository: bool = True
    takes_crlf: bool = False
    """Whether the end of a line may also be before a CR at its end."""
    searches_ignored: bool = False


class _Failed(Exception):
    """The search failed; the text is for stderr."""


class _Line(NamedTuple):
    number: int
    raw: bytes
    """Without its LF."""


def read_request(arguments: Sequence[str]) -> SearchOptions:
    """Read the options that the tools pass.

    Raises:
        ValueError: An option is unknown.
    """
    place = arguments.index("--")
    globs: list[str] = []
    options: dict[str, object] = {}
    for option in arguments[:place]:
        name, _, value = option.partition("=")
        match name:
            case "--glob":
                globs += [value] if value else []
            case "--context":
                options["context"] = int(value)
            case "--ignore-case":
                options["ignores_case"] = True
            case "--fixed-strings":
                options["is_literal"] = True
            case "--files" | "--entries":
                options["lists"] = name[2:]
            case "--crlf":
                options["takes_crlf"] = True
            case "--no-ignore":
                options["searches_ignored"] = True
            case "--no-require-git":
                options["needs_repository"] = False
            case _ if option not in _IGNORED:
                raise ValueError(f"unknown option {option}")
            case _:
                pass
    return SearchOptions(arguments[place + 1 :], globs, **options)  # type: ignore[arg-type]


class SearchRun:
    """One run of the program."""

    def __init__(self, request: SearchOptions) -> None:
        """Parse the globs.

        Raises:
            BadGlob: One is invalid.
        """
        self._request = request
        self._has_failed = False
        self._ignoring = IgnoreFiles(
            ".fdignore" if request.lists == "entries" else ".rgignore",
            os.environ,
            needs_repository=request.needs_repository,
            is_off=request.searches_ignored,
        )
        self._overrides = Overrides(request.globs)
        self._out = sys.stdout.buffer
        self.lines_tried = 0
        self.is_matching = False
        """Whether the pattern is being matched against the last of them."""

    def run(self) -> int:
        """Search, and return the exit code.

        Raises:
            BadPattern: The pattern is invalid.
        """
        has_found = self._list() if self._request.lists else self._search()
        self._out.flush()
        return 2 if self._has_failed else 0 if has_found else 1

    def _list(self) -> bool:
        has_found = False
        is_all = self._request.lists == "entries"
        for entry in walk(os.getcwd(), self._ignoring, self._overrides, self._report):
            if entry.is_file or is_all:
                has_found = True
                slash = "/" if entry.is_folder else ""
                self._out.write(os.fsencode(f"./{entry.path}{slash}") + b"\0")
        return has_found

    def _search(self) -> bool:
        pattern, path = self._request.words
        request = self._request
        find = compiled(
            pattern,
            is_literal=request.is_literal,
            ignores_case=request.ignores_case,
            takes_crlf=request.takes_crlf,
        ).search
        if not os.path.isdir(path):
            return self._search_file(path, find, is_named=True)
        has_found = False
        for entry in walk(os.path.abspath(path), self._ignoring, self._overrides, self._report):
            if entry.is_file:
                has_found |= self._search_file(f"./{entry.path}", find, is_named=False)
        return has_found

    def _search_file(self, path: str, find: object, *, is_named: bool) -> bool:
        assert callable(find)
        context = self._request.context
        before: deque[_Line] = deque()
        before_bytes = 0
        after = 0
        has_found = False
        try:
            for line in _lines(path, is_named=is_named):
                self.lines_tried += 1
                self.is_matching = True
                found = find(line.raw.decode("utf-8", "surrogateescape"))
                self.is_matching = False
                if found is not None:
                    for each in before:
                        self._write("context", path, each)
                    before.clear()
                    before_bytes = 0
                    self._write("match", path, line)
                    has_found, after = True, context
                elif after:
                    after -= 1
                    self._write("context", path, line)
                elif context:
                    before.append(line)
                    before_bytes += len(line.raw)
                    while len(before) > context or before_bytes > MAX_BEFORE_BYTES:
                        before_bytes -= len(before.popleft().raw)
        except OSError as error:
            self._report(path, error)
        self._out.flush()
        return has_found

    def _write(self, kind: str, path: str, line: _Line) -> None:
        lines = _written(line.raw[:SHOWN_BYTES] + b"\n")
        data = {"path": _written(os.fsencode(path)), "lines": lines, "line_number": line.number}
        record = {"type": kind, "data": data}
        self._out.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    def _report(self, path: str, error: OSError) -> None:
        self._has_failed = True
        shown = path if path.startswith(("./", "/")) else f"./{path}".rstrip("/")
        sys.stderr.write(f"{shown}: {error.strerror} (os error {error.errno})\n")


def _written(raw: bytes) -> dict[str, str]:
    try:
        return {"text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode("ascii")}


def _lines(path: str, *, is_named: bool) -> Iterator[_Line]:
    """Yield the lines of a file; unless it was named, only those before the block with a NUL."""
    number = 0
    rest = b""
    too_long = b""  # the beginning of a line whose end was not reached yet
    for block in _blocks(path):
        if not is_named and b"\0" in block:
            return
        if too_long:
            _, end, block = block.partition(b"\n")
            if not end:
                continue
            number += 1
            yield _Line(number, too_long)
            too_long = b""
        *whole, rest = (rest + block).split(b"\n")
        for raw in whole:
            number += 1
            yield _Line(number, raw)
        if len(rest) > MAX_LINE_BYTES:
            too_long, rest = rest[:MAX_LINE_BYTES], b""
    if last := rest or too_long:
        yield _Line(number + 1, last)


def _blocks(path: str) -> Iterator[bytes]:
    """Yield a file's text as UTF-8, decoded by its byte order mark if it has one.

    The first block has the length of the longest byte order mark: a line in it is found before any NUL, as by ripgrep.
    """
    import codecs

    with open(path, "rb", buffering=0) as file:
        first = file.read(len(codecs.BOM_UTF8))
        decoder: codecs.IncrementalDecoder | None = None
        if first.startswith((b"\xff\xfe", b"\xfe\xff")):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        block = first.removeprefix(codecs.BOM_UTF8) or file.read(BLOCK_BYTES - len(first))
        while block:
            if decoder is not None:
                block = decoder.decode(block).encode("utf-8", "replace")
            yield block
            block = file.read(BLOCK_BYTES - len(first))
            first = b""


def _limit(search: SearchRun) -> None:
    """Limit the memory of the process, and the processor time of one line by a virtual timer."""
    import resource

    try:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        if most == resource.RLIM_INFINITY or most > MAX_MEMORY_BYTES:
            resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, most))
    except (OSError, ValueError):  # a system without this limit
        pass
    last = (-1, 0)

    def tick(_signal: int, _frame: object) -> None:
        nonlocal last
        tried, ticks = last
        is_same = search.is_matching and tried == search.lines_tried
        last = (search.lines_tried, ticks + 1 if is_same else 0)
        if last[1] >= MATCH_S:
            _too_long()

    signal.signal(signal.SIGVTALRM, tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1, 1)


def _too_long() -> NoReturn:
    raise _Failed(
        f"the pattern takes more than {MATCH_S} s on one line: use a simpler one, without repetitions of repetitions"
    )


def main(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        search = SearchRun(read_request(arguments))
        _limit(search)
        return search.run()
    except (BadGlob, BadPattern, _Failed) as error:
        text = str(error)
    except MemoryError:
        text = f"the pattern takes more than {MAX_MEMORY_BYTES // 1024**3} GiB: use a simpler one"
    except ValueError as error:
        text = f"Failed to search: {error}"
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(f"{text}\n".encode("utf-8", "surrogateescape"))
    return 2
