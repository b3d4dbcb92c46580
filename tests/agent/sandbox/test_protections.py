"""What is protected stays so from one command to the next, whatever the first one has changed.

Each case makes a folder by a script outside, starts a sandbox there, runs commands in it one after another, and looks
outside whether they have reached something. A command that is refused before it runs has reached nothing.
"""

import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.agent.sandbox.conftest import Confined

from pinnace_agent.sandbox.protections import Protections
from pinnace_agent.sandbox.repositories import MOST_MODULES, Finder, Unprotectable, is_git_folder
from pinnace_agent.shell.process import ShellUnavailable

_GIT: Final = "git init -q .; git config user.name x; git config user.email x@y; git commit -q --allow-empty -m x\n"
_MODULE: Final = (
    _GIT
    + """mkdir .git/modules
for m in m n; do
git init -q --separate-git-dir .git/modules/$m $m
printf '[submodule "%s"]\\n\\tpath = %s\\n' $m $m >> .gitmodules
done
"""
)
_WORKTREE: Final = (
    f"(mkdir ../repository; cd ../repository; {_GIT})\ngit -C ../repository worktree add -q ../project/tree"
)


class Case(NamedTuple):
    """One case."""

    before: str
    """Runs outside, in the folder, before the sandbox is there."""
    commands: tuple[str, ...]
    """Run inside, one after another."""
    reached: str
    """A condition outside that must not hold afterwards."""
    works: str = "true"
    """A condition outside that must hold."""
    writable: tuple[str, ...] = ()
    """More that can be written, from the folder on."""
    new_repository: bool = False
    folder: str = "."
    """The working folder, from the folder on."""


