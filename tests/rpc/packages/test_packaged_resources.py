"""What an agent and the terminal client take from packages."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tests.rpc.packages.conftest import skill

from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_rpc.cli.terminal import theme_files
from pinnace_tui.content.themes import read_looks

EXTENSION = """
def extension(pi):
    @pi.on("session_start")
    async def begun(ctx, event):
        ctx.ui.notify("NAME has begun")
"""


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_reload_takes_new_packages_and_drops_removed_ones(agent: AgentStarter) -> None:
    """Extensions, skills and warnings, as a start does."""
    pi = agent()
    tools = pi.home.agent_dir / "tools"
    write(tools, {"extensions/gate.py": EXTENSION.replace("NAME", "the gate"), **skill("first")})
    settings = pi.home.agent_dir / "settings.json"
    settings.write_text(json.dumps({"packages": ["tools", "npm:missing"]}))
    mark = pi.mark()
    pi.ask("reload")
    pi.wait({"type": "extension_ui_request", "method": "notify", "message": "the gate has begun"}, since=mark)
    names = {each["name"]: each["sourceInfo"] for each in pi.ask("get_commands")["commands"]}
    assert {
        "path": str(tools / "skills" / "first" / "SKILL.md"),
        "source": "tools",
        "scope": "user",
        "origin": "package",
        "baseDir": str(tools),
    } == names["skill:first"]
    texts = [each["text"] for each in pi.ask("get_state")["warnings"]]
    assert ["package npm:missing is not installed: pinnace install npm:missing"] == texts
    settings.write_text(json.dumps({"packages": []}))
    pi.ask("reload")
    assert "skill:first" not in {each["name"] for each in pi.ask("get_commands")["commands"]}
    assert "npm:missing" not in str(pi.ask("get_state")["warnings"])


def test_the_terminal_client_has_the_themes_of_packages(tmp_path: Path) -> None:
    """The user's own take precedence, and of two packages the first; a filter counts."""
    folder = tmp_path / "agent"

    def theme(name: str, color: str) -> str:
        return json.dumps({"name": name, "colors": {"accent": color}})

    write(folder, {"themes/mine.json": theme("mine", "#111111")})
    write(folder / "one", {"themes/a.json": theme("mine", "#222222"), "themes/b.json": theme("both", "#333333")})
    write(folder / "two", {"themes/b.json": theme("both", "#444444"), "themes/c.json": theme("left-out", "#555555")})
    packages = ["one", {"source": "two", "themes": ["!c.json"]}]
    (folder / "settings.json").write_text(json.dumps({"packages": packages}))
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(folder)}
    looks, problems = read_looks(folder / "themes", theme_files(env))
    assert [] == problems
    accents = {look.name: look["accent"] for look in looks}
    assert {"mine": "#111111", "both": "#333333"} == {name: accents[name] for name in ("mine", "both")}
    assert "left-out" not in accents


def test_a_project_brings_themes_of_its_own_and_of_its_packages(tmp_path: Path) -> None:
    """They take precedence over the user's; a pipe and a folder are no themes; the agent folder is no project's."""
    folder, project = tmp_path / "agent", tmp_path / "project"

    def theme(name: str, color: str) -> str:
        return json.dumps({"name": name, "colors": {"accent": color}})

    write(folder, {"themes/mine.json": theme("mine", "#111111"), "themes/both.json": theme("both", "#222222")})
    write(project / ".pi", {"themes/a.json": theme("both", "#333333"), "package/themes/b.json": theme("b", "#444444")})
    (project / ".pi" / "settings.json").write_text(json.dumps({"packages": ["./package"]}))
    os.mkfifo(project / ".pi" / "themes" / "pipe.json")
    (project / ".pi" / "themes" / "folder.json").mkdir()
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(folder)}
    looks, problems = read_looks(folder / "themes", theme_files(env), theme_files(env, str(project)))
    accents = {look.name: look["accent"] for look in looks}
    assert ("#111111", "#333333", "#444444") == (accents["mine"], accents["both"], accents["b"])
    assert 2 == len(problems)
    assert all("it is no file" in each for each in problems)
    assert [] == theme_files({**env, "PI_CODING_AGENT_DIR": str(project / ".pi")}, str(project))
