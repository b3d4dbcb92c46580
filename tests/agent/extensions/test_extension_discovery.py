"""Which extensions there are, and in which order."""

import json
import os
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

import pytest

from pinnace_agent.config.settings import ResourceSettings
from pinnace_agent.extensions.loading import discovery as packages
from pinnace_agent.extensions.loading.discovery import (
    Candidate,
    DiscoveredExtensions,
    ExtensionSources,
    discover,
    resolve_named,
)
from pinnace_agent.extensions.loading.precedence import conflicts, keep_needed, tools_of
from pinnace_agent.extensions.loading.source_files import SourceRefused, check_files, fingerprint
from pinnace_agent.extensions.registration.registrations import (
    Extension,
    FlagRegistration,
    Generation,
    ToolDefinition,
    ToolRegistration,
)

CODE = "def extension(pi): ...\n"


class Home:
    """A user, and a project of his."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = root / "home" / ".pi" / "agent"
        self.cwd = root / "work"
        self.project = self.cwd / ".pi"
        self.user.mkdir(parents=True)
        self.project.mkdir(parents=True)

    def add(self, *paths: str, text: str = CODE) -> None:
        for path in paths:
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def find(
        self,
        *named: str,
        user: tuple[str, ...] = (),
        project: tuple[str, ...] = (),
        packages: tuple[str, ...] = (),
        is_trusted: bool = True,
        is_discovering: bool = True,
        builtins: Mapping[str, bool] = {},  # never changed
    ) -> DiscoveredExtensions:
        settings = [
            ResourceSettings(self.project, True, extensions=project),
            ResourceSettings(self.user, False, packages=packages, extensions=user),
        ]
        env = {"HOME": str(self.root / "home")}
        names = resolve_named(named, str(self.cwd), env)
        return discover(ExtensionSources(env, str(self.cwd), settings, is_trusted, names, is_discovering, builtins))

    def names(self, found: DiscoveredExtensions) -> list[str]:
        return [os.path.relpath(each.entry, self.root) for each in found.candidates]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


USER = "home/.pi/agent/extensions"


def test_files_and_folders_of_the_user(home: Home) -> None:
    """One level deep, by name; `_` and `.` are not looked at."""
    home.add(f"{USER}/b.py", f"{USER}/a/extension.py", f"{USER}/a/__init__.py", f"{USER}/c/__init__.py")
    home.add(f"{USER}/_private.py", f"{USER}/.hidden.py", f"{USER}/_x/extension.py", f"{USER}/data/deep/extension.py")
    home.add(f"{USER}/notes.md", f"{USER}/node_modules/extension.py")
    found = home.find()
    assert [f"{USER}/a/extension.py", f"{USER}/b.py", f"{USER}/c/__init__.py"] == home.names(found)
    assert [None if each.folder is None else Path(each.folder).name for each in found.candidates] == ["a", None, "c"]
    assert {
        "path": str(home.root / USER / "b.py"),
        "source": "auto",
        "scope": "user",
        "origin": "top-level",
        "baseDir": str(home.user),
    } == found.candidates[1].source
    assert [] == found.failures
    assert [] == found.notices


def test_a_project_file_goes_before_the_usual_names(home: Home) -> None:
    home.add(f"{USER}/a/extension.py", f"{USER}/a/one.py", f"{USER}/a/src/two.py", f"{USER}/b/extension.py")
    home.add(f"{USER}/a/pyproject.toml", text='[tool.pinnace]\nextensions = ["src/two.py", "one.py"]\n')
    home.add(f"{USER}/b/pyproject.toml", text='[project]\nname = "b"\n')
    found = home.find()
    assert [f"{USER}/a/src/two.py", f"{USER}/a/one.py", f"{USER}/b/extension.py"] == home.names(found)
    assert str(home.root / USER / "a/src") == found.candidates[0].folder


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[tool", "can't be read: pyproject.toml is damaged"),
        ("[tool.pinnace]\nextensions = 3\n", "tool.pinnace.extensions must be a list of files"),
        ('[tool.pinnace]\nextensions = ["none.py"]\n', "is not a Python file"),
    ],
)
def test_a_project_file_that_makes_no_sense_is_a_failure(home: Home, text: str, error: str) -> None:
    """A gate that is left out in silence is worse than no start."""
    home.add(f"{USER}/a/extension.py")
    home.add(f"{USER}/a/pyproject.toml", text=text)
    found = home.find()
    assert [] == found.candidates
    assert 1 == len(found.failures)
    assert error in found.failures[0].error


def test_scripts_are_found_as_pi_finds_them(home: Home) -> None:
    """Files and folders with an index or a manifest; types and other modules are none."""
    home.add(f"{USER}/a.ts", f"{USER}/_b.js", f"{USER}/c/index.ts", f"{USER}/c/index.js", f"{USER}/types.d.ts")
    home.add(
        f"{USER}/d/package.json", f"{USER}/e/src/one.ts", f"{USER}/e/two/index.js", f"{USER}/lib.mjs", f"{USER}/ours.py"
    )
    home.add(f"{USER}/f/extension.py", f"{USER}/f/index.ts")
    manifest = '{"pi": {"extensions": ["src/one.ts", "two", "missing.ts"]}}'
    (home.root / USER / "e" / "package.json").write_text(manifest)
    (home.root / USER / "d" / "package.json").write_text("{}")
    found = home.find(user=(str(home.root / USER / "a.ts"),))
    names = ("a.ts", "_b.js", "c/index.ts", "e/src/one.ts", "e/two/index.js", "f/extension.py", "ours.py")
    assert [f"{USER}/{name}" for name in names] == home.names(found)
    assert [True] * 5 + [False] * 2 == [each.is_script for each in found.candidates]
    assert [] == found.failures


@pytest.mark.parametrize(
    ("text", "error"),
    [('{"pi": {"extensions": "one.ts"}}', "pi.extensions must be a list of paths"), ("{", "can't be read: Expecting")],
)
def test_a_damaged_manifest_is_a_failure(home: Home, text: str, error: str) -> None:
    home.add(f"{USER}/e/index.ts")
    (home.root / USER / "e" / "package.json").write_text(text)
    found = home.find()
    assert [] == found.candidates
    assert error in found.failures[0].error


def test_the_project_counts_only_when_trusted(home: Home) -> None:
    """Nothing of it is looked at, nothing it redirects counts."""
    home.add("work/.pi/extensions/gate.py", "work/.pi/other.py", f"{USER}/mine.py")
    trusted = home.find(project=("other.py",))
    assert ["work/.pi/other.py", "work/.pi/extensions/gate.py", f"{USER}/mine.py"] == home.names(trusted)
    assert ["project", "project", "user"] == [each.source["scope"] for each in trusted.candidates]
    untrusted = home.find(project=("other.py", "-builtin:gate", "none.py"), is_trusted=False, builtins={"gate": True})
    assert [f"{USER}/mine.py"] == home.names(untrusted)
    assert ["gate"] == untrusted.builtins
    assert [] == untrusted.failures


def test_the_order_is_that_of_the_places(home: Home) -> None:
    """Command line, project's settings and folder, user's settings and folder; a file counts where it is first."""
    home.add(
        "cli.py", "work/.pi/set.py", "work/.pi/extensions/p.py", "home/.pi/agent/set.py", f"{USER}/a.py", f"{USER}/u.py"
    )
    found = home.find("../cli.py", f"../{USER}/u.py", project=("set.py",), user=("set.py",))
    assert [
        "cli.py",
        f"{USER}/u.py",
        "work/.pi/set.py",
        "work/.pi/extensions/p.py",
        "home/.pi/agent/set.py",
        f"{USER}/a.py",
    ] == home.names(found)
    assert ["temporary", "temporary", "project", "project", "user", "user"] == [
        each.source["scope"] for each in found.candidates
    ]


def test_links_are_followed_and_the_same_file_is_one(home: Home) -> None:
    home.add(f"{USER}/a.py", "elsewhere/pack/extension.py")
    (home.root / USER / "b.py").symlink_to(home.root / USER / "a.py")
    (home.root / USER / "pack").symlink_to(home.root / "elsewhere/pack")
    (home.root / USER / "dangling.py").symlink_to(home.root / "none.py")
    assert [f"{USER}/a.py", f"{USER}/pack/extension.py"] == home.names(home.find())


def test_settings_choose_and_leave_out(home: Home) -> None:
    """`!`, `+`, `-` and globs, of files and of folders of extensions."""
    home.add(f"{USER}/a.py", f"{USER}/b.py", f"{USER}/pack/extension.py", f"{USER}/other/extension.py")
    assert [f"{USER}/b.py", f"{USER}/other/extension.py"] == home.names(
        home.find(user=("-extensions/a.py", "-extensions/pack"))
    )
    assert [f"{USER}/b.py", f"{USER}/pack/extension.py"] == home.names(
        home.find(user=("!*.py", "!other", "+extensions/b.py", "+extensions/pack"))
    )


def test_the_command_line_names_files_and_folders(home: Home) -> None:
    """A folder without an entry is searched."""
    home.add("one.py", "work/pack/extension.py", "many/x.py", "many/y/extension.py", "home/own.py")
    found = home.find("../one.py", "pack", str(home.root / "many"), "~/own.py")
    assert ["one.py", "work/pack/extension.py", "many/x.py", "many/y/extension.py", "home/own.py"] == home.names(found)
    assert {"cli"} == {each.source["source"] for each in found.candidates}


def test_without_discovery_only_the_command_line_counts(home: Home) -> None:
    home.add("one.py", f"{USER}/a.py", "work/.pi/extensions/p.py")
    found = home.find("../one.py", user=("a.py",), is_discovering=False, builtins={"gate": True})
    assert ["one.py"] == home.names(found)
    assert [] == found.builtins
    assert [] == found.failures


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("none.py", "does not exist"),
        ("notes.md", "is not a file in Python, TypeScript or JavaScript"),
        ("empty", "has no extension"),
        ("npm:@foo/bar", "the package is not installed"),
        ("git:github.com/a/b", "the package is not installed"),
        ("npm:../bar", "expected npm:NAME"),
        ("python:not-there-at-all", "the package not-there-at-all is not installed"),
        ("python:trio", "the package trio has no extension"),
        ("builtin:none", "there is no such built-in extension"),
    ],
)
def test_a_named_extension_that_can_not_be_loaded_is_a_failure(home: Home, word: str, error: str) -> None:
    home.add("work/notes.md")
    (home.cwd / "empty").mkdir()
    found = home.find(word)
    assert [] == found.candidates
    assert 1 == len(found.failures)
    assert error in found.failures[0].error


@pytest.mark.parametrize(
    ("manifest", "is_failure"),
    [
        ({"pi": {"skills": ["SKILL.md"]}}, False),
        ({"pi": {"skills": ["missing.md"]}}, True),
        ({"pi": {"skills": [], "extensions": ["missing.ts"]}}, True),
        ({"main": "missing.js"}, True),
        ({"main": "SKILL.md"}, True),
        ({}, True),
    ],
)
def test_a_package_of_the_command_line_needs_no_extension_if_it_has_something_else(
    home: Home, manifest: dict[str, object], is_failure: bool
) -> None:
    home.add("work/pack/SKILL.md")
    (home.cwd / "pack" / "package.json").write_text(json.dumps(manifest))
    found = home.find("pack")
    assert [] == found.candidates
    assert is_failure == bool(found.failures)


def test_a_missing_file_of_the_settings_is_a_failure(home: Home) -> None:
    assert [(str(home.user / "gate.py"), "does not exist")] == [
        each[:2] for each in home.find(user=("gate.py",)).failures
    ]


def test_built_in_extensions_can_be_switched_on_and_off(home: Home) -> None:
    """The project's settings go before the user's; -e goes before both."""
    both = {"gate": True, "extra": False}
    assert ["gate"] == home.find(builtins=both).builtins
    assert ["extra"] == home.find(user=("-builtin:gate", "builtin:extra"), builtins=both).builtins
    assert ["gate"] == home.find(user=("-builtin:gate",), project=("builtin:gate",), builtins=both).builtins
    assert ["gate", "extra"] == home.find("builtin:extra", builtins=both).builtins


def test_packages_that_are_missing_cost_nothing_else(home: Home) -> None:
    """What is wrong with them is among the notices of the folder's resources, once."""
    home.add(f"{USER}/a.py")
    found = home.find(packages=("npm:a", "git:b", "npm:../c"))
    assert [f"{USER}/a.py"] == home.names(found)
    assert ([], []) == (found.failures, found.notices)