CASES: Final = {
    "another configuration of git": Case(_GIT, ("echo ../evil > .git/commondir", "true"), "test -e .git/commondir"),
    "another one of a submodule": Case(
        _MODULE, ("echo ../evil > .git/modules/m/commondir", "true"), "test -e .git/modules/m/commondir"
    ),
    "a repository around .git, in two halves": Case(
        _GIT, ("cp .git/HEAD HEAD", "mkdir objects refs; cp .git/config config", "true"), "test -e HEAD -a -e objects"
    ),
    "a submodule that is none any more": Case(
        _MODULE,
        ("mv .git/modules/m/HEAD x", "echo '#evil' >> .git/modules/m/config; touch .git/modules/m/hooks/evil"),
        "grep -q evil .git/modules/m/config || test -e .git/modules/m/hooks/evil",
    ),
    "more submodules than are looked at": Case(
        _MODULE,
        (
            "for i in $(seq 300); do mkdir -p .git/modules/a$i/objects; touch .git/modules/a$i/HEAD; done",
            "echo '#evil' >> .git/modules/n/config",
        ),
        "grep -q evil .git/modules/n/config",
        "test -e .git/modules/a300/HEAD",
    ),
    "submodules that are named no more": Case(
        _MODULE, ("mv .gitmodules x", "rm -f m/.git; echo gitdir: evil > m/.git"), "grep -q evil m/.git"
    ),
    "submodules named in a way that is no path": Case(
        _MODULE, ("printf 'path = a\\0b\\npath = ../..\\n' > .gitmodules", "echo evil > n/.git; touch ran"),
        "grep -q evil n/.git", "test -e ran",
    ),
    "submodules named by what can't be read": Case(
        _GIT, ("mkfifo .gitmodules", "touch ran"), "false", "test -e ran"
    ),
    "a link that git does not read": Case(
        _GIT, ("ln -s x .git/config.worktree", "touch ran"), "false", "test -e ran"
    ),
    "a repository where there is none": Case(
        "", ("git init -q .; mkdir -p .git/hooks; touch .git/hooks/evil",), "test -e .git/HEAD -o -e .git/hooks"
    ),
    "a repository by a file": Case("", ("echo gitdir: evil > .git",), "test -f .git"),
    "a repository that may be made": Case(
        "",
        ("git init -q .", "git config core.fsmonitor evil; touch .git/hooks/evil; echo evil > .git/info/attributes"),
        "grep -q evil .git/config || test -e .git/hooks/evil",
        "test -e .git/HEAD",
        new_repository=True,
    ),
    "a repository below": Case(
        _GIT,
        ("mkdir -p a/b; git init -q a/b", "git -C a/b config core.fsmonitor evil; touch a/b/.git/hooks/evil"),
        "grep -q evil a/b/.git/config || test -e a/b/.git/hooks/evil",
        "test -e a/b/.git/HEAD",
    ),
    "a repository below that was there": Case(
        f"mkdir -p a/b; cd a/b; {_GIT}",
        ("git -C a/b config core.fsmonitor evil; mv a/b/.git a/b/x; echo ../evil > a/b/.git/commondir", "true"),
        "grep -q evil a/b/.git/config || test -e a/b/.git/commondir",
    ),
    "a repository beside its work tree": Case(
        "git init -q --bare .bare; echo gitdir: ./.bare > .git",
        ("git config core.fsmonitor evil; echo '#evil' >> .bare/config; touch .bare/hooks/evil; rm -f .git",),
        "grep -q evil .bare/config || test -e .bare/hooks/evil || test ! -e .git",
    ),
    "a configuration that is included": Case(
        _GIT + "touch .gitconfig; git config include.path ../.gitconfig",
        ("echo '[core] fsmonitor = evil' >> .gitconfig; rm -f .gitconfig; echo evil > .gitconfig",),
        "grep -q evil .gitconfig",
    ),
    "configuration of another version control": Case(
        "mkdir .hg; touch .hg/hgrc", ("echo evil >> .hg/hgrc",), "grep -q evil .hg/hgrc"
    ),
    "agents' configuration below": Case(
        "mkdir -p a/.pi b/.agents; touch a/.pi/x b/.agents/x",
        ("mkdir a/.pi/extensions; touch b/.agents/evil", "mkdir -p c/.pi; touch c/.pi/first", "touch c/.pi/evil"),
        "test -e a/.pi/extensions -o -e b/.agents/evil -o -e c/.pi/evil",
        "test -e c/.pi/first",
    ),
    "what editors and shells read": Case(
        "mkdir -p .vscode a/.husky; touch .vscode/x .envrc .mcp.json a/.husky/x",
        (
            "touch .vscode/evil a/.husky/evil; echo evil | tee -a .envrc .mcp.json",
            "mkdir .idea; touch .idea/first",
            "touch .idea/evil; mv .vscode x; rm -f .envrc",
        ),
        "grep -q evil .envrc .mcp.json || test -e .vscode/evil -o -e a/.husky/evil -o -e .idea/evil -o ! -e .envrc",
        "test -e .idea/first -a -e .vscode",
    ),
    "what editors read, by name": Case(
        "mkdir .vscode; touch .vscode/x .envrc .mcp.json",
        ("touch .vscode/written; echo written >> .envrc; echo evil >> .mcp.json",),
        "grep -q evil .mcp.json",
        "test -e .vscode/written && grep -q written .envrc",
        writable=(".vscode", ".envrc"),
    ),
    "a folder in one that is protected": Case(
        "mkdir -p .pi/scratch; touch .pi/scratch/x",
        ("touch .pi/scratch/written .pi/evil; mv .pi/scratch .pi/evil",),
        "test -e .pi/evil",
        "test -e .pi/scratch/written",
        writable=(".pi/scratch",),
    ),
    "a commit in a worktree": Case(
        _WORKTREE,
        ("echo a > a; git add a; git commit -qm a", "echo ../evil > ../../repository/.git/commondir", "true"),
        "test -e ../repository/.git/commondir",
        "git -C tree log --oneline | grep -q ' a$'",
        writable=("../repository/.git",),
        folder="tree",
    ),
    "hooks of a repository whose folder can be written": Case(
        _WORKTREE,
        ("git config core.fsmonitor evil; touch ../../repository/.git/hooks/evil; rm -f .git",),
        "grep -q evil ../repository/.git/config || test -e ../repository/.git/hooks/evil -o ! -e tree/.git",
        writable=("../repository/.git",),
        folder="tree",
    ),
    "a commit in a subfolder": Case(
        _GIT + "mkdir sub", ("echo a > a; git add a; git commit -qm a",),
        "false",
        "git log --oneline | grep -q ' a$'",
        writable=(".git",),
        folder="sub",
    ),
    "a commit in a submodule": Case(
        _MODULE,
        ("cd m; echo a > a; git add a; git -c user.name=x -c user.email=x@y commit -qm a",),
        "false",
        "git -C m log --oneline | grep -q ' a$'",
    ),
}  # fmt: skip


