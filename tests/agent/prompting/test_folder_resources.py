"""The resources of a working folder: skills, templates and texts for the prompt; their precedence and trust."""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinnace_agent.config.settings import read_settings
from pinnace_agent.files.text_file import MAX_TEXT_BYTES
from pinnace_agent.prompting.folder_resources import FolderReader, FolderResources, ResourceChoice
from pinnace_agent.search.resource_files import MAX_NAMES

USUAL = ResourceChoice(approved=True, has_context_files=False)
UNTRUSTED = USUAL._replace(approved=False)


class Tree:
    """A home, an agent folder and a project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.agent_dir, self.work = root / "home", root / "agent", root / "work"
        for folder in (self.home, self.agent_dir, self.work / ".git"):
            folder.mkdir(parents=True, exist_ok=True)
        self.env = {"HOME": str(self.home), "PI_CODING_AGENT_DIR": str(self.agent_dir)}

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files, by their paths below the root."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, choice: ResourceChoice = USUAL, cwd: Path | None = None) -> FolderResources:
        project = self.work / ".pi" / "settings.json" if choice.approved else None
        settings = read_settings(self.agent_dir / "settings.json", project).settings
        return FolderReader(choice, settings, self.env, self.work).read(str(cwd or self.work))

    def skills(self, choice: ResourceChoice = USUAL, cwd: Path | None = None) -> dict[str, str]:
        """Return the skills' paths by name."""
        return {each.name: os.path.relpath(each.path, self.root) for each in self.read(choice, cwd).skills.values()}

    def templates(self, choice: ResourceChoice = USUAL) -> dict[str, str]:
        """Return the templates' paths by name."""
        return {each.name: os.path.relpath(each.path, self.root) for each in self.read(choice).templates.values()}

    def notices(self, choice: ResourceChoice = USUAL, cwd: Path | None = None) -> list[str]:
        """Return what is expected, without the folder."""
        return [notice.replace(f"{self.root}/", "") for notice in self.read(choice, cwd).notices]


def skill(name: str | None = None, description: str = "d", more: str = "") -> str:
    head = "" if name is None else f"name: {name}\n"
    return f"---\n{head}description: {description}\n{more}---\nbody of {name}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_folder_without_anything_adds_nothing(tree: Tree) -> None:
    assert FolderResources(notices=[]) == tree.read()


# Skills.


def test_a_skill_has_the_name_that_it_says_or_that_of_its_folder(tree: Tree) -> None:
    tree.write(
        {"agent/skills/a/SKILL.md": skill("x"), "agent/skills/b/SKILL.md": skill(), "agent/skills/c.md": skill()}
    )
    assert {
        "x": "agent/skills/a/SKILL.md",
        "b": "agent/skills/b/SKILL.md",
        "skills": "agent/skills/c.md",
    } == tree.skills()


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("a-1", None),
        ("x" * 64, None),
        ("x" * 65, "its name has more than 64 characters"),
        ("Up", "its name should be of small letters"),
        ("a--b", "its name should be of small letters"),
        ("-a", "its name should be of small letters"),
        ("a b", "its name should be of small letters"),
    ],
)
def test_a_name_out_of_form_is_reported_and_used(name: str, warning: str | None, tree: Tree) -> None:
    tree.write({"agent/skills/s/SKILL.md": skill(name)})
    assert [name] == list(tree.skills())
    notices = tree.notices()
    assert (
        [] == notices
        if warning is None
        else [f"agent/skills/s/SKILL.md: {warning}"] == [notices[0][: len(warning) + 25]]
    )


@pytest.mark.parametrize(("length", "count"), [(1_024, 0), (1_025, 1)])
def test_a_description_that_is_too_long_is_reported_and_used(length: int, count: int, tree: Tree) -> None:
    tree.write({"agent/skills/s/SKILL.md": skill("s", "d" * length)})
    assert (["s"], count) == (list(tree.skills()), len(tree.notices()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\nname: s\n---\nb", "a skill must have a description"),
        ("---\nname: s\ndescription: ' '\n---\nb", "a skill must have a description"),
        ("---\nname: s\ndescription: 5\n---\nb", "a skill must have a description"),
        ("b", "a skill must have a description"),
        ("", "a skill must have a description"),
        ("---\nname: [\n---\nb", "frontmatter is not YAML"),
        ("x" * (MAX_TEXT_BYTES + 1), "has more than 256 KiB"),
        ('---\nname: "a\\e[2Jb"\ndescription: d\n---\n', "a name with control characters can't be typed"),
    ],
    ids=range(8),
)
def test_an_invalid_skill_is_reported_and_not_used(text: str, reason: str, tree: Tree) -> None:
    tree.write({"agent/skills/s/SKILL.md": text})
    assert {} == tree.skills()
    (notice,) = tree.notices()
    assert notice.startswith(f"agent/skills/s/SKILL.md: {reason}")
    assert notice.endswith(", so it is not used")


