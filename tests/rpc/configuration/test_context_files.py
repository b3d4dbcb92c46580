"""Context files and the words of a folder in the prompt that a model gets."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

ANSWERS = ({"text": "one"}, {"text": "two"}, {"text": "three"})


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def first(agent: AgentStarter) -> HomedAgent:
    started = agent(ANSWERS, has_session=True)
    started.check_end()
    write(started.home.agent_dir, {"AGENTS.md": "Of the user."})
    write(started.home.work, {"AGENTS.md": "Of the project.", ".git/HEAD": "x"})
    return started


def prompts(running: HomedAgent) -> list[str]:
    """Return the system prompt of each request."""
    return [request.body["messages"][0]["content"] for request in running.llm.requests]


def test_a_model_is_shown_what_the_folders_say(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)
    running.say("go")
    (prompt,) = prompts(running)
    place = prompt.index(f'<project_instructions path="{running.home.agent_dir}/AGENTS.md">\nOf the user.\n</')
    assert place < prompt.index(f'<project_instructions path="{running.home.work}/AGENTS.md">\nOf the project.\n</')


def test_without_context_files_it_is_not(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent([], "-nc", again=first)
    running.say("go")
    assert "project_context" not in prompts(running)[0]


def test_the_prompt_stays_the_same_as_long_as_the_conversation(agent: AgentStarter, first: HomedAgent) -> None:
    """Or a model's server would have to read the whole conversation again."""
    running = agent(again=first)
    running.say("go")
    write(running.home.work, {"AGENTS.md": "Changed.", "CLAUDE.md": "New."})
    write(running.home.agent_dir, {"SYSTEM.md": "New."})
    running.say("on")
    running.ask("clone")
    running.say("on")
    one, *others = prompts(running)
    assert [one, one] == others


def test_another_conversation_begins_with_what_is_there_now(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)
    running.say("go")
    write(running.home.work, {"AGENTS.md": "Changed."})
    running.ask("new_session")
    running.say("go")
    old, new = prompts(running)
    assert old.replace("Of the project.", "Changed.") == new


def test_the_folder_of_the_session_decides(agent: AgentStarter, first: HomedAgent) -> None:
    other = first.home.root / "other"
    write(other, {"AGENTS.md": "Of the other.", ".git/HEAD": "x", ".pi/SYSTEM.md": "Of whom?", ".pi/prompts/o.md": "b"})
    header = {
        "type": "session",
        "version": 3,
        "id": "other",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": str(other),
    }
    write(other, {"s.jsonl": json.dumps(header) + "\n"})
    running = agent([], "--approve", again=first)
    running.say("go")
    running.ask("switch_session", sessionPath=str(other / "s.jsonl"))
    running.say("go")
    here, there = prompts(running)
    assert not running.ask("get_state")["projectTrusted"]
    assert ("Of the project." in here, "Of the project." in there, "Of the other." in there) == (True, False, True)
    # The flag speaks of the folder that the process was started in.
    assert ("Of whom?" not in there, []) == (True, running.ask("get_commands")["commands"])
    running.check_end()
    assert f"{other}: this project is not trusted, so what it brings is not read" in running.stderr_text


def test_a_session_that_is_gone_on_with_has_its_own_folders_words(agent: AgentStarter, first: HomedAgent) -> None:
    other = first.home.root / "other"
    header = {
        "type": "session",
        "version": 3,
        "id": "other",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": str(other),
    }
    write(other, {"AGENTS.md": "Of the other.", "s.jsonl": json.dumps(header) + "\n"})
    running = agent([], "--session", str(other / "s.jsonl"), again=first)
    running.say("go")
    (prompt,) = prompts(running)
    assert ("Of the other." in prompt, "Of the project." in prompt) == (True, False)


