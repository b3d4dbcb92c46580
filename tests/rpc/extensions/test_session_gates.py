"""Gates hold in every session of a process: they are those of the command line, whatever folder a session names."""

import json
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import MakeExtension, Start, call

MORE = {"text": "more"}
GATE = """
def extension(pi):
    @pi.command("mine")
    async def mine(ctx, args):
        ctx.ui.notify("{name}")

    @pi.on("tool_call")
    def gate(ctx, event):
        return {{"block": True, "reason": "{name} says no"}}
"""
HOSTILE = """
from pathlib import Path
Path({mark!r}).touch()

def extension(pi):
    pass
"""
SKILL = "---\nname: {name}\ndescription: {name}\n---\nDo it.\n"


def other_session(folder: Path) -> Path:
    """Write a session that was begun in a folder."""
    header = {
        "type": "session",
        "version": 3,
        "id": "other",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": str(folder),
    }
    path = folder / "other.jsonl"
    path.write_text(json.dumps(header) + "\n", encoding="utf-8")
    return path


def test_paths_of_the_command_line_mean_the_folder_of_the_start(extended: Start, tmp_path: Path) -> None:
    """A session may work in any folder; `-e gate.py` is not the file of that name there."""
    mark = tmp_path / "ran"
    start, hostile = tmp_path / "agent-1" / "work", tmp_path / "hostile"
    for folder, name in ((start, "trusted"), (hostile, "hostile")):
        (folder / "kept").mkdir(parents=True)
        text = GATE.format(name=name) if folder is start else HOSTILE.format(mark=str(mark))
        (folder / "gate.py").write_text(text, encoding="utf-8")
        (folder / "skill.md").write_text(SKILL.format(name=f"{name}-skill"), encoding="utf-8")
        (folder / f"{name}.md").write_text("Go.", encoding="utf-8")
        (folder / "prompts").mkdir()
        (folder / "prompts" / f"{name}-prompt.md").write_text("Go.", encoding="utf-8")
    paths = ["--skill", "skill.md", "--prompt-template", "prompts", "--session-dir", "kept", "--log-file", "log.jsonl"]
    script = [call("bash", command=f"touch {mark}"), MORE]
    one = extended([], script, "-e", "gate.py", *paths, has_session=True)

    def names() -> set[str]:
        return {each["name"] for each in one.pi.ask("get_commands")["commands"]}

    known = names()
    assert start / "kept" == Path(one.pi.ask("get_state")["sessionFile"]).parent
    one.pi.ask("switch_session", sessionPath=str(other_session(hostile)))
    assert str(hostile) == one.pi.ask("get_state")["cwd"]
    assert {"mine", "skill:trusted-skill", "trusted-prompt"} == known == names()
    one.say("go")

    assert ["trusted says no"] == one.read
    assert not mark.exists()
    one.pi.ask("new_session")
    one.say("and here")
    assert hostile in (Path(one.pi.ask("get_state")["sessionFile"]).parents)
    assert (start / "log.jsonl").exists()
    assert not (hostile / "log.jsonl").exists()
    assert not mark.exists()


def test_no_tool_runs_when_the_gate_of_the_command_line_is_gone(extended: Start, written: MakeExtension) -> None:
    gate = written(GATE.format(name="gate"))
    one = extended(gate, [call("write", path="made.txt", content="x"), MORE])
    one.pi.ask("get_state")  # answered when it has begun
    gate.unlink()
    one.pi.ask("new_session")
    one.say("write")

    [(text, is_error)] = one.ends
    assert is_error
    assert text.startswith(f"Not executed: extensions that may guard tools are missing: {gate}: does not exist.")
    assert not (one.work / "made.txt").exists()
    problems = [error for event, error in one.errors if event == "load"]
    assert [True, True] == [str(gate) in problem or "does not exist" in problem for problem in problems]
    response = one.pi.request({"type": "bash", "command": "touch made.txt"})
    assert "refused_by_extension" == response["errorCode"]
    assert not (one.work / "made.txt").exists()


def test_read_only_holds_after_a_setup_that_raises(extended: Start, written: MakeExtension) -> None:
    text = """
        def extension(pi):
            @pi.command("fresh")
            async def fresh(ctx, args):
                def setup(session):
                    raise ValueError("no such template")
                await ctx.new_session(setup=setup)
    """
    script = [call("write", path="made.txt", content="x"), MORE]
    one = extended(written(text), script, "--tool-approval", "read-only")
    before = one.pi.ask("get_state")["sessionId"]
    one.command("/fresh")

    assert [
        (
            "command",
            "RuntimeError: The session was not replaced: its setup failed: no such template (written_1.py, line 7)",
        )
    ] == one.errors
    assert before == one.pi.ask("get_state")["sessionId"]
    one.say("write")
    [(result, is_error)] = one.ends
    assert is_error
    assert result.startswith("write was not run: this session is read-only")
    assert not (one.work / "made.txt").exists()


@pytest.fixture
def gated_project(tmp_path: Path) -> Path:
    """A folder whose project brings a gate."""
    folder = tmp_path / "project" / ".pi" / "extensions"
    folder.mkdir(parents=True)
    (folder / "gate.py").write_text(GATE.format(name="project"), encoding="utf-8")
    return tmp_path / "project"


@pytest.mark.parametrize("is_named", [False, True])
def test_a_project_that_is_opened_later_brings_its_gates(extended: Start, gated_project: Path, is_named: bool) -> None:
    """The process has begun without any extension; the project is trusted."""
    settings = gated_project / ".pi"
    if is_named:
        (settings / "extensions").rename(settings / "named")
        (settings / "settings.json").write_text('{"extensions": ["named/gate.py"]}', encoding="utf-8")
    write = call("write", path="made.txt", content="x")
    one = extended([], [write, MORE, write, MORE], files={"trust.json": {str(gated_project): True}})
    one.say("write")
    assert [False] == [is_error for _, is_error in one.ends]
    one.pi.ask("switch_session", sessionPath=str(other_session(gated_project)))
    one.say("write")

    assert ("project says no", True) == one.ends[-1]
    assert not (gated_project / "made.txt").exists()
    one.command("/mine")
    assert "project" == one.notice()


def test_a_session_that_is_gone_on_with_has_the_gates_of_its_project(extended: Start, gated_project: Path) -> None:
    """The process is started in another folder, where nothing brings extensions."""
    path = other_session(gated_project)
    script = [call("write", path="made.txt", content="x"), MORE]
    trusted = {"trust.json": {str(gated_project): True}}
    one = extended([], script, "--session", str(path), has_session=True, files=trusted)
    one.say("write")

    assert [("project says no", True)] == one.ends
    assert not (gated_project / "made.txt").exists()