def outside(confined: Confined, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script outside, in the folder of the case."""
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(confined.home)}
    words = ["/bin/bash", "-c", script]
    return subprocess.run(words, cwd=confined.folder, env=env, capture_output=True, text=True, check=False)


def begin(confined: Confined, before: str = "", folder: str = ".", **policy: object) -> Confined:
    """Make the folder, and a sandbox that has seen nothing but that."""
    done = outside(confined, f"rm -rf .pi .agents .git; set -e; {before}")
    assert 0 == done.returncode, done.stderr
    place = os.path.normpath(confined.folder / folder)
    made = confined.confinement
    made.places = made.places._replace(folder=place)
    made.policy = replace(made.policy, **policy)  # type: ignore[arg-type]
    made.protections = Protections()
    made.layout()  # as the probe of the start does
    return Confined(Path(place), confined.home, made, confined.problems, confined.children)


@pytest.mark.parametrize("name", CASES)
async def test_no_command_reaches_what_was_protected_before(confined: Confined, name: str) -> None:
    case = CASES[name]
    writable = tuple(os.path.realpath(confined.folder / each) for each in case.writable)
    inside = begin(confined, case.before, case.folder, writable=writable, new_repository=case.new_repository)
    said: list[object] = []
    for command in case.commands:
        with suppress(ShellUnavailable):
            said.append(await inside.run(command))

    assert 0 != outside(confined, case.reached).returncode, (said, confined.problems)
    assert 0 == outside(confined, case.works).returncode, (said, confined.problems)


async def test_what_must_not_be_there_stops_every_program_whoever_made_it(confined: Confined) -> None:
    """As the tool `write`, a client that serves files, or an MCP server would."""
    inside = begin(confined, _GIT)
    (confined.folder / ".git/commondir").write_text("../evil")

    with pytest.raises(ShellUnavailable, match=r"commondir was not there at the start.*remove it"):
        await inside.run("touch ran")
    with pytest.raises(Unprotectable):  # so the file tools get no view, and are refused
        inside.confinement.layout("tools")
    (confined.folder / ".git/commondir").unlink()
    await inside.run("touch ran")
    assert (confined.folder / "ran").exists()


async def test_what_was_there_at_the_start_is_the_user_s(confined: Confined) -> None:
    inside = begin(confined, f"{_GIT} touch HEAD; mkdir objects; echo . > .git/commondir")
    await inside.run("touch ran; echo evil > .git/commondir")

    assert (confined.folder / "ran").exists()
    assert "." == (confined.folder / ".git/commondir").read_text().strip()
    assert (confined.folder / "HEAD").exists()


async def test_what_cannot_be_removed_is_said_to_be_there(confined: Confined, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = begin(confined, _GIT)

    def refuse(path: str) -> None:
        raise PermissionError(path)

    with monkeypatch.context() as patch:
        patch.setattr("pinnace_agent.sandbox.witness.os.unlink", refuse)
        await inside.run("echo ../evil > .git/commondir")

    assert "can't be removed, and nothing runs before it is" in confined.problems[0]
    with pytest.raises(ShellUnavailable, match="commondir"):
        await inside.run("touch ran")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("rm -r .git/hooks; touch .git/hooks", "was a folder when it was first protected, and is a file now"),
        ("rm .git/config; mkdir .git/config", "was a file when it was first protected, and is a folder now"),
        ("mv .git x; ln -s x .git", "is a link"),
        ("mv .vscode x; ln -s x .vscode", "was a folder when it was first protected, and is a link now"),
    ],
)
async def test_what_has_become_something_else_stops_the_program(confined: Confined, change: str, text: str) -> None:
    inside = begin(confined, f"{_GIT} mkdir .vscode; touch .vscode/x")
    outside(confined, change)

    with pytest.raises(ShellUnavailable, match=text):
        await inside.run("touch ran")
    assert not (confined.folder / "ran").exists()


async def test_what_has_come_is_reported_once(confined: Confined) -> None:
    inside = begin(confined, _GIT)
    await inside.run("mkdir .vscode; touch .vscode/tasks.json; git init -q sub")
    await inside.run("true")

    assert 1 == len(confined.problems)
    assert f"{confined.folder}/.vscode" in confined.problems[0]
    assert f"{confined.folder}/sub/.git/config" in confined.problems[0]
    assert "came since the start" in confined.problems[0]


async def test_what_was_removed_outside_can_not_be_made_again(confined: Confined) -> None:
    inside = begin(confined, f"{_GIT} mkdir .vscode; touch .vscode/x")
    outside(confined, "rm -r .git/hooks .vscode")
    await inside.run("mkdir -p .git/hooks; touch .git/hooks/evil; touch ran; mkdir .vscode")

    assert (confined.folder / "ran").exists()
    assert (confined.folder / ".vscode").exists(), "it is not made in the place of what the user has removed"
    assert not (confined.folder / ".git/hooks/evil").exists()


def test_of_many_submodules_all_are_read_only_together(tmp_path: Path) -> None:
    for number in range(MOST_MODULES + 1):
        (tmp_path / f".git/modules/{number}/objects").mkdir(parents=True)
        (tmp_path / f".git/modules/{number}/HEAD").touch()
    (tmp_path / ".git/objects").mkdir()
    (tmp_path / ".git/HEAD").touch()

    assert f"{tmp_path}/.git/modules" in Finder(str(tmp_path)).find().protected
    assert is_git_folder(f"{tmp_path}/.git/modules/7")


def test_a_folder_is_looked_at_again_when_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for each in (tmp_path / "a/b", tmp_path / "a", tmp_path):
        os.utime(each, (1, 1))
    finder = Finder(str(tmp_path))
    finder.find()
    (tmp_path / "a/b/.envrc").touch()

    assert f"{tmp_path}/a/b/.envrc" in finder.find().protected


def test_a_file_that_comes_in_a_folder_of_another_version_control_is_found(tmp_path: Path) -> None:
    """Though the folder around it has not changed."""
    (tmp_path / ".hg").mkdir()
    os.utime(tmp_path, (1, 1))
    finder = Finder(str(tmp_path))
    finder.find()
    (tmp_path / ".hg/hgrc").touch()

    assert f"{tmp_path}/.hg/hgrc" in finder.find().protected


@pytest.mark.parametrize("closed", ["sub", "sub/.git", ".git", ".git/info"])
async def test_a_folder_that_was_closed_opens_nothing(confined: Confined, closed: str) -> None:
    """A command that closes a folder, and one that opens it again and writes there."""
    inside = begin(confined, f"{_GIT} mkdir -p .git/info; touch .git/info/attributes; mkdir sub; cd sub; {_GIT}")
    evil = "; ".join(f"echo '#evil' >> {each}" for each in ("sub/.git/config", ".git/config", ".git/info/attributes"))
    await inside.run(f"chmod 000 {closed}")
    with suppress(ShellUnavailable):  # unless this process may look into every folder
        await inside.run(f"chmod 755 {closed}; {evil}")
    outside(confined, f"chmod 755 {closed}")
    await inside.run(f"touch ran; {evil}")

    assert (confined.folder / "ran").exists()
    assert 0 != outside(confined, "grep -rq evil .git sub/.git").returncode


async def test_what_can_not_be_looked_at_any_more_stops_the_program(
    confined: Confined, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not seen is not gone."""
    inside = begin(confined, _GIT)
    lstat = os.lstat

    def refuse(path: str, **options: int | None) -> os.stat_result:
        if path == f"{confined.folder}/.git/config":
            raise PermissionError(13, "Permission denied", path)
        return lstat(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr("pinnace_agent.sandbox.protections.os.lstat", refuse)
        with pytest.raises(ShellUnavailable, match=r"\.git/config is protected, and can't be looked at.*give back"):
            await inside.run("touch ran")
    assert not (confined.folder / "ran").exists()
    await inside.run("touch ran")
    assert (confined.folder / "ran").exists()


def test_folders_beyond_the_bound_are_said_not_to_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("repositories", "protections"):
        monkeypatch.setattr(f"pinnace_agent.sandbox.{name}.MOST_FOLDERS", 3)
    (tmp_path / "a/b/c/d").mkdir(parents=True)
    (tmp_path / "a/.envrc").touch()
    (tmp_path / "node_modules").mkdir()
    protections = Protections()
    found = protections.find([str(tmp_path)])

    assert f"{tmp_path}/a/.envrc" in found.protected
    assert (f"repositories below the first 3 folders of {tmp_path} are not looked for",) == protections.limits