def test_a_package_brings_its_entry_points() -> None:
    """Read as any program reads them; `pytest-trio` has one, of another group."""
    assert packages.package_candidates("not-there-at-all") is None
    assert [] == packages.package_candidates("trio")
    assert distribution("pytest-trio").entry_points


def test_a_folder_that_is_open_to_all_is_refused_whole(home: Home) -> None:
    """Security 4: anybody could put an extension there."""
    home.add(f"{USER}/a.py")
    (home.root / USER).chmod(0o1777)
    found = home.find()
    assert [] == found.candidates
    assert "is writable by everyone" in found.failures[0].error


# What may be run, and what identifies it.


def test_files_that_anybody_may_change_are_refused(home: Home) -> None:
    home.add("one.py", "pack/extension.py", "pack/deep/helper.py", "open/x.py")
    check_files(str(home.root / "one.py"), None)
    check_files(str(home.root / "pack/extension.py"), str(home.root / "pack"))
    (home.root / "one.py").chmod(0o666)
    (home.root / "pack/deep/helper.py").chmod(0o602)
    (home.root / "open").chmod(0o777)
    for entry, folder in (("one.py", None), ("pack/extension.py", "pack"), ("open/x.py", None)):
        with pytest.raises(SourceRefused, match="chmod o-w"):
            check_files(str(home.root / entry), None if folder is None else str(home.root / folder))


