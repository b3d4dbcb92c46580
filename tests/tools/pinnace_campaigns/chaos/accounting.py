"""The guarantees about an agent's traces and files under faults, tracked from process to process.

Pure, on records and bytes. `Witness` judges one process as its trace grows; `Archive` all files over all processes.
Each returns faults, as texts; none means that all guarantees hold. Rules R-SES-05 to R-SES-08, R-QUE-08 to R-QUE-13.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pinnace_fuzz.harness.adapters import PreparedHome
from pinnace_fuzz.judge.playing.recording import Recording
from pinnace_fuzz.records import NotARecord, Record, parse_record
from pinnace_fuzz.session_verdict import (
    Files,
    entries_of,
    find_damage,
    find_losses,
    find_request_faults,
    queued_texts,
    text_of,
)
from pinnace_fuzz.trials.workbench import find_problems
from pinnace_spec.observers import Checks, End, Judge
from pinnace_spec.profiles.generations import generation
from pinnace_spec.profiles.profiles import Profile

MAX_FAULTS: Final = 10
"""Faults that recur in every record are reported once."""


class Witness:
    """Judges the trace of one process by the specification: its observers, its models and its schemas."""

    def __init__(self, recording: Recording, profile: Profile, *, is_fresh: bool) -> None:
        """Begin with the process."""
        self.recording = recording
        self._profile: Profile = profile
        # It may be stopped, or not be read, so times of records prove nothing. `World` checks response times.
        checks = Checks(is_fresh=is_fresh, is_ours=True, is_reading=False, is_overloaded=True)
        self._judge = Judge(generation(profile), checks=checks)
        self._lines = 0
        self._records = 0

    def look(self) -> list[str]:
        """Judge the records since the last call."""
        recording = self.recording
        verdicts = [each for at in range(self._lines, len(recording.lines)) for each in self._feed(at)]
        records = [each.record for each in recording.records[self._records :]]
        self._records += len(records)
        problems = find_problems(records, self._profile)
        return [*verdicts, *problems, *recording.flaws][:MAX_FAULTS]

    def _feed(self, at: int) -> Iterator[str]:
        self._lines = at + 1
        for verdict in self._judge.feed(self.recording.step(at)):
            if verdict.level == "violation":
                yield f"{verdict.invariant}: {verdict.text}"

    def finish(self, end: End) -> list[str]:
        """Judge the rest and the end."""
        faults = self.look()
        found = self._judge.finish(end)
        return [*faults, *(f"{each.invariant}: {each.text}" for each in found if each.level == "violation")]

    @property
    def armed(self) -> Mapping[str, int]:
        """Invariant -> how often it was armed."""
        return self._judge.report.armed


class Accepted:
    """The messages that one process has accepted: each is delivered once, or queued, or returned."""

    def __init__(self, recording: Recording, texts: Mapping[str, str]) -> None:
        """Begin with the process; `texts` grows: ids of commands -> texts, each its own."""
        self._recording = recording
        self._texts = texts
        self._at = 0
        self._taken: set[str] = set()
        self._begun: Counter[str] = Counter()
        self._handed_back: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    def look(self) -> None:
        """Read the records since the last call."""
        records = self._recording.records
        while self._at < len(records):
            self._take(records[self._at].record)
            self._at += 1

    def _take(self, record: Record) -> None:
        match record:
            case {"type": "queue_update", "steering": steering, "followUp": follow_up}:
                self._waiting = Counter([*map(_queued_text, steering), *map(_queued_text, follow_up)])
            case {"type": "message_start", "message": {"role": "user"} as message}:
                self._begun[text_of(dict(message))] += 1
            case {"type": "response", "success": True, "id": identity, **rest}:
                if identity in self._texts:
                    self._taken.add(self._texts[identity])
                self._handed_back.update(_handed_back(rest.get("data")))
            case _:
                pass

    def faults(self, *, waiting: int | None) -> list[str]:
        """Return which messages are lost or duplicated.

        Args:
            waiting: The number of queued messages that the agent reports while it is idle. None while it works, or if
                no client could ask.
        """
        self.look()
        found = [f"{text!r} was delivered {count} times" for text, count in self._begun.items() if count > 1]
        if waiting is not None:
            if waiting != (shown := self._waiting.total()):
                found.append(f"{waiting} texts wait, but the last queue_update had {shown}")
            for text in self._taken:
                places = self._begun[text] + self._handed_back[text] + self._waiting[text]
                if places != 1:
                    where = (self._begun[text], self._handed_back[text], self._waiting[text])
                    found.append(f"{text!r} was accepted; delivered, returned, queued: {where}")
        return found


def _queued_text(item: Any) -> str:
    return item if isinstance(item, str) else text_of(item)


def _handed_back(data: Any) -> list[str]:
    """Find the texts in the answer of `clear_queue`, of `abort` and of what replaces a session."""
    match data:
        case {"cleared": lists} | lists:
            pass
    match lists:
        case {"steering": [*steering], "followUp": [*follow_up]}:
            return [*map(_queued_text, steering), *map(_queued_text, follow_up)]
        case _:
            return []


class Archive:
    """The session files of a home, from process to process."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._cuts: dict[str, list[tuple[int, int]]] = {}
        """The places of lines that a kill or a full disk has cut."""

    def close_process(
        self,
        records: Iterable[Record],
        texts: Mapping[str, str],
        files: Files,
        *,
        was_killed: bool,
        has_switched: bool,
    ) -> list[str]:
        """Compare the records of a process with the files on disk, and these with those of its predecessors.

        Args:
            records: What its client has read while everything could be saved.
            texts: Ids of messages -> texts.
            files: What is on the disk.
            was_killed: A line may be cut.
            has_switched: A session was opened for a second time. What is opened after a clock was set back is dated by
                that clock; only while it is open its times do not run backwards.
        """
        faults = find_losses(records, texts, files)
        for name, former in self._files.items():
            if name not in files:
                faults.append(f"{name} was deleted")
            elif not files[name].startswith(former):
                faults.append(f"{name} was changed where it was written before")
        for name, data in files.items():
            former = self._files.get(name, b"")
            if data != former:
                faults += [f"{name}: {each}" for each in self._changed(name, former, data, was_killed=was_killed)]
                if not has_switched:
                    faults += [f"{name}: {each}" for each in _times_backwards(former, data)]
        self._files = dict(files)
        return faults[:MAX_FAULTS]

    def restored(self, name: str, waiting: int) -> list[str]:
        """Compare the messages that a process has restored with those that the file of its session leaves queued."""
        queued = queued_texts(self._files.get(name, b""))
        return [] if len(queued) == waiting else [f"{name} leaves {queued} queued, and {waiting} texts wait"]

    def _changed(self, name: str, former: bytes, data: bytes, *, was_killed: bool) -> list[str]:
        begun = former.rfind(b"\n") + 1
        cuts = self._cuts.setdefault(name, [])
        # A line that was cut stays where it is, with a line feed of its successor behind it. One that lacks nothing but
        # its line feed is a line.
        if begun < len(former) and len(data) > len(former) and not _is_record(former[begun:]):
            if data[len(former) : len(former) + 1] != b"\n":
                return ["text was appended to a line that was cut"]
            cuts.append((begun, len(former) + 1))
        for start, end in reversed(cuts):
            data = data[:start] + data[end:]
        texts = [text_of(each["message"]) for each in entries_of(data) if _is_of_user(each)]
        twice = [f"{text!r} is there {count} times" for text, count in Counter(texts).items() if count > 1]
        return [*twice, *find_damage(data, may_be_torn=was_killed)]