def test_the_users_words_stand_in_for_the_built_in_prompt(agent: AgentStarter, first: HomedAgent) -> None:
    write(first.home.agent_dir, {"SYSTEM.md": "Be a pirate.\n", "APPEND_SYSTEM.md": "Arr.\n"})
    write(first.home.work, {".pi/SYSTEM.md": "Be a parrot.\n"})
    agent(again=first).say("go")
    agent([], "--approve", again=first).say("go")
    last = agent([], "--system-prompt", "Be you.", "--append-system-prompt", "Please.", again=first)
    last.say("go")
    starts = [
        "Be a pirate.\n\n<addendum>\nArr.\n</",
        "Be a parrot.\n\n<addendum>\nArr.\n</",
        "Be you.\n\n<addendum>\nPlease.",
    ]
    assert [True] * 3 == [prompt.startswith(start) for prompt, start in zip(prompts(last), starts, strict=True)]


def test_s4_a_file_that_anybody_may_have_written_is_not_sent_and_that_is_reported(
    agent: AgentStarter, first: HomedAgent
) -> None:
    shared = first.home.root / "AGENTS.md"
    shared.write_text("Of anybody.")
    shared.chmod(0o666)
    running = agent(again=first)
    running.say("go")
    assert "Of anybody." not in prompts(running)[0]
    running.check_end()
    assert f"pinnace: {shared}: may be written by anybody, so it is not read\n" in running.stderr_text


def test_s4_a_link_of_an_untrusted_repository_to_secrets_is_not_sent_and_that_is_reported(
    agent: AgentStarter, first: HomedAgent
) -> None:
    work, agent_dir = first.home.work, first.home.agent_dir
    (agent_dir / "auth.json").write_text('{"other": {"type": "api_key", "key": "SECRET"}}')
    targets = {
        "AGENTS.md": "/proc/self/environ",
        "a/CLAUDE.md": str(agent_dir / "auth.json"),
        "a/b/AGENTS.md": "../../../x",
    }
    write(first.home.root, {"x": "SECRET"})
    (work / "AGENTS.md").unlink()
    for name, target in targets.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).symlink_to(target)
    header = {
        "type": "session",
        "version": 3,
        "id": "below",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": str(work / "a" / "b"),
    }
    write(work, {"s.jsonl": json.dumps(header) + "\n"})
    running = agent([], "--no-approve", "--session", str(work / "s.jsonl"), again=first)
    running.say("go")
    assert not {"SECRET", "PATH="} & set(re.findall("SECRET|PATH=", prompts(running)[0]))
    running.check_end()
    for name in targets:
        assert f"pinnace: {work}/{name}: leads to " in running.stderr_text
    assert running.stderr_text.count(", so it is not read\n") == len(targets)


def test_skills_are_listed_to_models_but_for_hidden_ones(agent: AgentStarter, first: HomedAgent) -> None:
    skill = "---\nname: {}\ndescription: <{}>\n{}---\nb\n"
    more = "disable-model-invocation: true\n"
    files = {f"skills/{name}/SKILL.md": skill.format(name, name, text) for name, text in (("a", ""), ("b", more))}
    write(first.home.agent_dir, files)
    running = agent(again=first)
    running.say("go")
    agent([], "--tools", "edit", again=first).say("go")
    with_read, without = prompts(running)
    assert "<description>&lt;a&gt;</description>" in with_read
    assert ("&lt;b&gt;" in with_read, "available_skills" in without) == (False, False)


def test_a_client_replaces_the_additional_folders(agent: AgentStarter, first: HomedAgent) -> None:
    """They are in the next request with their context files, and no more in those after another `hello`."""
    root = first.home.root
    for name in ("one", "two"):
        write(root / name, {"AGENTS.md": f"Of folder {name}."})
    (root / "link").symlink_to("two")
    running = agent([{"text": "on", "repeat": -1}], "--add-dir", str(root / "one"), again=first)
    running.say("go")
    wrong = running.request({"type": "hello", "directories": [str(root / "two"), str(root / "missing")]})
    assert wrong["errorCode"] == "invalid_field"
    assert "directories[1]" in wrong["error"]
    running.say("go")
    said = running.ask("hello", directories=[str(root / "two"), str(root / "link")])
    assert said["directories"] == [str((root / "two").resolve())]
    running.say("go")
    assert running.ask("hello", directories=[])["directories"] == []
    assert "directories" not in running.ask("hello")
    running.say("go")
    found = [[name for name in ("one", "two") if f"Of folder {name}." in prompt] for prompt in prompts(running)]
    assert found == [["one"], ["one"], ["two"], []]