def test_markdown_beside_skills_is_none_and_nothing_to_report(tree: Tree) -> None:
    tree.write(
        {"agent/skills/README.md": "# Skills", "agent/skills/s/notes.md": skill(), "agent/skills/x.txt": skill()}
    )
    assert ({}, []) == (tree.skills(), tree.notices())


def test_only_true_hides_a_skill_from_models(tree: Tree) -> None:
    for name, value in (("a", "true"), ("b", "'true'"), ("c", "false")):
        tree.write({f"agent/skills/{name}/SKILL.md": skill(name, more=f"disable-model-invocation: {value}\n")})
    assert ["a"] == [each.name for each in tree.read().skills.values() if each.is_hidden]


def test_nothing_counts_below_a_skill_nor_in_dot_folders_nor_in_modules(tree: Tree) -> None:
    for place in ("a", "a/b", ".c", "node_modules/d", "e/f"):
        tree.write({f"agent/skills/{place}/SKILL.md": skill()})
    assert ["a", "f"] == list(tree.skills())


def test_ignore_files_count_from_where_they_stand(tree: Tree) -> None:
    rules = {"": "a/\nh.md/\n# b\n*.skip.md\n", "n/": "/c\n!d\n", "o/": "{e,f}\nx/\n!x\n[\n"}
    names = (".gitignore", ".ignore", ".fdignore")
    for (folder, text), name in zip(rules.items(), names, strict=True):
        tree.write({f"agent/skills/{folder}{name}": text})
    for place in ("a", "b", "n/a", "n/c", "n/d", "n/o/c", "o/e", "o/x"):
        name = place.replace("/", "-")
        tree.write({f"agent/skills/{place}/SKILL.md": skill(name)})
    tree.write({"agent/skills/g.skip.md": skill("g"), "agent/skills/h.md": skill("h")})
    assert ["b", "h", "n-d", "n-o-c", "o-e", "o-x"] == list(tree.skills())


def test_links_are_followed_once_and_loops_end(tree: Tree) -> None:
    tree.write({"elsewhere/s/SKILL.md": skill("s"), "agent/skills/t/SKILL.md": skill("t")})
    for name, target in (("a", "../../elsewhere"), ("b", "../../elsewhere"), ("loop", "."), ("gone", "nowhere")):
        (tree.agent_dir / "skills" / name).symlink_to(target)
    (tree.agent_dir / "skills" / "u.md").symlink_to("t/SKILL.md")
    assert {"s": "agent/skills/a/s/SKILL.md", "t": "agent/skills/t/SKILL.md"} == tree.skills()
    assert [] == tree.notices()


def test_what_is_no_regular_file_is_ignored(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tree.agent_dir / "skills" / name).mkdir(parents=True)
    os.mkfifo(tree.agent_dir / "skills" / "a" / "SKILL.md")
    (tree.agent_dir / "skills" / "b" / "SKILL.md").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(tree.agent_dir / "skills" / "c")  # the name of a socket is short
        listener.bind("SKILL.md")
        assert ({}, []) == (tree.skills(), tree.notices())


def test_an_endless_tree_is_abandoned_and_reported(tree: Tree) -> None:
    tree.write({"agent/skills/a/SKILL.md": skill()})
    crowd = tree.agent_dir / "skills" / "b"
    crowd.mkdir()
    for number in range(MAX_NAMES):
        os.link(tree.agent_dir / "skills" / "a" / "SKILL.md", crowd / f"{number}.txt")
    assert ["a"] == list(tree.skills())
    assert ["agent/skills: contains too many files, so not all of them were read"] == tree.notices()