def _times_backwards(former: bytes, data: bytes) -> list[str]:
    # A copy of another session has its times; the header has that of the session's beginning, before any entry.
    if not former and b'"parentSession"' in data[: data.find(b"\n")]:
        return []
    appended = entries_of(data if not former else b"\n" + data[len(former) :])
    times = [str(each["timestamp"]) for each in appended if "timestamp" in each]
    is_wrong = any(later < earlier for earlier, later in pairwise(times))
    return [f"the times of its entries run backwards: {times}"] if is_wrong else []


def _is_of_user(entry: Record) -> bool:
    return bool(entry["type"] == "message" and entry["message"]["role"] == "user")


def _is_record(line: bytes) -> bool:
    try:
        parse_record(line)
    except NotARecord:
        return False
    return True


def request_faults(bodies: Sequence[Record]) -> list[str]:
    """Return the parts of requests that a provider would refuse."""
    return [fault for body in bodies for fault in find_request_faults(body)]


def never_ran(record: Record) -> bool:
    """Whether this reports a shell command that was ended before it began, while its session was being replaced.

    It leaves no entry in the session, and no output that could be missing.
    """
    match record:
        case {"type": "response", "command": "bash", "data": {"cancelled": True, "output": ""}}:
            return True
        case _:
            return False


_LONG_OUTPUT = "pi-bash-"
"""Long outputs of commands are kept for the user."""
_SESSION_FILES = (".jsonl", ".jsonl.lease", ".jsonl.damaged", ".filler")
"""A lease of a killed process has no effect; quarantine files are kept."""


_PROBE: Final = b"blat"
"""What `tempfile` writes once in a process, to a file of a random name, to learn whether a folder can be used."""


_NEW_SESSION_FILE: Final = re.compile(r"\.pinnace-[0-9a-f]{16}\.tmp")
"""A session file that is written anew, before it is put in its place."""


def _is_probe(path: Path) -> bool:
    return re.fullmatch(r"[a-z0-9_]{8}", path.name) is not None and _PROBE.startswith(path.read_bytes())


def left_behind(home: PreparedHome, session: Path | None, *, has_killed: bool) -> list[str]:
    """Return the files that are left.

    Args:
        home: The home of the process.
        session: The session file that it closed at an orderly end.
        has_killed: A tool may have been killed in the middle of a change, in this process or in one before; so may
            the standard library before it removed its probe of the temporary folder, and a session before its file,
            which was written anew, was in its place.
    """
    left = [each for each in home.temp.rglob("*") if each.is_file() and not each.name.startswith(_LONG_OUTPUT)]
    if has_killed:
        left = [each for each in left if not _is_probe(each)]
    sessions = [each for each in home.sessions.iterdir() if not each.name.endswith(_SESSION_FILES)]
    left += [each for each in sessions if not (has_killed and _NEW_SESSION_FILE.fullmatch(each.name))]
    if not has_killed:
        left += [each for each in home.work.rglob(".*") if each.is_file()]
    if session is not None and (lease := session.with_name(f"{session.name}.lease")).exists():
        left.append(lease)
    return [f"left behind: {each.relative_to(home.root)}" for each in left]
