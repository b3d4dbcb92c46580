"""`pinnace --export FILE --format`: the same session as Markdown, as a trajectory and as a session file."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.source_tree import REPOSITORY

from pinnace_agent.export.exporting import export_lines, export_trajectory, export_transcript
from pinnace_agent.export.source import Source, read_source
from pinnace_agent.export.transcript import fenced
from pinnace_spec.rules import errors

HARBOR = REPOSITORY / ".tools" / "harbor" / "bin" / "python"
JUDGE = """
import json, sys
from harbor.models.trajectories import Trajectory
found = Trajectory.model_validate(json.load(open(sys.argv[1])))
print(len(found.steps), found.final_metrics.total_steps)
"""
USAGE = {"input": 10, "output": 4, "cacheRead": 3, "cacheWrite": 2, "totalTokens": 19}
USAGE["cost"] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25}  # type: ignore[assignment]
TIME = "2026-01-02T03:04:05.000Z"


def answer(*content: dict[str, object], **fields: object) -> dict[str, object]:
    head = {"role": "assistant", "api": "a", "provider": "p", "model": "m", "usage": USAGE, "stopReason": "stop"}
    return {**head, "timestamp": 3, "content": list(content), **fields}


MESSAGES: list[dict[str, object]] = [
    {"role": "user", "content": [{"type": "text", "text": "Look at *this*"}], "timestamp": 1},
    answer(
        {"type": "thinking", "thinking": "hm\nwell"},
        {"type": "text", "text": "I look"},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
        {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {"command": "false"}},
        stopReason="toolUse",
    ),
    {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "read",
        "content": [{"type": "text", "text": "```\nx"}, {"type": "image", "data": "", "mimeType": "image/png"}],
        "isError": False,
        "timestamp": 4,
    },
    {"role": "toolResult", "toolCallId": "c2", "toolName": "bash", "content": [], "isError": True, "timestamp": 4},
    {"role": "toolResult", "toolCallId": "gone", "toolName": "ls", "content": [], "isError": False, "timestamp": 4},
    answer({"type": "text", "text": "Done"}, errorMessage="late", stopReason="error"),
]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": "s1", "timestamp": TIME, "cwd": "/w"}]
    parent = None
    for number, message in enumerate(MESSAGES):
        entry_id = f"{number:08x}"
        lines.append({"type": "message", "id": entry_id, "parentId": parent, "timestamp": TIME, "message": message})
        parent = entry_id
    summary = {"summary": "short", "firstKeptEntryId": parent, "tokensBefore": 9, "timestamp": TIME}
    lines.append({"type": "compaction", "id": "ffffffff", "parentId": parent, **summary})
    path = tmp_path / "session.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return read_source(str(path), "/")


def trajectory_of(source: Source, folder: Path) -> dict[str, Any]:
    path = export_trajectory(source, None, cwd=str(folder), env={}, program_version="1")
    assert path == "pi-session-session.atif.json"
    read: dict[str, Any] = json.loads((folder / path).read_text(encoding="utf-8"))
    return read


def test_a_trajectory_has_a_step_for_each_message(source: Source, tmp_path: Path) -> None:
    found = trajectory_of(source, tmp_path)
    user, calling, lost, done, compaction = found["steps"]

    assert ("user", "Look at *this*") == (user["source"], user["message"])
    assert ("agent", "I look", "hm\nwell", "p/m") == tuple(
        calling[key] for key in ("source", "message", "reasoning_content", "model_name")
    )
    assert [{"path": "a"}, {"command": "false"}] == [call["arguments"] for call in calling["tool_calls"]]
    assert ["c1", "c2"] == [result["source_call_id"] for result in calling["observation"]["results"]]
    assert "[image: image/png]" in calling["observation"]["results"][0]["content"]
    assert {"prompt_tokens": 15, "completion_tokens": 4, "cached_tokens": 3, "cost_usd": 0.25} == calling["metrics"]
    assert ("system", "late", "system") == (lost["source"], done["extra"]["error"], compaction["source"])
    assert (30, 8, 0.5, 5) == tuple(
        found["final_metrics"][key]
        for key in ("total_prompt_tokens", "total_completion_tokens", "total_cost_usd", "total_steps")
    )


@pytest.fixture
def with_children(source: Source) -> Source:
    """The session, whose second call has started a sub-agent that has one of its own, and one that left no file."""
    left, gone = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
    lines = source.path.read_text(encoding="utf-8").splitlines()
    for number, agent in ((4, left), (5, gone)):
        entry = json.loads(lines[number])
        entry["message"]["details"] = {"agent": {"agentId": agent, "state": "completed"}}
        lines[number] = json.dumps(entry)
    for agent in (left, gone):
        begun = {"agentId": agent, "parentId": "s1", "toolCallId": "c2", "task": "t", "provider": "p", "model": "m"}
        head = {"type": "custom", "customType": "pinnace.child", "id": agent[-8:], "parentId": "ffffffff"}
        lines.insert(1, json.dumps({**head, "parentId": None, "timestamp": TIME, "data": begun}))
    source.path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    folder = source.path.with_suffix(".children")
    folder.mkdir()
    child = [
        {
            "type": "session",
            "version": 3,
            "id": left,
            "timestamp": TIME,
            "cwd": "/w",
            "parentSession": str(source.path),
        },
        {"type": "message", "id": "00000001", "parentId": None, "timestamp": TIME, "message": MESSAGES[0]},
    ]
    (folder / f"{left}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in child), encoding="utf-8")
    return read_source(str(source.path), "/")


def test_a_trajectory_contains_those_of_sub_agents(with_children: Source, tmp_path: Path) -> None:
    found = trajectory_of(with_children, tmp_path)
    results = [result for step in found["steps"] for result in step.get("observation", {"results": []})["results"]]
    references = [each["subagent_trajectory_ref"] for each in results if "subagent_trajectory_ref" in each]
    [contained] = found["subagent_trajectories"]

    assert [[contained["trajectory_id"]]] == [[each["trajectory_id"] for each in some] for some in references]
    assert ["Look at *this*"] == [step["message"] for step in contained["steps"]]
    assert 0.5 == found["final_metrics"]["total_cost_usd"]


@pytest.fixture
def with_started(with_children: Source) -> Source:
    """The same, where a client has started them."""
    lines = [json.loads(line) for line in with_children.path.read_text(encoding="utf-8").splitlines()]
    for entry in lines:
        if entry["type"] == "custom":
            del entry["data"]["toolCallId"]
        elif entry["type"] == "message":
            entry["message"].pop("details", None)
    with_children.path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return read_source(str(with_children.path), "/")


def test_one_that_a_client_has_started_is_contained_and_no_result_refers_to_it(
    with_started: Source, tmp_path: Path
) -> None:
    found = trajectory_of(with_started, tmp_path)

    assert "subagent_trajectory_ref" not in str(found["steps"])
    assert ["Look at *this*"] == [step["message"] for each in found["subagent_trajectories"] for step in each["steps"]]


@pytest.mark.skipif(not HARBOR.exists(), reason="Harbor's models are not installed (scripts/peers)")
@pytest.mark.parametrize("source_of", ["with_children", "with_started"])
def test_harbor_accepts_a_trajectory(request: pytest.FixtureRequest, source_of: str, tmp_path: Path) -> None:
    trajectory_of(request.getfixturevalue(source_of), tmp_path)
    path = str(tmp_path / "pi-session-session.atif.json")
    judged = subprocess.run([HARBOR, "-c", JUDGE, path], capture_output=True, text=True, check=False)

    assert ("5 5\n", "") == (judged.stdout, judged.stderr)


def test_markdown_has_every_message_and_fences_that_hold(source: Source, tmp_path: Path) -> None:
    path = export_transcript(source, "out.md", cwd=str(tmp_path), env={})
    text = (tmp_path / path).read_text(encoding="utf-8")

    assert text.startswith("# Session s1\n")
    for part in ("Look at *this*", "> hm\n> well\n", "### Call of read", "Result of bash (error)", "**Error:** late"):
        assert part in text
    assert "````\n```\nx\n[image: image/png]\n````\n" in text
    assert "`````\n````\n`````\n" == fenced("````")


def test_a_session_file_gets_a_name_of_its_own(source: Source, tmp_path: Path) -> None:
    path = export_lines(source, None, cwd=str(tmp_path), env={})

    assert path == "pi-session-session.jsonl"
    assert len(MESSAGES) + 1 == len(read_source(path, str(tmp_path)).entries)


def test_a_session_without_messages_is_no_trajectory(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(json.dumps({"type": "session", "version": 3, "id": "s1", "timestamp": TIME, "cwd": "/"}) + "\n")
    with pytest.raises(errors.ClientError):
        trajectory_of(read_source(str(path), "/"), tmp_path)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--format", "markdown"], 0, "Exported to: pi-session-session.md\n"),
        (["--format", "atif", "here.json"], 0, "Exported to: here.json\n"),
        (["--format", "pdf"], 2, "--format takes one of html, jsonl, markdown, atif"),
        (["--format", "atif", "--export-branch", "all"], 2, "--export-branch all is not supported with --format atif"),
    ],
)
def test_the_command_line_chooses(source: Source, tmp_path: Path, words: list[str], code: int, text: str) -> None:
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "--export", str(source.path), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert code == done.returncode
    assert text in done.stdout + done.stderr


@pytest.mark.parametrize(("ms", "time"), [(10**20, TIME), (-(10**15), None), (1.5, "1970-01-01T00:00:00.001Z")])
def test_a_session_with_odd_times_and_half_a_surrogate_pair_is_exported(
    tmp_path: Path, ms: float, time: str | None
) -> None:
    message = {"role": "user", "content": "half \ud800 of a pair", "timestamp": ms}
    entry = {"type": "message", "id": "00000001", "parentId": None, "timestamp": TIME, "message": message}
    lines = [{"type": "session", "version": 3, "id": "s1", "timestamp": TIME, "cwd": "/"}, entry]
    (tmp_path / "session.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    source = read_source("session.jsonl", str(tmp_path))
    [step] = trajectory_of(source, tmp_path)["steps"]
    export_transcript(source, "out.md", cwd=str(tmp_path), env={})

    assert "half ? of a pair" == step["message"]
    assert time == step.get("timestamp")
    assert "half ? of a pair" in (tmp_path / "out.md").read_text(encoding="utf-8")