def test_of_equal_names_the_first_counts_and_the_others_are_reported(tree: Tree) -> None:
    places = ("work/.pi/skills", "work/.agents/skills", "agent/skills", "home/.agents/skills")
    tree.write({f"{place}/s/SKILL.md": skill("s") for place in places})
    assert {"s": "work/.pi/skills/s/SKILL.md"} == tree.skills()
    expected = [f"{place}/s/SKILL.md: is not used: the skill s is work/.pi/skills/s/SKILL.md" for place in places[1:]]
    assert expected == tree.notices()


def test_skills_of_all_agents_are_folders_up_to_the_root_of_the_repository(tree: Tree) -> None:
    tree.write(
        {
            f"{place}/.agents/skills/{name}/SKILL.md": skill(name)
            for place, name in (("work/sub", "a"), ("work", "b"), (".", "c"), ("home", "d"))
        }
    )
    tree.write({"work/.agents/skills/e.md": skill("e"), "home/.agents/skills/f.md": skill("f")})
    reader = FolderReader(USUAL, read_settings(tree.agent_dir / "x").settings, tree.env, tree.work / "sub")
    assert ["a", "b", "d"] == list(reader.read(str(tree.work / "sub")).skills)


# Templates.


def test_a_template_is_a_file_of_the_folder_itself(tree: Tree) -> None:
    tree.write(
        {f"agent/prompts/{name}": "x" for name in ("b.md", "a-b.md", "Up.md", "sub/c.md", ".d.md", "e.txt", "f.MD")}
    )
    (tree.agent_dir / "prompts" / "link.md").symlink_to("b.md")
    assert ["Up", "a-b", "b", "link"] == list(tree.templates())


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\ndescription: said\n---\nbody", "said"),
        ("---\ndescription: 5\n---\nbody", "body"),
        ("\n \n  first\nsecond", "  first"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 60 + "..."),
        ("", ""),
        ("---\ndescription: n\nno end", "---"),
    ],
)
def test_a_template_is_described_by_its_first_line_if_by_nothing_else(text: str, description: str, tree: Tree) -> None:
    tree.write({"agent/prompts/t.md": text})
    assert description == tree.read().templates["t"].description


def test_a_hint_is_kept(tree: Tree) -> None:
    tree.write({"agent/prompts/t.md": "---\nargument-hint: '[x]'\n---\nb", "agent/prompts/u.md": "b"})
    assert ["[x]", None] == [each.argument_hint for each in tree.read().templates.values()]


def test_a_template_whose_name_would_command_a_terminal_is_reported_and_not_used(tree: Tree) -> None:
    tree.write({"agent/prompts/a\x1b]0;title\x07.md": "b"})
    assert {} == tree.templates()
    assert (
        "agent/prompts/a\ufffd]0;title\ufffd.md: a name with control characters can't be typed, so it is not used"
        == (tree.notices()[0])
    )


# Who is asked.


@pytest.fixture
def full(tree: Tree) -> Tree:
    """A tree in which everybody brings something."""
    tree.write(
        {
            "agent/settings.json": json.dumps({"prompts": ["more"], "skills": ["~/skills/s2"]}),
            "work/.pi/settings.json": json.dumps({"prompts": ["../p.md"], "skills": ["../skills"]}),
            "agent/more/deep/m.md": "b",
            "agent/prompts/u.md": "b",
            "agent/skills/s3/SKILL.md": skill(),
            "home/skills/s2/SKILL.md": skill(),
            "work/p.md": "b",
            "work/.pi/prompts/q.md": "b",
            "work/skills/s0/SKILL.md": skill(),
            "work/.pi/skills/s1/SKILL.md": skill(),
            "work/.pi/SYSTEM.md": "project",
            "agent/SYSTEM.md": "user",
            "work/.pi/APPEND_SYSTEM.md": "more of the project",
            "agent/APPEND_SYSTEM.md": "more of the user",
            "given/t.md": "b",
            "given/deep/not.md": "b",
            "given/s4/SKILL.md": skill(),
        }
    )
    return tree


