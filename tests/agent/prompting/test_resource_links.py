"""Where links of a project may lead: nothing outside of a repository gets into a prompt by them."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace_agent.config.settings import read_settings
from pinnace_agent.prompting.folder_resources import FolderReader, FolderResources, ResourceChoice

SECRET = "SECRET"
NOBODY = 65_534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")
SKILL = "---\nname: {0}\ndescription: {0}\n---\n{0}"


class Project:
    """A home with secrets, an agent folder, a repository with a folder to work in, and a folder beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.agent_dir, self.outside = root / "home", root / "home" / ".pi" / "agent", root / "outside"
        self.repository = root / "above" / "repo"
        self.work = self.repository / "work"
        for folder in (self.home / ".ssh", self.agent_dir, self.outside / "deep", self.repository / ".git", self.work):
            folder.mkdir(parents=True)
        secrets = (self.home / ".ssh" / "id_rsa", self.agent_dir / "auth.json", self.repository / ".git" / "config")
        outside = [self.outside / name for name in ("AGENTS.md", "secret.md", "SKILL.md", "deep/SKILL.md", "SYSTEM.md")]
        for path in (*secrets, *outside):
            path.write_text(SKILL.format(SECRET))
        self.env = {"HOME": str(self.home), "PI_CODING_AGENT_DIR": str(self.agent_dir), "KEY": SECRET}

    def write(self, files: Mapping[str, str]) -> None:
        """Write files, by their paths below the root."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def link(self, name: str, target: str | Path) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def read(self, *, approved: bool = True, cwd: Path | None = None) -> FolderResources:
        cwd = cwd or self.work
        project = cwd / ".pi" / "settings.json" if approved else None
        found = read_settings(self.agent_dir / "settings.json", project).settings
        choice = ResourceChoice(approved=approved)
        return FolderReader(choice, found, self.env, cwd).read(str(cwd))


def prompt_of(found: FolderResources) -> str:
    """Return every text that a folder adds to what a model gets."""
    parts = [found.base or "", *found.appended, *(each.text for each in found.context_files)]
    parts += [each.body + each.description for each in found.templates.values()]
    for skill in found.skills.values():
        parts += [skill.description, skill.expanded("")]
    return "\n".join(parts)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


TARGETS = {
    "a file outside": "../../../outside/secret.md",
    "a key": "{home}/.ssh/id_rsa",
    "the agent folder": "{agent}/auth.json",
    "git's configuration": "../.git/config",
    "the environment": "/proc/self/environ",
    "the environment of a thread": "/proc/thread-self/environ",
    "facts of the kernel": "/proc/cpuinfo",
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
def test_s4_a_context_file_that_leads_to_secrets_is_refused_and_reported(
    name: str, target: str, project: Project
) -> None:
    project.link(f"above/repo/work/{name}", target.format(home=project.home, agent=project.agent_dir))
    found = project.read(approved=False)
    (notice,) = (each for each in found.notices if each.startswith(str(project.root)))
    assert ((), "") == (found.context_files, prompt_of(found).strip())
    assert notice.startswith(f"{project.work}/{name}: leads to ")
    assert notice.endswith(", so it is not read")


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize(
    "name", [".pi/SYSTEM.md", ".pi/APPEND_SYSTEM.md", ".pi/skills/s.md", ".pi/skills/s/SKILL.md", ".pi/prompts/t.md"]
)
def test_s4_a_trusted_project_reads_no_secrets_by_links(name: str, target: str, project: Project) -> None:
    target = target.format(home=project.home, agent=project.agent_dir)
    project.link(f"above/repo/work/{name}", target if target.startswith("/") else project.work / target)
    found = project.read()
    assert SECRET not in prompt_of(found)
    assert [f"{project.work}/{name}"] == [each.split(": ")[0] for each in found.notices]
    assert "which" in found.notices[0]


@pytest.mark.parametrize("kind", ["skills", "prompts"])
@pytest.mark.parametrize("target", ["outside", "outside/deep", "home"])
def test_s4_a_folder_of_many_files_outside_is_refused_once(kind: str, target: str, project: Project) -> None:
    project.write({f"outside/{number}.md": SKILL.format(f"s{number}") for number in range(20)})
    project.link(f"above/repo/work/.pi/{kind}", project.root / target)
    (notice,) = project.read().notices
    assert f"{project.work}/.pi/{kind}: leads to {project.root}/{target}, which is outside of" in notice


def test_links_inside_of_the_repository_are_followed(project: Project) -> None:
    project.write({"above/repo/docs/a.md": "words", "above/repo/library/s/SKILL.md": SKILL.format("s")})
    project.link("above/repo/AGENTS.md", "docs/a.md")
    project.link("above/repo/work/CLAUDE.md", "../AGENTS.md")
    project.link("above/repo/work/.pi/prompts/t.md", "../../../docs/a.md")
    project.link("above/repo/work/.pi/skills", "../../library")
    found = project.read()
    assert ["words", "words"] == [each.text for each in found.context_files]
    assert (["t"], ["s"], []) == (list(found.templates), list(found.skills), found.notices)


def test_the_users_own_links_lead_where_the_user_wants(project: Project) -> None:
    project.write({"outside/mine.md": SKILL.format("mine")})
    for name in ("AGENTS.md", "SYSTEM.md", "prompts/t.md", "skills/s.md"):
        project.link(f"home/.pi/agent/{name}", project.outside / "mine.md")
    found = project.read()
    assert ["mine", "mine"] == [text[-4:] for text in (found.base or "", found.context_files[0].text)]
    assert (["t"], ["mine"], []) == (list(found.templates), list(found.skills), found.notices)


def test_a_link_above_the_repository_stays_in_its_folder(project: Project) -> None:
    project.write({"above/notes/a.md": "words"})
    project.link("above/AGENTS.md", "notes/a.md")
    assert ["words"] == [each.text for each in project.read().context_files]
    (project.root / "above" / "AGENTS.md").unlink()
    project.link("above/AGENTS.md", "../outside/secret.md")
    found = project.read()
    assert ((), 1) == (found.context_files, len(found.notices))


def test_a_repository_of_the_whole_home_folder_bounds_nothing(project: Project) -> None:
    """Those who keep their settings in one would have every folder below it read all their files."""
    project.write({"home/.git/HEAD": "", "home/diary.md": SECRET, "home/downloads/x/CLAUDE.md": "words"})
    project.link("home/downloads/x/AGENTS.md", "../../diary.md")
    assert SECRET not in prompt_of(project.read(cwd=project.home / "downloads" / "x", approved=False))


def test_a_project_in_the_agent_folder_has_words_of_its_own(project: Project) -> None:
    project.write({"home/.pi/agent/extensions/x/AGENTS.md": "words", "home/.pi/agent/extensions/x/.git/HEAD": ""})
    project.link("home/.pi/agent/extensions/x/y/AGENTS.md", "../../../auth.json")
    found = project.read(cwd=project.agent_dir / "extensions" / "x" / "y", approved=False)
    assert ["words"] == [each.text for each in found.context_files]


def test_a_folder_that_is_checked_out_below_a_git_folder_has_words_of_its_own(project: Project) -> None:
    project.write({"above/repo/.git/trees/a/.git": "gitdir: ..", "above/repo/.git/trees/a/AGENTS.md": "words"})
    found = project.read(cwd=project.repository / ".git" / "trees" / "a", approved=False)
    assert ["words"] == [each.text for each in found.context_files]


def test_what_settings_of_a_trusted_project_name_outside_may_be_read(project: Project) -> None:
    project.write(
        {
            "outside/mine.md": "words",
            "outside/pack/s/SKILL.md": SKILL.format("s"),
            "above/repo/work/.pi/settings.json": json.dumps(
                {"prompts": [str(project.outside / "mine.md"), "inner/out.md"], "skills": ["~/../outside/pack"]}
            ),
        }
    )
    project.link("above/repo/work/.pi/inner/out.md", project.outside / "secret.md")
    found = project.read()
    assert (["mine"], ["s"]) == (list(found.templates), list(found.skills))
    assert [f"{project.work}/.pi/inner/out.md"] == [each.split(": ")[0] for each in found.notices]


def test_a_skill_that_became_a_link_after_it_was_found_is_not_followed(project: Project) -> None:
    project.write({"above/repo/work/.pi/skills/s/SKILL.md": SKILL.format("s")})
    found = project.read()
    (project.work / ".pi" / "skills" / "s" / "SKILL.md").unlink()
    project.link("above/repo/work/.pi/skills/s/SKILL.md", project.outside / "SKILL.md")
    with pytest.raises(Exception, match="outside of"):
        found.skills["s"].expanded("")


# Of another user.


@AS_ROOT
@pytest.mark.parametrize("place", ["above/.agents", "above/repo/.agents"])
def test_s4_skills_of_another_user_above_a_trusted_project_are_refused_and_reported(
    place: str, project: Project
) -> None:
    project.write({f"{place}/skills/s/SKILL.md": SKILL.format("s"), "above/repo/work/.pi/settings.json": "{}"})
    shutil.rmtree(project.repository / ".git")
    file = project.root / place / "skills" / "s" / "SKILL.md"
    assert ["s"] == list(project.read().skills)
    os.chown(file, NOBODY, -1)
    found = project.read()
    assert ([], [f"{file}: belongs to another user, so it is not used"]) == (list(found.skills), found.notices)


@AS_ROOT
def test_s4_a_repository_that_another_user_makes_above_a_project_bounds_nothing(project: Project) -> None:
    shutil.rmtree(project.repository / ".git")
    (project.root / "above" / ".git").mkdir()
    project.write({"above/notes.md": SECRET})
    project.link("above/repo/work/AGENTS.md", "../../notes.md")
    assert SECRET in prompt_of(project.read(approved=False))
    os.chown(project.root / "above" / ".git", NOBODY, -1)
    assert SECRET not in prompt_of(project.read(approved=False))


def test_s4_world_writable_skills_above_the_repository_are_rejected(project: Project) -> None:
    project.write({"above/.agents/skills/s/SKILL.md": SKILL.format("s")})
    shutil.rmtree(project.repository / ".git")
    (project.root / "above" / ".agents" / "skills" / "s" / "SKILL.md").chmod(0o666)
    found = project.read()
    assert ([], 1) == (list(found.skills), len(found.notices))


# Any tree of links.

NAMES = ["AGENTS.md", "CLAUDE.md", "a", "b", ".pi", ".agents", "SYSTEM.md", "skills", "prompts", "SKILL.md", "x.md"]
WAYS = st.lists(st.sampled_from([*NAMES, "..", ".."]), min_size=1, max_size=5).map("/".join)
# Half of the places are read, and half of the targets are outside: most examples would prove nothing otherwise.
TARGETS_OF_LINKS = st.sampled_from(
    """{outside}/secret.md {outside}/secret.md {outside}/SKILL.md {outside} {outside}/deep {home}/.ssh/id_rsa
    {agent} / {agent}/auth.json /proc/self/environ /proc/self/cwd /proc/self/root{outside}/secret.md {repo}/.git/config
    ../../../outside/AGENTS.md ../../../../outside {home} {repo}/a {repo}/b a b ../a ../b . .. AGENTS.md""".split()
)
READ = st.sampled_from(
    """AGENTS.md work/CLAUDE.md work/.pi work/.pi/SYSTEM.md work/.pi/skills work/.pi/skills/x.md work/.pi/prompts/x.md
    work/.pi/skills/a work/.pi/skills/a/SKILL.md work/.agents/skills/a .agents/skills/a/SKILL.md a b work/a""".split()
)
PLACES = st.integers(0, 3).flatmap(lambda n: READ if n else st.lists(st.sampled_from(NAMES), min_size=1).map("/".join))
TREES = st.lists(
    st.tuples(PLACES, st.integers(0, 5).flatmap(lambda n: TARGETS_OF_LINKS if n > 1 else WAYS if n else st.none())),
    min_size=5,
    max_size=12,
)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """What is outside, for all examples: to make and remove it takes longer than to read."""
    return Project(tmp_path_factory.mktemp("links"))


@settings(max_examples=40)
@given(tree=TREES, named=st.lists(WAYS, max_size=2))
def test_no_tree_of_links_under_a_repository_lets_a_file_outside_into_the_prompt(
    secrets: Project, tree: list[tuple[str, str | None]], named: list[str]
) -> None:
    repository = secrets.root / "above" / f"repo{len(os.listdir(secrets.root / 'above'))}"
    (repository / "work").mkdir(parents=True)
    shutil.copytree(secrets.repository / ".git", repository / ".git")
    words = {"outside": secrets.outside, "home": secrets.home, "agent": secrets.agent_dir, "repo": repository}
    for place, target in tree:
        path = repository / place
        try:
            if not path.resolve().is_relative_to(repository):
                continue  # to write through a link would put words of the repository outside
            path.parent.mkdir(parents=True, exist_ok=True)
            if target is None:
                path.write_text(SKILL.format("inside"))
            else:
                path.symlink_to(target.format(**words))
        except (OSError, RuntimeError):
            continue  # a file and a folder of one name, or a loop
    own = repository / "work" / ".pi"
    if own.is_dir() and not own.is_symlink():
        inside = [each for each in named if Path(os.path.normpath(own / each)).is_relative_to(repository)]
        (own / "settings.json").write_text(json.dumps({"skills": inside, "prompts": inside}))
    for approved in (False, True):
        prompt = prompt_of(secrets.read(approved=approved, cwd=repository / "work"))
        assert SECRET not in prompt
        assert "PATH=" not in prompt
