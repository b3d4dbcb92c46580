"""Makes transcripts comparable, and compares them: what differs between two runs of anything is replaced.

Placeholders: <UUID1>, <ENTRY1> (numbered by first occurrence, so that references stay visible), <TIME>,
<ISO>, <PORT>, <HEX>, and one for each given path. Pure; judges nothing but equality.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from pinnace_fuzz.records import Record

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?Z?")
_PORT = re.compile(r"\b(127\.0\.0\.1|localhost):\d+")
_SPILL_FILE = re.compile(r"\bpi-(bash|output)-[0-9a-f]{8,}")
_ENTRY_ID = re.compile(r"[0-9a-f]{8}")
_ENTRY_KEYS = frozenset({"id", "entryId", "parentId", "leafId", "targetId", "fromId", "firstKeptEntryId"})
_TIME_KEYS = frozenset({"timestamp", "durationMs", "duration", "elapsedMs", "startedAt", "endedAt"})
# Long texts say nothing to a reader; their length and digest still distinguish them.
_LONG_CHARACTERS = 1500


class Normaliser:
    """Replaces what no two runs share; one instance for each transcript, since it numbers ids."""

    def __init__(self, paths: Mapping[str, str] | None = None) -> None:
        """Take paths and what to write instead of each; the longest is replaced first."""
        self._paths = sorted((paths or {}).items(), key=lambda pair: -len(pair[0]))
        self._uuids: dict[str, int] = {}
        self._entries: dict[str, int] = {}

    def record(self, record: Mapping[str, object]) -> Record:
        """Return a copy of a record with placeholders."""
        return cast("Record", self._value(record, ""))  # an object stays an object

    def _value(self, value: object, key: str) -> object:
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, object]", value)
            return {name: self._value(each, name) for name, each in fields.items()}
        if isinstance(value, list):
            return [self._value(each, "") for each in cast("list[object]", value)]
        if isinstance(value, str):
            if key in _ENTRY_KEYS and _ENTRY_ID.fullmatch(value):
                return f"<ENTRY{self._entries.setdefault(value, len(self._entries) + 1)}>"
            return self.text(value)
        if key in _TIME_KEYS and isinstance(value, int | float) and not isinstance(value, bool):
            return "<TIME>"
        return value

    def text(self, text: str) -> str:
        """Return a text with placeholders."""
        for path, placeholder in self._paths:
            text = text.replace(path, placeholder)
            # A session folder is named after the working folder, with dashes for its separators.
            text = text.replace(path.strip("/").replace("/", "-"), placeholder)
        text = _UUID.sub(lambda found: f"<UUID{self._uuids.setdefault(found[0], len(self._uuids) + 1)}>", text)
        text = _SPILL_FILE.sub(r"pi-\1-<HEX>", _PORT.sub(r"\1:<PORT>", _ISO.sub("<ISO>", text)))
        if len(text) > _LONG_CHARACTERS:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
            return f"{text[:60]}<...LEN={len(text)} SHA={digest}>"
        return text


class Comparison(NamedTuple):
    """How two transcripts agree."""

    shared_fields: int
    """Leaf fields that are in both, with the same value, in records that correspond."""
    all_fields: int
    """Leaf fields that are in either."""
    differences: list[str]

    @property
    def agreement(self) -> float:
        """The share of the fields that agree, 0 to 1."""
        return self.shared_fields / self.all_fields if self.all_fields else 1.0


def record_kind(record: Mapping[str, object]) -> str:
    """Name what a record is, closely enough to find its counterpart in another transcript."""
    kind = record.get("type")
    match kind:
        case "response":
            parts = [kind, record.get("command"), record.get("id")]
        case "message_update":
            parts = [kind, _field(record, "assistantMessageEvent", "type")]
        case "message_start" | "message_end":
            parts = [kind, _field(record, "message", "role")]
        case "extension_ui_request":
            parts = [kind, record.get("method")]
        case _:
            parts = [kind, record.get("toolCallId")]
    return " ".join(str(part) for part in parts if part is not None)


def _field(record: Mapping[str, object], *path: str) -> object:
    value: object = record
    for name in path:
        value = cast("Record", value).get(name) if isinstance(value, dict) else None
    return value


def compare(first: Sequence[Record], second: Sequence[Record]) -> Comparison:
    """Align two normalised transcripts by the kinds of their records, then compare field by field.

    For transcripts of some thousand records: the alignment is quadratic at worst.
    """
    kinds = [record_kind(record) for record in first], [record_kind(record) for record in second]
    matcher = difflib.SequenceMatcher(None, *kinds, autojunk=False)
    shared = total = 0
    differences: list[str] = []
    for operation, begin, end, other_begin, other_end in matcher.get_opcodes():
        if operation == "equal":
            for at, other in zip(range(begin, end), range(other_begin, other_end), strict=True):
                fields, others = dict(_leaves(first[at])), dict(_leaves(second[other]))
                paths = list(dict.fromkeys([*fields, *others]))
                unequal = [path for path in paths if fields.get(path) != others.get(path)]
                total += len(paths)
                shared += len(paths) - len(unequal)
                for path in unequal:
                    both = f"{fields.get(path, 'none')} / {others.get(path, 'none')}"
                    differences.append(f"#{at} {kinds[0][at]}: {path}: {both}")
        else:
            for name, records in (("first", first[begin:end]), ("second", second[other_begin:other_end])):
                total += sum(1 for record in records for _ in _leaves(record))
                differences += [f"#{begin} only in the {name}: {_short(record)}" for record in records]
    return Comparison(shared, total, differences)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each leaf and its value as JSON, so that 1, 1.0, true and "1" differ."""
    parts = _parts(value)
    for name, each in parts:
        yield from _leaves(each, f"{path}{name}")
    if not parts:
        yield path, _short(value)


def _parts(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(f".{name}", each) for name, each in cast("Record", value).items()]
    if isinstance(value, list):
        return [(f"[{at}]", each) for at, each in enumerate(cast("list[object]", value))]
    return []


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
