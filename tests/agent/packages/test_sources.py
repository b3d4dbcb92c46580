"""The sources of packages: what each names, where it is kept, and what is refused."""

from pathlib import Path

import pytest

from pinnace_agent.packages.sources import (
    FolderSource,
    GitSource,
    NpmSource,
    Source,
    SourceError,
    parse_source,
    places_of,
)
from pinnace_agent.packages.versions import is_newer, meets, newest

ENV = {"HOME": "/users/u"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("npm:one", NpmSource("one")),
        ("npm:@scope/one@1.2.3", NpmSource("@scope/one", "1.2.3")),
        ("npm:one@^1 || 2.x", NpmSource("one", "^1 || 2.x")),
        (" npm:one@latest ", NpmSource("one", "latest")),
        ("git:github.com/a/b", GitSource("https://github.com/a/b", "github.com", "a/b")),
        ("git:github.com/a/b.git@v1", GitSource("https://github.com/a/b.git", "github.com", "a/b", "v1")),
        ("https://www.github.com/a/b#v1", GitSource("https://www.github.com/a/b", "github.com", "a/b", "v1")),
        ("https://u:p@h.example:8/g/s/r@x/y", GitSource("https://u:p@h.example:8/g/s/r", "h.example", "g/s/r", "x/y")),
        ("ssh://git@h.example/a/b", GitSource("ssh://git@h.example/a/b", "h.example", "a/b")),
        ("git:git@h.example:a/b.git@1f", GitSource("git@h.example:a/b.git", "h.example", "a/b", "1f")),
        ("git:localhost/a/b", GitSource("https://localhost/a/b", "localhost", "a/b")),
        ("./a", FolderSource("./a")),
        ("~/a", FolderSource("~/a")),
        ("a/b", FolderSource("a/b")),
        ("git@h.example:a/b", FolderSource("git@h.example:a/b")),
    ],
)
def test_a_source_names_what_it_names_for_pi(text: str, source: Source) -> None:
    assert source == parse_source(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "npm:", "npm:a/b", "npm:.hidden", "npm:node_modules", "npm:a@", "npm:a@npm:b", "npm:a@-g"),
        *("npm:a@git+ssh://x", "git:", "git:a/b/c", "git:h.example/a", "https://h.example/a", "git:h.example/./a"),
        *("git:h.example/a/.git/hooks", "git:h.example/a/b@../x", "git:h.example/a/b@a..b"),
        *("git:h.example/a/b@x.lock", "http://[::1/a/b", "a\0b"),
    ],
)
def test_a_source_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match=r"expected|no name|no version"):
        parse_source(text)


def test_packages_are_where_pi_has_them() -> None:
    """The digests of temporary packages are those that pi 1.5.2 computes."""
    user, project, temporary = (places_of(scope, ENV, Path("/w")) for scope in ("user", "project", "temporary"))
    npm, git = parse_source("npm:@s/one@1"), parse_source("git:h.example/a/b@v1")
    assert Path("/users/u/.pi/agent/npm/node_modules/@s/one") == user.installed(npm, ENV)
    assert Path("/w/.pi/npm/node_modules/@s/one") == project.installed(npm, ENV)
    assert Path("/w/.pi/git/h.example/a/b") == project.installed(git, ENV)
    root = Path("/users/u/.pi/agent/tmp/extensions")
    assert root / "npm" / "f35b2129" / "node_modules" / "@s" / "one" == temporary.installed(npm, ENV)
    assert root / "git-h.example" / "5753f494" / "a" / "b" == temporary.installed(git, ENV)
    folder = parse_source("../x")
    assert [Path("/users/u/.pi/x"), Path("/w/x"), Path("/x")] == [
        each.installed(folder, ENV) for each in (user, project, temporary)
    ]
    assert Path("/users/u/y") == user.installed(parse_source("~/y"), ENV)


def test_the_same_package_has_one_identity() -> None:
    user = places_of("user", ENV, Path("/w"))
    for same in (
        ("npm:one", "npm:one@1.0.0"),
        ("git:h.example/a/b", "https://h.example/a/b.git@v1", "ssh://git@h.example/a/b", "git:git@h.example:a/b"),
        ("./a", "a", "/users/u/.pi/agent/a", "~/.pi/agent/a"),
    ):
        assert 1 == len({user.identity(parse_source(each), ENV) for each in same})


@pytest.mark.parametrize(
    ("installed", "wanted", "is_met"),
    [
        ("1.4.2", "^1.2", True),
        ("2.0.0", "^1.2", False),
        ("1.0.0", "latest", True),
        ("1.0.0", "1.x", True),
        ("1.2.3", "=v1.2.3", True),
        ("1.2.3", ">=1 <2", True),
        ("1.2.3", "1.2.4", False),
        ("3.0.0", "^1 || ^3", True),
        ("1.0.0-rc.1", "1.0.0", False),
        ("not a version", "1.0.0", False),
    ],
)
def test_versions_are_compared_as_npm_compares_them(installed: str, wanted: str, is_met: bool) -> None:
    assert is_met == meets(installed, wanted)


def test_the_newest_version_in_a_range_is_found() -> None:
    assert "1.10.0" == newest(["1.9.0", "1.10.0", "2.0.0", "x"], "^1")
    assert newest([], None) is None
    assert is_newer("1.10.0", "1.9.0")
    assert not is_newer("1.0.0-rc.1", "1.0.0")
