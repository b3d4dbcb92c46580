"""Each remedy that the page of the sandbox, the security policy and an error name is done here, and helps.

`ELSEWHERE` names the tests of those that need a real agent or a whole machine. A new remedy in a text is one more row:
the table of the page, the settings and the errors are read for them.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.agent.sandbox.conftest import Confined
from tests.agent.sandbox.test_protections import begin, outside

from pinnace_agent.sandbox import probe, protections, repositories
from pinnace_agent.shell.process import ShellUnavailable

REPOSITORY: Final = Path(__file__).resolve().parents[3]
PAGES: Final = {name: (REPOSITORY / name).read_text(encoding="utf-8") for name in ("docs/sandbox.md", "SECURITY.md")}
_GIT: Final = "git init -q .;"


class Remedy(NamedTuple):
    """What a text says helps."""

    said: str
    """By the text: an expression."""
    before: str
    """Makes the folder."""
    problem: str
    """What happens then, outside, after the first look."""
    command: str
    """Fails, or is not run, with the problem, and works after the remedy."""
    remedy: str
    """What is done about it, outside."""
    settings: Mapping[str, tuple[str, ...]] = {}
    """What is done about it in the settings, in place of that: paths in the folder."""


REMEDIES: Final[Mapping[str, Remedy]] = {
    "remove what was not there": Remedy(
        r"remove it; if it is yours, start the agent again",
        _GIT,
        "echo x > .git/commondir",
        "true",
        "rm .git/commondir",
    ),
    "put back what was there": Remedy(
        r"put back what was there, or start the agent again",
        f"{_GIT} mkdir .vscode; touch .vscode/x",
        "mv .vscode x; ln -s x .vscode",
        "true",
        "rm .vscode; mv x .vscode",
    ),
    "put what it leads to in its place": Remedy(
        r"put what it leads to in its place",
        f"{_GIT} mv .git/config x; ln -s ../x .git/config",
        "true",
        "git config user.name || true",
        "rm .git/config; mv x .git/config",
    ),
    "sandbox.writable for a start-up folder": Remedy(
        r'"writable": \["/work/project/\.vscode"\]` lets commands change that folder',
        "mkdir .vscode; touch .vscode/x",
        "true",
        "echo y > .vscode/x",
        "true",
        {"writable": (".vscode",)},
    ),
    "sandbox.readable": Remedy(
        r"`sandbox\.readable` shows\s+one of them again",
        "mkdir ../.aws; echo key > ../.aws/credentials",
        "true",
        "grep key ../.aws/credentials",
        "true",
        {"readable": ("../.aws", "..")},
    ),
    "sandbox.readable in the machine's /tmp": Remedy(
        r"`sandbox\.readable` shows a folder again, read-only",
        "mkdir ../../shown; echo x > ../../shown/program",
        "true",
        "cat ../../shown/program",
        "true",
        {"readable": ("../../shown", "..")},
    ),
    "sandbox.hide": Remedy(
        r"`sandbox\.hide` hides more", "echo key > keys", "true", "! grep key keys", "true", {"hide": ("keys",)}
    ),
}
ELSEWHERE: Final = {
    r"`sandbox\.environment` lets them stay": (
        "rpc/sandbox/test_sandbox.py::test_commands_do_not_get_keys_of_the_environment_and_it_is_reported"
    ),
    r"unless `sandbox\.newRepository` is on": (
        "agent/sandbox/test_protections.py::test_no_command_reaches_what_was_protected_before"
    ),
    r"`git commit` needs the repository's `\.git` in `sandbox\.writable`": (
        "agent/sandbox/test_protections.py::test_no_command_reaches_what_was_protected_before"
    ),
    r"the error names `sandbox\.readable`": (
        "rpc/sandbox/test_sandboxed_tools.py::test_an_attachment_is_read_in_the_sandbox"
    ),
    r"which `pinnace trust FOLDER` changes": (
        "rpc/sandbox/test_trust_of_new_folders.py::test_a_decision_for_the_folder_itself_stays"
    ),
    r'`"sandbox": false` in an entry of your own': (
        "rpc/sandbox/test_sandboxed_servers.py::test_servers_run_inside_and_those_of_a_project_are_no_way_out"
    ),
    r"give back the rights to its folders": (
        "agent/sandbox/test_protections.py::test_what_can_not_be_looked_at_any_more_stops_the_program"
    ),
    r"`git status --ignore-submodules=all` does not": (
        "agent/sandbox/test_remedies.py::test_a_status_without_submodules"
    ),
    r"with `--sandbox-network on` the network": "rpc/sandbox/test_sandbox.py",
    r"install the package `bubblewrap`": "agent/sandbox/test_sandbox_faults.py",
}


@pytest.mark.parametrize("name", REMEDIES)
async def test_a_remedy_helps(confined: Confined, name: str) -> None:
    """What fails before works after it, and nothing but that was changed."""
    each = REMEDIES[name]
    try:
        inside = begin(confined, each.before)
        done = outside(confined, each.problem)
        assert done.returncode == 0, done.stderr
        status, said = await inside.run(each.command)
        assert status.exit_code != 0
    except (ShellUnavailable, OSError) as error:
        said = str(error)
    if not each.settings:
        assert re.search(each.said, said)
    done = outside(confined, each.remedy)
    assert done.returncode == 0, done.stderr
    made = confined.confinement
    settings = {
        key: tuple(os.path.realpath(confined.folder / path) for path in paths) for key, paths in each.settings.items()
    }
    if settings:
        inside = begin(confined, each.before.replace("mkdir", "mkdir -p"), ".", **settings)
    else:
        inside = Confined(confined.folder, confined.home, made, confined.problems, confined.children)

    status, said = await inside.run(each.command)
    assert status.exit_code == 0, said


def texts() -> str:
    """Return everything that names remedies: the pages, and the texts of errors in the source."""
    sources = [Path(str(each.__file__)).read_text(encoding="utf-8") for each in (protections, repositories, probe)]
    joined = [re.sub(r'"\s*\n\s*f?"', "", each) for each in sources]
    return " ".join("\n".join([*PAGES.values(), *joined]).split())


@pytest.mark.parametrize("said", [*(each.said for each in REMEDIES.values()), *ELSEWHERE])
def test_each_remedy_of_this_table_is_named_somewhere(said: str) -> None:
    assert re.search(said.replace(r"\s+", " "), texts()), said


@pytest.mark.parametrize("test", sorted(set(ELSEWHERE.values())))
def test_each_test_of_the_table_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert (
        f"def {name}(" in (REPOSITORY / "tests" / file).read_text(encoding="utf-8")
        if name
        else (REPOSITORY / "tests" / file).is_file()
    )


def test_the_page_has_each_remedy_of_a_start_that_is_refused() -> None:
    """As the error has it: by the sign in what bubblewrap says."""
    table = PAGES["docs/sandbox.md"].partition("| bubblewrap says |")[2]
    for sign, _ in probe._REMEDIES:  # the table itself
        assert sign.removesuffix("max_") in table, sign
        assert probe.remedy(sign, 1) != probe.remedy("something else", 1)


async def test_a_status_without_submodules(confined: Confined) -> None:
    """A repository that a command has made and added runs its monitor with `git status`, and not without submodules."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    person = "-c user.name=x -c user.email=x"
    inside = begin(confined, f"{_GIT} git {person} commit -q --allow-empty -m x")
    ran = confined.folder.parent / "ran"
    await inside.run(
        f"git init -q sub && cd sub && git {person} commit -q --allow-empty -m x"
        f" && git config core.fsmonitor 'touch {ran}; false' && cd .. && git add sub"
    )
    outside(confined, "git status --ignore-submodules=all")
    assert not ran.exists()
    outside(confined, "git status")
    assert ran.exists(), "the page says that it does"
