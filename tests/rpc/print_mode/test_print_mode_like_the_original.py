"""Modes text and json as the original has them: the same words, files and answers, each a start of its own.

What release 1.5.2 did is kept in tests/data, so that this runs without it. Where it is present it must still do so. To
record anew, delete the file and run this with the original.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.parts import asked_again
from tests.source_tree import DATA

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

RECORDED: Final = DATA / "print-mode-of-pi-1.5.2.json"
Outcome = dict[str, Any]

REFUSED: Final[Scripted] = {"error": {"status": 400}}
CUT: Final[Scripted] = {"text": "half", "finish": "length", "usage": {"input": 10, "output": 4096}}
TOOL: Final[Scripted] = {"text": "I will look", "tool_calls": [{"name": "bash", "args": {"command": "echo deep"}}]}
ANSWERS: Final[Sequence[Scripted]] = ({"text": "one"}, {"text": "two"}, {"text": "three"})
FILES: Final = {"a.txt": b"text\n", "b.txt": b"more", "empty.txt": b"", "odd.txt": b"t\xffxt"}
SETTINGS: Final = {"retry": {"enabled": False}}


class Case(NamedTuple):
    """One start; `code` is ours where it is to differ, and `is_told` if we alone say on stderr what is odd."""

    words: Sequence[str]
    stdin: str = ""
    script: Sequence[Scripted] = ANSWERS
    code: int | None = None
    is_told: bool = False


CASES: Final = (
    Case(["-p", "hello"]),
    Case(["--print", "hello"]),
    Case(["--mode", "text", "hello"]),
    Case(["hello"]),
    Case(["-p", "a", "b", "c"]),
    Case(["-p"], "in"),
    Case([], "in"),
    Case(["-p", "hello"], " in \n"),
    Case(["-p", "hello"], "\n"),
    Case(["-p", "a", "b"], "in"),
    Case(["-p"], is_told=True),
    Case(["-p", "@a.txt"]),
    Case(["-p", "@a.txt", "@empty.txt", "hello", "@b.txt", "more"], "in"),
    Case(["-p", "@odd.txt", "hello"]),
    Case(["-p", "@nope.txt", "hello"]),
    Case(["-p", "--- x"]),
    Case(["-p", "--", "--x", "@b.txt"]),
    Case(["-p", "hello", "--thinking", "off", "again"]),
    Case(["-p", "hello"], script=[REFUSED]),
    Case(["-p", "a", "b"], script=[REFUSED, {"text": "fine"}]),
    Case(["-p", "a", "b"], script=[{"text": "fine"}, REFUSED]),
    Case(["-p", "hello"], script=[CUT]),
    Case(["-p", "look"], script=[TOOL, {"text": "done"}]),
    Case(["--mode", "json", "hello"]),
    Case(["--mode", "json", "a", "b"], "in"),
    Case(["--mode", "json", "look"], script=[TOOL, {"text": "done"}]),
    Case(["--mode", "json", "hello"], script=[REFUSED]),
    Case(["--mode", "json", "hello"], script=[CUT]),
    Case(["--mode", "json"], is_told=True),
    Case(["--mode", "json", "@nope.txt"]),
    # A command line that makes no sense ends with 2 here.
    Case(["--mode", "foo", "hello"], code=2),
    Case(["--bogus", "hello"], code=2),
    Case(["-z", "hello"], code=2),
    Case(["--mode"], code=2),
)


def outcome(start: OneShotStarter, case: Case) -> Outcome:
    """Start it, and return what it did: without what is chance, and without words for people."""

    def prepare(work: Path) -> None:
        for name, content in FILES.items():
            (work / name).write_bytes(content)

    one_shot = start(case.words, case.script, prepare=prepare, settings=SETTINGS)
    ended = one_shot.end(case.stdin.encode())
    asked = [
        [message["content"] for message in request.body["messages"] if message["role"] == "user"]
        for request in one_shot.llm.requests
    ]
    is_json = ended.out.startswith("{")
    found = {
        "code": ended.code,
        "out": kinds(ended.records) if is_json else ended.out,
        "says why": ended.err != "",
        "asked": asked,
    }
    read: Outcome = json.loads(json.dumps(found).replace(str(one_shot.home.work), "{work}"))
    return read


def kinds(records: Sequence[dict[str, Any]]) -> list[str]:
    """The types of records, with the role of messages; many updates are one."""
    words: list[str] = []
    for record in records:
        role = record["message"]["role"] if record["type"] in {"message_start", "message_end"} else ""
        if record is records[-1] and record["type"] == "result":  # ours alone
            continue
        if role != "system":  # its own prompt is a message for the original alone
            words.append(f"{record['type']} {role}".strip())
    return [word for word, _ in itertools.groupby(words)]


@pytest.fixture(scope="module")
def recorded() -> list[Outcome]:
    read: list[Outcome] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(case.words) for case in CASES])
def test_a_start_ends_as_in_the_original(number: int, recorded: list[Outcome], print_agent: OneShotStarter) -> None:
    case, theirs = CASES[number], recorded[number]
    expected = {**theirs, "code": theirs["code"] if case.code is None else case.code}
    expected["says why"] |= case.is_told

    assert {"words": case.words, **outcome(print_agent, case)} == expected


@pytest.fixture(scope="module")
def found() -> Iterator[list[Outcome]]:
    """Takes what the original does, case by case; keeps it if nothing is recorded."""
    record: list[Outcome] = []
    yield record
    if not RECORDED.exists() and len(record) == len(CASES):
        RECORDED.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    "number", asked_again(len(CASES), RECORDED), ids=lambda number: " ".join(CASES[number].words) or "nothing"
)
def test_the_original_still_does_so(number: int, original_pi: list[str], tmp_path: Path, found: list[Outcome]) -> None:
    # One test each: together they take minutes on a busy machine, as only a test that hangs does.
    with OneShotStarter(original_pi, tmp_path) as start:
        found.append({"words": list(CASES[number].words), **outcome(start, CASES[number])})
    if RECORDED.exists():
        record = json.loads(RECORDED.read_text(encoding="utf-8"))
        assert (len(CASES), found[-1]) == (len(record), record[number])
