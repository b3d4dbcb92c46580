"""Prompt templates and skills on the wire: what a text becomes, where it is seen, and what clients are told of them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.profiles.profiles import ClientProfile, Profile

TEMPLATE: Final = "---\ndescription: Say it\n---\nSay $1, then ${2:-nothing}.\n"
SKILL: Final = "---\nname: pdf\ndescription: Reads PDF files\n---\n\nUse tools.\n"
HIDDEN: Final = "---\nname: hidden\ndescription: h\ndisable-model-invocation: true\n---\nSecret.\n"
EXTENSION: Final = """
def extension(pi):
    @pi.command("given")
    async def given(ctx, args):
        pass
"""
HELD: Final = {"text": [{"gate": "g"}, "x"]}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def first(agent: AgentStarter) -> HomedAgent:
    """An agent in a home that gets templates and skills when it has ended."""
    started = agent([HELD, {"text": "done"}, {"text": "done"}, {"text": "done"}], has_session=True)
    started.check_end()
    files = {"prompts/say.md": TEMPLATE, "skills/pdf/SKILL.md": SKILL, "skills/hidden/SKILL.md": HIDDEN}
    write(started.home.agent_dir, files)
    return started


def skill_text(running: HomedAgent, arguments: str = "") -> str:
    folder = running.home.agent_dir / "skills" / "pdf"
    block = (
        f'<skill name="pdf" location="{folder}/SKILL.md">\nReferences are relative to {folder}.\n\nUse tools.\n</skill>'
    )
    return f"{block}\n\n{arguments}" if arguments else block


def users(running: HomedAgent) -> list[str]:
    """Return the texts that the model has seen of the user, in its last request."""
    (request,) = running.llm.requests[-1:]
    texts: list[str] = []
    for message in request.body["messages"]:
        if message["role"] == "user":
            content = message["content"]
            texts.append(content if isinstance(content, str) else content[0]["text"])
    return texts


def test_a_prompt_is_expanded_before_anybody_sees_it(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)
    running.ask("prompt", message='/say "hello you"')
    running.llm.release("g")
    running.wait({"type": "agent_settled"})
    text = "Say hello you, then nothing."
    (start,) = running.found({"type": "message_start", "message": {"role": "user"}})
    assert [{"type": "text", "text": text}] == start["message"]["content"]
    assert [text] == users(running)
    running.check_end()
    (file,) = running.home.sessions.glob("*.jsonl")
    assert text in file.read_text()
    assert "/say" not in file.read_text()


@pytest.mark.parametrize("command", ["steer", "follow_up", "queue_message"])
def test_what_waits_is_expanded_where_it_waits(command: str, agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)
    running.ask("prompt", message="go")
    running.ask(command, message="/skill:pdf  report.pdf ")
    (update,) = running.found({"type": "queue_update"})
    assert [skill_text(running, "report.pdf")] == [*update["steering"], *update["followUp"]]
    running.llm.release("g")
    running.wait({"type": "agent_settled"})
    assert ["go", skill_text(running, "report.pdf")] == users(running)


def test_a_prompt_that_queues_is_expanded(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)
    running.ask("prompt", message="go")
    running.ask("prompt", message="/say a b", streamingBehavior="followUp")
    (update,) = running.found({"type": "queue_update"})
    assert ["Say a, then b."] == update["followUp"]
    assert ["Say a, then b."] == running.ask("abort", queue="clear")["cleared"]["followUp"]


@pytest.mark.parametrize(
    "text",
    [
        "/unknown x",
        "/skill:unknown x",
        "/skill:pdf\nx",
        "/SAY x",
        " /say x",
        "/say/x",
        "/",
        "/skill:",
        "say",
        "/say.md",
    ],
)
def test_a_name_that_nothing_has_is_a_text_like_any_other(text: str, agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)
    running.ask("prompt", message="go")
    running.ask("steer", message=text)
    (update,) = running.found({"type": "queue_update"})
    assert [text] == update["steering"]
    running.ask("abort")


def test_what_was_expanded_is_not_expanded_again(agent: AgentStarter, first: HomedAgent) -> None:
    write(first.home.agent_dir, {"prompts/twice.md": "/skill:pdf $1"})
    running = agent(again=first)
    running.ask("prompt", message="go")
    running.ask("steer", message="/twice /say")
    (update,) = running.found({"type": "queue_update"})
    assert ["/skill:pdf /say"] == update["steering"]
    running.ask("abort")


def test_a_skill_is_read_anew_and_a_template_is_not(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)
    running.ask("prompt", message="go")
    write(running.home.agent_dir, {"prompts/say.md": "other", "skills/pdf/SKILL.md": SKILL.replace("Use", "Use other")})
    running.ask("steer", message="/say a b")
    running.ask("steer", message="/skill:pdf")
    *_, update = running.found({"type": "queue_update"})
    assert ["Say a, then b.", skill_text(running).replace("Use", "Use other")] == update["steering"]
    running.ask("abort")


def remove(path: Path) -> None:
    path.unlink()


def block(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def grow(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def damage(path: Path) -> None:
    path.write_text("---\na: [\n---\n")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (remove, "can't be read: No such file or directory"),
        (block, "is no regular file"),
        (grow, "has more than 256 KiB"),
        (damage, "frontmatter is not YAML"),
    ],
)
def test_a_skill_that_can_not_be_read_is_reported_and_the_text_stays(
    change: object, error: str, agent: AgentStarter, first: HomedAgent
) -> None:
    running = agent(again=first)
    running.ask("prompt", message="go")
    path = running.home.agent_dir / "skills" / "pdf" / "SKILL.md"
    assert callable(change)
    change(path)
    mark = running.mark()
    running.ask("steer", message="/skill:pdf x")
    # The beginning of the run may be written behind the answer to its prompt.
    kinds = ("extension_error", "queue_update")
    told, update = [each.record for each in running.records[mark:] if each.record["type"] in kinds]
    assert ("extension_error", str(path), "skill_expansion") == (told["type"], told["extensionPath"], told["event"])
    assert told["error"].startswith(error)
    assert ["/skill:pdf x"] == update["steering"]
    running.ask("abort")


def test_a_template_that_would_fill_the_memory_is_reported_and_the_text_stays(
    agent: AgentStarter, first: HomedAgent
) -> None:
    write(first.home.agent_dir, {"prompts/bomb.md": "$@" * 100})
    running = agent(again=first)
    running.ask("prompt", message="go")
    text = f"/bomb {'x' * 500_000}"
    running.ask("steer", message=text)
    (told,) = running.found({"type": "extension_error"})
    assert ("template_expansion", "the text would be too long") == (told["event"], told["error"])
    (update,) = running.found({"type": "queue_update"})
    assert [text] == update["steering"]
    running.ask("abort")


# What clients are told.


def expected(running: HomedAgent) -> list[Record]:
    folder = str(running.home.agent_dir)
    rows = (
        ("say", "Say it", "prompt", "prompts/say.md"),
        ("skill:hidden", "h", "skill", "skills/hidden/SKILL.md"),
        ("skill:pdf", "Reads PDF files", "skill", "skills/pdf/SKILL.md"),
    )
    commands: list[Record] = []
    for name, description, source, path in rows:
        info = {"source": "auto", "scope": "user", "origin": "top-level", "baseDir": folder, "path": f"{folder}/{path}"}
        told = {"name": name, "description": description, "source": source, "location": "user"}
        commands.append({**told, "path": f"{folder}/{path}", "sourceInfo": info})
    return commands


@pytest.mark.parametrize("protocol", ["pi", "1.5"])
def test_commands_are_reported_in_both_generations_words(
    protocol: Profile, agent: AgentStarter, first: HomedAgent
) -> None:
    running = agent(again=first, protocol=protocol)
    assert expected(running) == running.ask("get_commands")["commands"]


def test_the_first_generation_has_its_own_words_alone(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first, protocol="seed")
    told = [{key: value for key, value in each.items() if key != "sourceInfo"} for each in expected(running)]
    assert told == running.ask("get_commands")["commands"]


@pytest.mark.parametrize("protocol", ["pi", "1.5", "seed", "0.5x"])
def test_a_command_of_an_extension_has_no_location(
    protocol: ClientProfile, agent: AgentStarter, first: HomedAgent
) -> None:
    """R-CMD-01: a location says which folder a file was found in by its name."""
    write(first.home.root, {"given.py": EXTENSION})
    running = agent([], "-e", str(first.home.root / "given.py"), again=first, protocol=protocol)
    commands = {each["name"]: each for each in running.ask("get_commands")["commands"]}

    assert "extension" == commands["given"]["source"]
    assert "location" not in commands["given"]
    assert "user" == commands["say"]["location"]


def test_the_hint_about_arguments_is_shown(agent: AgentStarter, first: HomedAgent) -> None:
    """R-STA-07."""
    write(first.home.agent_dir, {"prompts/review.md": "---\nargument-hint: '[focus]'\n---\nb"})
    commands = {each["name"]: each for each in agent(again=first).ask("get_commands")["commands"]}

    assert "[focus]" == commands.pop("review")["argumentHint"]
    assert not any("argumentHint" in each for each in commands.values())


def test_flags_leave_out_the_usual_ones_and_name_others(agent: AgentStarter, first: HomedAgent) -> None:
    write(first.home.root, {"given/t.md": "b", "given/s/SKILL.md": SKILL})
    given = str(first.home.root / "given")
    running = agent([], "-np", "-ns", "--prompt-template", given, "--skill", f"{given}/s", again=first)
    commands = running.ask("get_commands")["commands"]
    assert [("t", "path"), ("skill:pdf", "path")] == [(each["name"], each["location"]) for each in commands]
    info = {"source": "local", "scope": "temporary", "origin": "top-level"}
    assert {**info, "path": f"{given}/t.md", "baseDir": given} == commands[0]["sourceInfo"]


def test_what_a_project_brings_counts_when_it_is_trusted(agent: AgentStarter, first: HomedAgent) -> None:
    write(first.home.work, {".pi/prompts/say.md": "project $1", ".pi/settings.json": json.dumps({"prompts": ["../p"]})})
    write(first.home.work, {"p/deep/q.md": "b"})
    running = agent(again=first)
    assert ["say"] == [each["name"] for each in running.ask("get_commands")["commands"] if each["source"] == "prompt"]
    running.check_end()
    assert "this project is not trusted" in running.stderr_text
    running = agent([], "--approve", again=first)
    told = [(each["name"], each["location"]) for each in running.ask("get_commands")["commands"]]
    assert [("q", "project"), ("say", "project")] == told[:2]
    running.check_end()
    assert f"{running.home.agent_dir}/prompts/say.md: is not used: the prompt template say is" in running.stderr_text


# Another conversation.


def test_another_conversation_has_what_is_there_when_it_begins(agent: AgentStarter, first: HomedAgent) -> None:
    running = agent(again=first)

    def templates() -> list[str]:
        return [each["name"] for each in running.ask("get_commands")["commands"] if each["source"] == "prompt"]

    assert ["say"] == templates()
    write(running.home.agent_dir, {"prompts/new.md": "b", "prompts/bad.md": "---\na: [\n---\n"})
    assert ["say"] == templates()
    running.ask("new_session")
    assert ["new", "say"] == templates()
    running.ask("new_session")
    running.check_end()
    assert 1 == running.stderr_text.count("bad.md: frontmatter is not YAML")
