"""The entries of `prompts` and `skills` in settings: what release 1.5.2 of the original makes of them.

A star behind a name says that settings named it.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.config.path_entries import PathEntries
from pinnace_agent.config.settings import read_settings
from pinnace_agent.prompting.folder_resources import FolderReader, FolderResources, ResourceChoice

SKILLS = {"skills/k": "k", "skills/g/l": "l", "cs/m": "m", "cs/n/o": "o", "sk1": "sk1", "sk1/sub": "sk1sub"}
ROOT_SKILLS = {"skills/r.md": "r", "cs/q.md": "q", "cs/n/p.md": "p"}
TEMPLATES = "prompts/x prompts/y prompts/z/w cp/a cp/b cp/n/c cp/.h/d cp/node_modules/e one".split()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("patterns")
    files = {f"{name}.md": "body" for name in TEMPLATES}
    files |= {f"{place}/SKILL.md": name for place, name in SKILLS.items()} | ROOT_SKILLS
    for place, name in files.items():
        path = root / "agent" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: d\n---\nbody\n")
    (root / "work" / ".pi" / "prompts").mkdir(parents=True)
    return root


def read(root: Path, user: object, project: object) -> FolderResources:
    (root / "agent" / "settings.json").write_text(json.dumps(user))
    (root / "work" / ".pi" / "settings.json").write_text(json.dumps(project))
    settings = read_settings(root / "agent" / "settings.json", root / "work" / ".pi" / "settings.json").settings
    env = {"HOME": str(root / "home"), "PI_CODING_AGENT_DIR": str(root / "agent")}
    choice = ResourceChoice(approved=True, has_context_files=False)
    return FolderReader(choice, settings, env, root / "work").read(str(root / "work"))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["cp"], "a* b* c* x y"),
        (["cp/*.md"], "x y"),
        (["cp/n"], "c* x y"),
        (["one.md", "cp"], "one* a* b* c* x y"),
        (["cp", "cp/a.md"], "a* b* c* x y"),
        (["!x.md"], "y"),
        (["!prompts/x.md"], "y"),
        (["!**/x.md"], "y"),
        (["-prompts/x.md"], "y"),
        (["-x.md"], "x y"),
        (["-prompts/x"], "x y"),
        (["!*", "+prompts/x.md"], "x"),
        (["!prompts/*", "+prompts/x.md"], "x"),
        (["+prompts/z/w.md"], "x y"),
        (["+cp/a.md"], "x y"),
        (["cp", "!cp/a.md"], "b* c* x y"),
        (["cp", "!a.md"], "b* c* x y"),
        (["cp", "-cp/a.md"], "b* c* x y"),
        (["cp", "-cp/*"], "a* b* c* x y"),
        (["prompts/y.md"], "y* x"),
        (["cp", "!cp/**", "+cp/n/c.md"], "c* x y"),
        (["cp/**/c.md"], "x y"),
        (["cp", "[ab].md"], "a* b* c* x y"),
        (["cp", "!cp/**", "+cp/n/c.md", "-cp/n/c.md"], "x y"),
    ],
)
def test_entries_name_these_templates(entries: list[str], expected: str, root: Path) -> None:
    found = read(root, {"prompts": entries}, {}).templates.values()
    assert expected.split() == [each.name + "*" * (each.origin.source == "local") for each in found]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["cs"], "m* o* q* l k r"),
        (["!k"], "l r"),
        (["!skills/k"], "l r"),
        (["-skills/k"], "l r"),
        (["-skills/k/SKILL.md"], "l r"),
        (["!**/SKILL.md"], "r"),
        (["!*"], ""),
        (["!**"], ""),
        (["sk1"], "sk1* l k r"),
        (["sk1/SKILL.md"], "sk1* l k r"),
        (["cs", "!q.md"], "m* o* l k r"),
        (["cs/*"], "l k r"),
        (["cs/q.md"], "q* l k r"),
        (["!g/**"], "l k r"),
        (["!skills/g/**"], "k r"),
        (["cs", "!cs/n/**"], "m* q* l k r"),
    ],
)
def test_entries_name_these_skills(entries: list[str], expected: str, root: Path) -> None:
    found = read(root, {"skills": entries}, {}).skills.values()
    assert expected.split() == [each.name + "*" * (each.origin.source == "local") for each in found]


@pytest.mark.parametrize("entry", ["!x.md", "-../../agent/prompts/x.md", "+x.md", "!**"])
def test_what_a_project_leaves_out_is_its_own(entry: str, root: Path) -> None:
    assert ["x", "y"] == list(read(root, {}, {"prompts": [entry]}).templates)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["cp/*.md"], "a pattern alone names nothing: it chooses among what other entries name"),
        (["!["], "a pattern is damaged and left out"),
        (["!{a"], "a pattern is damaged and left out"),
    ],
)
def test_an_entry_without_a_meaning_is_reported(entries: list[str], problem: str, root: Path) -> None:
    read_ = read(root, {"prompts": entries}, {})
    assert [f"{root}/agent/settings.json: {problem}"] == list(read_.notices)
    assert ["x", "y"] == list(read_.templates)


@given(st.lists(st.text(st.sampled_from("!+-*?[]{}/.~ab\\,"), max_size=12), max_size=4))
def test_no_entry_is_too_odd(entries: list[str]) -> None:
    patterns = PathEntries(entries, "/folder", {"HOME": "/home"})
    for path in ("/folder/a/b.md", "/folder/a/SKILL.md", "/elsewhere/a.md"):
        patterns.keeps_named(path)
        patterns.keeps_found(path)
