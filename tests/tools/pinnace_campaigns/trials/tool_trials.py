"""Has an agent make tool calls on files laid out for each, and returns its answers and the files afterwards.

For holding two agents against each other: what is chance, such as where the folders are, is taken out, and what is long
stands as its digest. Must not know any tool, nor judge.
"""

import base64
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import HomedAgent

Answer: TypeAlias = dict[str, object]
"""What a call came to: `content` (images by their type), `details`, `isError`, `changed` (files), `output` (whole)."""
FileContent: TypeAlias = str | bytes | Path
"""Of a file that is laid out: text, bytes, or what a link points to."""

MAX_SHOWN_CHARS: Final = 2_000
"""A longer text proves no more than its digest."""
_TIMEOUT_S: Final = 300.0
_OUTPUT_FILE: Final = re.compile(r"/[^\s'\"]*/pi-bash-[0-9a-f]{16}\.log")


class Trial(NamedTuple):
    """One call, in a folder of its own: `{c}`, relative to the working folder `{work}`."""

    tool: str
    args: Mapping[str, object]
    files: Mapping[str, FileContent]
    """What is in the folder before, by name."""
    ours: Answer
    """The parts of the answer in which ours is to differ; empty: none."""
    why: str = ""
    """The number of the deviation that it is, or why it needs none."""


def answers_to(agent: HomedAgent, trials: Sequence[Trial], *, calls_a_turn: int = 200) -> list[Answer]:
    """Have an agent make all calls, so many at once, and return what it answered to each."""
    work = agent.home.work
    folders = [work / f"case-{number:03}" for number in range(len(trials))]
    calls: list[dict[str, str]] = []
    for folder, trial in zip(folders, trials, strict=True):
        _lay_out(folder, trial.files)
        calls.append({"name": trial.tool, "args": _filled(trial.args, folder)})
    for first in range(0, len(calls), calls_a_turn):
        agent.llm.add({"tool_calls": calls[first : first + calls_a_turn]})
    agent.llm.add({"text": "done"})
    agent.ask("prompt", message="go")
    messages = agent.wait({"type": "agent_end"}, timeout_s=_TIMEOUT_S)["messages"]
    results = [message for message in messages if message["role"] == "toolResult"]
    assert len(results) == len(trials)
    return [
        _answer(result, folder, trial.files, agent.home.root)
        for folder, trial, result in zip(folders, trials, results, strict=True)
    ]


def trial_record(trials: Sequence[Trial], answers: Sequence[Answer]) -> list[Answer]:
    """Return what is kept of an agent's answers: each with its call."""
    pairs = zip(trials, answers, strict=True)
    # As text and back: what is kept is compared with what was read from a file.
    record: list[Answer] = json.loads(
        json.dumps([{"tool": each.tool, "args": _shown_args(each.args), **answer} for each, answer in pairs])
    )
    return record


def shortened(text: str) -> str:
    """Return a text as records have it: of a long one the beginning, the end and a digest."""
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:80]}...{text[-200:]} {digest}"


def _shown_args(args: Mapping[str, object]) -> Mapping[str, object]:
    return {name: shortened(value) if isinstance(value, str) else value for name, value in args.items()}


def _lay_out(folder: Path, files: Mapping[str, FileContent]) -> None:
    folder.mkdir()
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            file.symlink_to(content)
        else:
            file.write_bytes(content.encode() if isinstance(content, str) else content)


def _filled(args: Mapping[str, object], folder: Path) -> str:
    return json.dumps(args).replace("{c}", folder.name).replace("{work}", str(folder.parent))


def _answer(result: Record, folder: Path, before: Mapping[str, FileContent], root: Path) -> Answer:
    def settled(text: str) -> str:
        text = _OUTPUT_FILE.sub("{output}", text)
        text = text.replace(str(folder.parent), "{work}").replace(str(root), "{root}").replace(folder.name, "{c}")
        return shortened(text)

    details: Record | None = result.get("details")
    if details is not None:
        details = {name: settled(value) if isinstance(value, str) else value for name, value in details.items()}
        if "truncation" in details:
            # The text says the same, and the other fields how long it is.
            details["truncation"] = {**details["truncation"], "content": len(details["truncation"]["content"])}
    answer: Answer = {
        "content": [
            settled(block["text"]) if block["type"] == "text" else _image_name(block, folder)
            for block in result["content"]
        ],
        "details": details,
        "isError": result["isError"],
        "changed": {name: settled(shown) for name, shown in _changes(folder, before)},
    }
    if details is not None and "fullOutputPath" in details:
        output = Path(result["details"]["fullOutputPath"])
        answer["output"] = f"{settled(_shown(output))} {stat.S_IMODE(output.stat().st_mode):o}"
    return answer


def _changes(folder: Path, before: Mapping[str, FileContent]) -> Iterator[tuple[str, str]]:
    """Show the files that are not as they were laid out."""
    found = {os.path.relpath(file, folder) for file in folder.rglob("*") if file.is_symlink() or not file.is_dir()}
    for name in sorted(found | before.keys()):
        content = before.get(name)
        file = folder / name
        if not os.path.lexists(file):
            yield name, "gone"
        elif isinstance(content, Path):
            if not file.is_symlink():
                yield name, _shown(file)
        elif file.is_symlink() or file.read_bytes() != (content.encode() if isinstance(content, str) else content):
            yield name, _shown(file)


def _image_name(block: Record, folder: Path) -> str:
    """Name an image by its type, and say whether it is one of the files unchanged."""
    data = base64.b64decode(block["data"], validate=True)
    is_original = any(file.is_file() and file.read_bytes() == data for file in folder.rglob("*"))
    return f"{block['mimeType']}, {'the file' if is_original else 'another'}"


def _shown(file: Path) -> str:
    if file.is_symlink():
        return f"-> {os.readlink(file)}"
    data = file.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"bytes {data!r}"