def test_a_file_in_a_sticky_folder_is_its_owners(home: Home) -> None:
    """As everything below /tmp is."""
    home.add("tmp/x.py", "tmp/pack/extension.py")
    (home.root / "tmp").chmod(0o1777)
    check_files(str(home.root / "tmp/x.py"), None)
    (home.root / "tmp/pack").chmod(0o1777)
    with pytest.raises(SourceRefused, match="is writable by everyone"):
        check_files(str(home.root / "tmp/pack/extension.py"), str(home.root / "tmp/pack"))


def test_an_irregular_or_too_large_file_is_rejected(home: Home) -> None:
    os.mkfifo(home.root / "pipe.py")
    with pytest.raises(SourceRefused, match="is not a regular file"):
        check_files(str(home.root / "pipe.py"), None)
    with open(home.root / "huge.py", "wb") as file:
        file.truncate(9 * 1024 * 1024)
    with pytest.raises(SourceRefused, match="the limit is"):
        check_files(str(home.root / "huge.py"), None)
    with pytest.raises(SourceRefused, match="can't be read"):
        check_files(str(home.root / "none.py"), None)


def test_a_fingerprint_is_of_all_sources(home: Home) -> None:
    home.add("pack/extension.py", "pack/deep/helper.py")
    entry, folder = str(home.root / "pack/extension.py"), str(home.root / "pack")
    before = fingerprint(entry, folder)
    home.add("pack/__pycache__/x.py", "pack/notes.md")
    assert before == fingerprint(entry, folder)
    home.add("pack/deep/helper.py", text="x = 1\n")
    assert before != fingerprint(entry, folder)
    assert fingerprint(entry, None) != before


