"""The commands of one named client, so that one that it repeats is not executed twice, whatever has crashed between.

A command is in the table's file before the agent gets it, and its response before the client gets it. The file is a log
of lines, read when the client comes back; responses stay in it. It is written anew where a flush has failed, also by
the next host: the system takes for written what it could not write, and a later flush proves nothing. What a repetition
means is decided here; must not know connections or the agent's process.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, cast

import trio

from pinnace_rpc.host.locations import FILE_MODE, flush_names, make_folder
from pinnace_spec.wire.json_text import JsonValue

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.system import System

KEPT: Final = 1000
"""Answered commands; a client has at most as many responses unread, so it repeats none that is older."""
MAX_RESPONSE_BYTES: Final = 1024 * 1024
"""A longer response is kept without its data."""
MAX_CLIENTS: Final = 1000
"""Of one agent; the ones that were unused for the longest time are forgotten."""

_FOLDER: Final = "clients"
_ENDING: Final = ".jsonl"
_LOST_ENDING: Final = ".lost"
"""Of the name of an empty file beside a table of which a flush has failed. It need not reach the disk: a loss of power
takes what was in memory alone as well."""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_RESPONSE: Final = b',"response":'

Repetition = Literal["new", "answered", "in progress", "begun", "reused"]
"""What is known of a command: nothing; its response; that it is executed; that it was, when something crashed, or that
a loss of power may have taken what it has changed; that another command had its id."""


class _Entry:
    """One command."""

    __slots__ = ("boot", "digest", "is_in_file", "is_open", "place", "size")

    def __init__(self, digest: str, *, is_open: bool) -> None:
        self.digest = digest
        self.is_open = is_open
        """Whether a process of this host executes it."""
        self.is_in_file = True
        """False where the disk did not take it: it is known as long as it is executed."""
        self.place: int | None = None
        """Of the response in the file; None: it is not answered."""
        self.size = 0
        self.boot = ""
        """Of the machine when it was answered."""


class CommandTable:
    """The commands of one client of one agent."""

    def __init__(self, agent_folder: str, client: str, system: "System" = os, boot: str = "") -> None:
        """Read the client's file, if there is one, which the system keeps. Blocking.

        Args:
            agent_folder: The agent's.
            client: The client's name.
            system: Keeps the file.
            boot: Identifies the time since the machine was started.

        Raises:
            LocationError, OSError: It can't be used.
        """
        folder = os.path.join(agent_folder, _FOLDER)
        self._system = system
        self._boot = boot
        make_folder(folder, system)
        _forget_oldest(folder, system)
        self.client = client
        self._path = os.path.join(folder, f"{hashlib.sha256(client.encode()).hexdigest()[:32]}{_ENDING}")
        self._entries: dict[str, _Entry] = {}
        self._answered = 0
        self._descriptor = self._system.open(self._path, _FLAGS, FILE_MODE)
        self._size = 0
        self._has_name = False
        """Whether the name of the file is on the disk."""
        self._is_content_lost = os.path.exists(self._path + _LOST_ENDING)
        """Whether what is read of the file may be in the memory of the system alone."""
        self._load()
        self.is_known = bool(self._entries)
        """Whether the client was here before."""
        os.utime(self._path)

    def close(self) -> None:
        """Close the file."""
        self._system.close(self._descriptor)

    def look_up(self, identity: JsonValue, fields: Mapping[str, JsonValue], *, is_lasting: bool) -> Repetition:
        """Return what is known of a command.

        Args:
            identity: Its id.
            fields: Its members.
            is_lasting: Whether its answer comes when what it has changed is on the disk, or it changes nothing. Else
                a loss of power may have taken the change and left the answer, which says nothing any more.
        """
        entry = self._entries.get(json.dumps(identity))
        if entry is None:
            return "new"
        if entry.digest != digest(fields):
            return "reused"
        if entry.place is not None and (is_lasting or entry.boot == self._boot):
            return "answered"
        return "in progress" if entry.is_open else "begun"

    async def begin(self, identity: JsonValue, fields: Mapping[str, JsonValue], *, is_synced: bool) -> None:
        """Keep that a command is about to be executed.

        Args:
            identity: Its id.
            fields: Its members.
            is_synced: Whether it must not be executed unless it is kept, also through a power failure. Else it is
                known without the disk for as long as it is executed.

        Raises:
            OSError: It can't be kept, and must be. The command is not known then.
        """
        key, content = json.dumps(identity), digest(fields)
        entry = _Entry(content, is_open=True)
        try:
            if self._is_content_lost:
                self._write_anew(dropped=())
            self._append(json.dumps({"id": key, "digest": content}).encode("ascii") + b"\n")
        except OSError:
            if is_synced:
                raise
            entry.is_in_file = False
        self._entries.pop(key, None)
        self._entries[key] = entry
        if not is_synced:
            return
        try:
            await trio.to_thread.run_sync(self._flush)
        except OSError:
            if self._entries.get(key) is entry:  # else a repetition would wait for a response that never comes
                del self._entries[key]
            raise

    def _flush(self) -> None:
        try:
            self._system.fsync(self._descriptor)
        except OSError:
            self._is_content_lost = True
            with suppress(OSError):
                self._system.close(self._system.open(self._path + _LOST_ENDING, os.O_CREAT | os.O_WRONLY, FILE_MODE))
            raise
        if not self._has_name:
            flush_names(os.path.dirname(self._path), self._system)
            self._has_name = True

    def answer(self, identity: JsonValue, line: bytes) -> None:
        """Keep a response, if the disk takes it; else a repetition counts as one of which only the begin is known."""
        entry = self._entries.get(key := json.dumps(identity))
        if entry is None:
            return
        entry.is_open = False
        if not entry.is_in_file:
            del self._entries[key]
            return
        if len(line) > MAX_RESPONSE_BYTES:
            line = _without_data(line)
        head = _response_head(key, self._boot)
        place = self._size + len(head)
        with suppress(OSError):
            self._append(head + line.rstrip(b"\n") + b"}\n")
            entry.place, entry.size, entry.boot = place, len(line.rstrip(b"\n")), self._boot
            self._answered += 1
            if self._answered >= 2 * KEPT:
                self._shorten()

    def reopen(self, identity: JsonValue) -> None:
        """Take notice that a command is executed again."""
        if (entry := self._entries.get(json.dumps(identity))) is not None:
            entry.is_open = True

    def interrupt(self, identity: JsonValue) -> None:
        """Take notice that a command is executed no longer, and has no response."""
        if (entry := self._entries.get(json.dumps(identity))) is not None:
            entry.is_open = False

    def response(self, identity: JsonValue) -> bytes:
        """Return the response of an answered command.

        Raises:
            OSError: It can't be read.
        """
        entry = self._entries[json.dumps(identity)]
        assert entry.place is not None
        return os.pread(self._descriptor, entry.size, entry.place) + b"\n"

    def has_open(self) -> bool:
        """Return whether a command is executed."""
        return any(entry.is_open for entry in self._entries.values())

    def _append(self, line: bytes) -> None:
        """Write one line, or nothing of it."""
        try:
            written = self._system.write(self._descriptor, line)
            if written < len(line):
                raise OSError(28, os.strerror(28), self._path)  # ENOSPC: a disk takes a part of what does not fit
        except OSError:
            self._system.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(line)

    def _load(self) -> None:
        with open(self._descriptor, "rb", closefd=False) as file:
            for line in file:
                if not line.endswith(b"\n") or not self._take(line):
                    break  # a crash has left it incomplete
                self._size += len(line)
        self._system.ftruncate(self._descriptor, self._size)

    def _take(self, line: bytes) -> bool:
        try:
            value = json.loads(line)
        except ValueError:
            return False
        match value:
            case {"id": str(key), "digest": str(content)}:
                self._entries.pop(key, None)
                self._entries[key] = _Entry(content, is_open=False)
            case {"id": str(key), "response": dict()} if key in self._entries:
                at = line.index(_RESPONSE) + len(_RESPONSE)
                entry = self._entries[key]
                entry.place, entry.size = self._size + at, len(line) - at - len(b"}\n")
                entry.boot = str(value.get("boot", ""))
                self._answered += 1
            case _:
                return False
        return True

    def _shorten(self) -> None:
        """Write the file anew with the newest answered commands and those that are not answered."""
        answered = [key for key, entry in self._entries.items() if entry.place is not None]
        self._write_anew(dropped=answered[:-KEPT])

    def _write_anew(self, *, dropped: Collection[str]) -> None:
        """Write the file anew without some commands, and flush it; on an error it stays as it is.

        Of a response that can't be read any more, only the command is kept.
        """
        descriptor = self._system.open(f"{self._path}.new", _FLAGS | os.O_TRUNC, FILE_MODE)
        size = answered = 0
        entries: dict[str, _Entry] = {}
        forgotten = set(dropped)
        try:
            for key, entry in self._entries.items():
                if key in forgotten:
                    continue
                kept = entries[key] = _Entry(entry.digest, is_open=entry.is_open)
                line = json.dumps({"id": key, "digest": entry.digest}).encode("ascii") + b"\n"
                if (response := self._readable(entry)) is not None:
                    head = _response_head(key, entry.boot)
                    kept.boot = entry.boot
                    kept.place, kept.size = size + len(line) + len(head), entry.size
                    line += head + response + b"}\n"
                    answered += 1
                if self._system.write(descriptor, line) < len(line):
                    raise OSError(28, os.strerror(28), self._path)  # ENOSPC, likewise
                size += len(line)
            self._system.fsync(descriptor)
            self._system.rename(f"{self._path}.new", self._path)
        except OSError:
            self._system.close(descriptor)
            raise
        self._system.close(self._descriptor)
        self._descriptor, self._size, self._entries, self._answered = descriptor, size, entries, answered
        self._has_name = False
        if self._is_content_lost:
            self._is_content_lost = False
            with suppress(OSError):
                self._system.unlink(self._path + _LOST_ENDING)

    def _readable(self, entry: _Entry) -> bytes | None:
        """Return a response as it is in the file; None: there is none, or the system has dropped it, unwritten."""
        if entry.place is None:
            return None
        response = os.pread(self._descriptor, entry.size, entry.place)
        return None if self._is_content_lost and not _is_object(response) else response


def digest(fields: Mapping[str, JsonValue]) -> str:
    """Return what two commands have in common that differ in nothing but the order of their members."""
    content = {name: value for name, value in fields.items() if name != "id"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("ascii")).hexdigest()[:32]


def lasting_id(client: str, identity: JsonValue) -> str:
    """Return the `messageId` or `by` of a command whose client gave none: the same each time it is repeated."""
    return f"client-{hashlib.sha256(json.dumps([client, identity]).encode('ascii')).hexdigest()[:40]}"


def forget_unused(agent_folder: str, before: float, system: "System" = os) -> None:
    """Remove the tables of clients that were last here before a time, in seconds since the epoch. Blocking."""
    with suppress(OSError):
        for entry in _tables(os.path.join(agent_folder, _FOLDER)):
            if entry.stat().st_mtime < before:
                _remove(entry.path, system)


def _forget_oldest(folder: str, system: "System") -> None:
    entries = sorted(_tables(folder), key=lambda entry: entry.stat().st_mtime)
    for entry in entries[: max(0, len(entries) - MAX_CLIENTS)]:
        with suppress(OSError):
            _remove(entry.path, system)


def _tables(folder: str) -> Iterator["os.DirEntry[str]"]:
    return (entry for entry in os.scandir(folder) if entry.name.endswith(_ENDING))


def _remove(path: str, system: "System") -> None:
    system.unlink(path)
    for ending in (_LOST_ENDING, ".new"):
        with suppress(FileNotFoundError):
            system.unlink(path + ending)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _response_head(key: str, boot: str) -> bytes:
    return json.dumps({"id": key} | ({"boot": boot} if boot else {})).encode("ascii")[:-1] + _RESPONSE


def _without_data(line: bytes) -> bytes:
    record = cast("dict[str, JsonValue]", json.loads(line))  # cast: a response is an object
    record.pop("data", None)
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
