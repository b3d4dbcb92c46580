"""What an agent and the terminal client take from packages."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rpc.packages.conftest import skill

from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_rpc.cli.terminal import theme_files
from pinnace_tui.content.look import LOOKS
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

    write(folder, {"themes/mine.json": theme("mine", "#111111")})
    write(folder / "one", {"themes/a.json": theme("mine", "#222222"), "themes/b.json": theme("both", "#333333")})
    write(folder / "two", {"themes/b.json": theme("both", "#444444"), "themes/c.json": theme("left-out", "#555555")})
    packages = ["one", {"source": "two", "themes": ["!c.json"]}]
    (folder / "settings.json").write_text(json.dumps({"packages": packages}))
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(folder)}
    files, problems = theme_files(env)
    assert [] == problems
    assert {"mine": "#111111", "both": "#333333"} == accents(files)


def test_a_project_brings_themes_of_its_own_and_of_its_packages(tmp_path: Path) -> None:
    """As in pi: its own before the user's, those of packages last; a pipe and a folder are none, and neither are links
    to elsewhere; the agent folder is no project's."""
    folder, project = tmp_path / "agent", tmp_path / "project"
    write(folder, {"themes/mine.json": theme("mine", "#111111"), "themes/both.json": theme("both", "#222222")})
    write(folder / "tools", {"themes/c.json": theme("c", "#666666"), "themes/d.json": theme("d", "#777777")})
    (folder / "settings.json").write_text(json.dumps({"packages": ["tools"]}))
    package = {"package/themes/b.json": theme("mine", "#444444"), "package/themes/c.json": theme("c", "#555555")}
    write(project / ".pi", {"themes/a.json": theme("both", "#333333"), **package})
    (project / ".pi" / "settings.json").write_text(json.dumps({"packages": ["./package"]}))
    os.mkfifo(project / ".pi" / "themes" / "pipe.json")
    (project / ".pi" / "themes" / "folder.json").mkdir()
    (project / ".pi" / "themes" / "link.json").symlink_to(folder / "themes" / "mine.json")
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(folder)}
    files, problems = theme_files(env, str(project))
    assert {"both": "#333333", "mine": "#111111", "c": "#555555", "d": "#777777"} == accents(files)
    [problem] = problems
    assert problem.startswith(f"{project / '.pi' / 'themes' / 'link.json'}: ")
    assert theme_files(env) == theme_files({**env, "PI_CODING_AGENT_DIR": str(folder)}, str(tmp_path / "none"))
    own = {**env, "PI_CODING_AGENT_DIR": str(project / ".pi")}
    assert theme_files(own) == theme_files(own, str(project))


def test_settings_name_themes_of_the_user_and_of_a_project(tmp_path: Path) -> None:
    """Files, folders with those below them, and patterns; of equal names the first counts, the project's before."""
    folder, project = tmp_path / "agent", tmp_path / "project"
    write(folder, {"themes/same.json": theme("same", "#000001"), "themes/out.json": theme("out", "#000002")})
    write(folder, {"themes/below/deep.json": theme("not-found", "#000003"), "one.json": theme("same", "#000004")})
    write(folder, {"more/a.json": theme("a", "#000005"), "more/below/b.json": theme("b", "#000006")})
    write(folder, {"more/notes.md": "", "more/.hidden.json": theme("hidden", "#000007")})
    named = ["one.json", "more", "!out.json", "!more/a.json"]
    (folder / "settings.json").write_text(json.dumps({"themes": named}))
    write(project / ".pi", {"themes/b.json": theme("b", "#000008"), "looks/c.json": theme("same", "#000009")})
    (project / ".pi" / "settings.json").write_text(json.dumps({"themes": ["looks", "*.json"]}))
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(folder)}
    files, problems = theme_files(env)
    assert [] == problems
    assert [folder / "one.json", folder / "more/below/b.json", folder / "themes/same.json"] == list(map(Path, files))
    assert {"same": "#000004", "b": "#000006"} == accents(files)
    both, problems = theme_files(env, str(project))
    assert [] == problems
    assert [project / ".pi/looks/c.json", project / ".pi/themes/b.json", *map(Path, files)] == list(map(Path, both))
    assert {"same": "#000009", "b": "#000008"} == accents(both)


def test_what_is_wrong_with_the_setting_of_themes_costs_itself_alone(tmp_path: Path) -> None:
    write(tmp_path, {"themes/mine.json": theme("mine", "#111111"), "settings.json": json.dumps({"themes": ["*.json"]})})
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path)}
    files, problems = theme_files(env)
    assert {"mine": "#111111"} == accents(files)
    assert [
        f"{tmp_path / 'settings.json'}: a pattern alone names nothing: it chooses among what other entries name"
    ] == problems


def theme(name: str, color: str) -> str:
    """A theme with one colour."""
    return json.dumps({"name": name, "colors": {"accent": color}})


def accents(files: Sequence[str]) -> dict[str, str]:
    """The colours of the themes of files, by name."""
    looks, problems = read_looks(files)
    assert [] == problems
    return {look.name: look["accent"] for look in looks if look not in LOOKS}