# Which of several counts.


def extension(path: str, *tools: str, flags: tuple[str, ...] = (), is_replaceable: bool = False) -> Extension:
    source = Candidate(path, {"path": path, "source": "auto", "scope": "user", "origin": "top-level"}).source
    made = Extension(path, source, Generation(), "live", is_replaceable)
    for name in tools:
        definition = ToolDefinition(name, path, {"type": "object"}, lambda ctx, params: None)
        made.tools[name] = ToolRegistration(definition, source)
    for name in flags:
        made.flags[name] = FlagRegistration(name, bool, None)
    return made


def test_the_first_that_was_loaded_has_the_tool() -> None:
    first, second = extension("a.py", "x"), extension("b.py", "x", "y")
    assert [("x", "a.py"), ("y", "b.py")] == [
        (name, each.extension.path) for name, each in tools_of([first, second]).items()
    ]


def test_the_same_tool_or_flag_twice_is_a_conflict() -> None:
    """Of every one but the first."""
    found = conflicts(
        [extension("a.py", "x", flags=("f",)), extension("b.py", "x", flags=("f",)), extension("c.py", "y")]
    )
    assert [
        ("b.py", "the tool x is registered by a.py as well"),
        ("b.py", "the flag --f is registered by a.py as well"),
    ] == [each[:2] for each in found]


def test_a_replaceable_extension_is_left_out() -> None:
    """Before conflicts are looked for."""
    ours, other, theirs = (
        extension("builtin:a", "x", is_replaceable=True),
        extension("builtin:b", "y", is_replaceable=True),
        extension("c.py", "x"),
    )
    kept = keep_needed([ours, other, theirs])
    assert [other, theirs] == kept.extensions
    assert [ours] == kept.left_out
    assert ["builtin:a is left out: c.py has the tool x as well"] == kept.warnings
    assert [] == conflicts(kept.extensions)