def test_a_trusted_project_goes_first_and_settings_go_before_folders(full: Tree) -> None:
    given = USUAL._replace(templates=("../given",), skills=("../given/s4/SKILL.md",))
    assert ["p", "q", "m", "u", "t"] == list(full.templates(given))
    assert ["s0", "s1", "s2", "s3", "s4"] == list(full.skills(given))


def test_templates_of_a_project_are_in_either_folder_and_need_trust(tree: Tree) -> None:
    tree.write(
        {"work/.pi/prompts/a.md": "first", "work/.pi/agent/prompts/a.md": "second", "work/.pi/agent/prompts/b.md": "b"}
    )
    assert {"a": "work/.pi/prompts/a.md", "b": "work/.pi/agent/prompts/b.md"} == tree.templates()
    assert {} == tree.templates(UNTRUSTED)


def test_a_projects_templates_in_the_agent_folder_of_a_home_are_the_users_own(tree: Tree) -> None:
    tree.env["PI_CODING_AGENT_DIR"] = str(tree.work / ".pi" / "agent")
    tree.write({"work/.pi/agent/prompts/mine.md": "b"})
    assert {"mine": "work/.pi/agent/prompts/mine.md"} == tree.templates(UNTRUSTED)


def test_what_a_project_that_is_not_trusted_brings_is_not_read(full: Tree) -> None:
    read = full.read(UNTRUSTED)
    assert (["m", "u"], ["s2", "s3"]) == (list(read.templates), list(read.skills))
    assert ("user", ("more of the user",)) == (read.base, read.appended)


def test_without_the_usual_ones_those_of_the_command_line_are_left(full: Tree) -> None:
    choice = USUAL._replace(has_usual_skills=False, has_usual_templates=False, templates=("../given/t.md",))
    assert (["t"], []) == (list(full.templates(choice)), list(full.skills(choice)))


def test_where_each_comes_from_is_known(full: Tree) -> None:
    read = full.read(USUAL._replace(templates=("../given",)))
    root = str(full.root)
    assert [
        ("project", "local", None),
        ("project", "auto", f"{root}/work/.pi"),
        ("user", "local", None),
        ("user", "auto", f"{root}/agent"),
        ("temporary", "local", f"{root}/given"),
    ] == [tuple(each.origin)[:3] for each in read.templates.values()]


@pytest.mark.parametrize(
    ("word", "notice"),
    [("nope", "work/nope: does not exist"), ("../agent/settings.json", "agent/settings.json: is not a Markdown file")],
)
def test_a_missing_path_of_the_command_line_is_reported(word: str, notice: str, full: Tree) -> None:
    assert [notice] * 2 == full.notices(USUAL._replace(templates=(word,), skills=(word,)))


def test_what_is_named_is_a_skill_or_says_why_not(full: Tree) -> None:
    full.write({"plain.md": "text"})
    choice = USUAL._replace(skills=("../plain.md",))
    assert ["plain.md: a skill must have a description, so it is not used"] == full.notices(choice)


# Words for the prompt.


def test_the_projects_words_go_before_the_users_and_those_of_the_command_line_before_both(full: Tree) -> None:
    read = full.read()
    assert ("project", ("more of the project",)) == (read.base, read.appended)
    read = full.read(USUAL._replace(base="b", appended=("a",)))
    assert ("b", ("a",)) == (read.base, read.appended)


def test_unreadable_texts_are_reported_and_the_next_are_used(full: Tree) -> None:
    full.write({"work/.pi/SYSTEM.md": "x" * (MAX_TEXT_BYTES + 1)})
    assert "user" == full.read().base
    assert ["work/.pi/SYSTEM.md: has more than 256 KiB, so it is not used"] == full.notices()


# Another folder than that of the process.


def test_another_folder_is_trusted_by_what_was_decided_for_it(full: Tree) -> None:
    other = full.root / "other"
    full.write(
        {"other/.pi/prompts/o.md": "b", "other/.pi/settings.json": '{"prompts": ["../x.md"]}', "other/x.md": "b"}
    )
    assert ["m", "u"] == list(full.read(cwd=other).templates)
    assert ["other: this project is not trusted, so what it brings is not read"] == full.notices(cwd=other)

    full.write({"agent/trust.json": json.dumps({str(other): True})})
    assert ["x", "o", "m", "u"] == list(full.read(cwd=other).templates)
    assert [] == full.notices(cwd=other)
