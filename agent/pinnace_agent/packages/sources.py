"""The sources of packages: `npm:NAME[@VERSION]`, `git:HOST/PATH[@REF]`, an address of a repository, or a path.

A source that could lead out of the folder of packages, or that npm or git would read as an option, is refused. Equal
identities name the same package, whatever its version. Decides on texts and paths; reads no files.
"""

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from pinnace_agent.files.paths import agent_dir, expand_home, project_dir
from pinnace_agent.packages.words import GIT_PREFIX, NPM_PREFIX, is_remote

Scope = Literal["user", "project", "temporary"]

# As texts: what is seldom needed is compiled with its first use.
_NPM_NAME: Final = r"(?i)(?:@[a-z0-9~_-][a-z0-9._~-]*/)?[a-z0-9~_][a-z0-9._~-]*"
_NPM_VERSION: Final = r"[A-Za-z0-9~^<>=*][A-Za-z0-9.+~^<>=*| -]*"
_EXACT: Final = r"[v=\s]*\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
_ADDRESS: Final = r"(?i)(?:https?|ssh|git)://"
_HOST: Final = r"[A-Za-z0-9][A-Za-z0-9.-]*"
_REF: Final = r"[A-Za-z0-9_][A-Za-z0-9._/+@#-]*"
# Whose addresses with `www.` name the same repositories.
_HOSTS: Final = frozenset({"github.com", "gitlab.com", "bitbucket.org"})
# Git's own rules for names of refs.
_NOT_IN_REF: Final = ("..", "@{", "//", "/.")


class SourceError(ValueError):
    """A source is invalid; the text names it and what was expected."""


class NpmSource(NamedTuple):
    """A package of npm."""

    name: str
    version: str | None = None
    """A version, a range or a tag; None: the newest."""

    @property
    def spec(self) -> str:
        """What npm installs."""
        return self.name if self.version is None else f"{self.name}@{self.version}"

    @property
    def is_pinned(self) -> bool:
        """Whether it is one exact version, which no update changes."""
        return self.version is not None and re.fullmatch(_EXACT, self.version) is not None


class GitSource(NamedTuple):
    """A repository."""

    url: str
    host: str
    path: str
    """Without `.git`."""
    ref: str | None = None
    """A branch, a tag or a commit; None: the default branch."""


class FolderSource(NamedTuple):
    """A folder or a file, used where it is."""

    path: str
    """As it was written."""


Source = NpmSource | GitSource | FolderSource


def parse_source(text: str) -> Source:
    """Parse a source.

    Raises:
        SourceError: It is invalid.
    """
    source = text.strip()
    if not source or not source.isprintable():
        raise SourceError(f"{text!r}: expected npm:NAME[@VERSION], git:HOST/PATH[@REF] or a path")
    if source.startswith(NPM_PREFIX):
        return _npm(source)
    if source.startswith(GIT_PREFIX) or re.match(_ADDRESS, source):
        return _git(source)
    if is_remote(source):
        raise SourceError(f"{source}: expected git:HOST/PATH[@REF] or an address such as https://HOST/PATH")
    return FolderSource(source)


def _npm(source: str) -> NpmSource:
    spec = source.removeprefix(NPM_PREFIX).strip()
    place = spec.find("@", 1)
    name, version = (spec, None) if place < 0 else (spec[:place], spec[place + 1 :].strip())
    if not re.fullmatch(_NPM_NAME, name) or name in ("node_modules", "favicon.ico"):
        raise SourceError(f"{source}: {name!r} is no name of an npm package; expected npm:NAME or npm:@SCOPE/NAME")
    if version is not None and not re.fullmatch(_NPM_VERSION, version):
        raise SourceError(f"{source}: {version!r} is no version; expected one such as 1.2.3, ^1.2 or a tag")
    return NpmSource(name, version)


def _git(source: str) -> GitSource:
    address = source.removeprefix(GIT_PREFIX).strip() if source.startswith(GIT_PREFIX) else source
    expected = (
        f"{source}: expected git:HOST/PATH[@REF], git:git@HOST:PATH[@REF] or an address such as https://HOST/PATH"
    )
    if found := re.fullmatch(r"git@([^:]+):(.+)", address):
        host, (path, ref) = found[1], _divided(found[2])
        url = f"git@{host}:{path}"
    elif "://" in address:
        if not re.match(_ADDRESS, address):
            raise SourceError(f"{source}: expected an address with https, http, ssh or git")
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
            _ = parts.port
        except ValueError:
            raise SourceError(expected) from None
        path, ref = _divided(parts.path.lstrip("/"))
        ref = ref or parts.fragment or None
        url = urlunsplit((parts.scheme, parts.netloc, f"/{path}", parts.query, "")).rstrip("/")
    else:
        host, _, rest = address.partition("/")
        path, ref = _divided(rest)
        if "." not in host and host != "localhost":
            raise SourceError(expected)
        url = f"https://{host}/{path}"
    host = host.removeprefix("www.") if host.removeprefix("www.") in _HOSTS else host
    path = path.strip("/").removesuffix(".git")
    if not re.fullmatch(_HOST, host) or len(path.split("/")) < 2 or not _is_inside(path):
        raise SourceError(expected)
    if ref is not None and (
        not re.fullmatch(_REF, ref) or any(each in ref for each in _NOT_IN_REF) or ref.endswith((".", "/", ".lock"))
    ):
        raise SourceError(f"{source}: {ref!r} is no name of a branch, a tag or a commit")
    return GitSource(url, host, path, ref)


def _divided(path: str) -> tuple[str, str | None]:
    """Divide a path from the ref behind it."""
    for mark in ("@", "#"):
        before, found, ref = path.partition(mark)
        if found and before and ref:
            return before, ref
    return path, None


def _is_inside(path: str) -> bool:
    """Return whether each part of a path is the name of a folder, also after `%2e` and the like are decoded."""
    for text in (path, unquote(path)):
        parts = text.split("/")
        if "\\" in text or "\0" in text or any(part in ("", ".", "..") for part in parts):
            return False
    return ".git" not in path.lower().split("/")


class Places(NamedTuple):
    """Where the packages of one scope are, as pi lays them out."""

    scope: Scope
    base: Path
    """What relative paths of its settings are relative to."""
    root: Path
    """The folder in which `npm` and `git` are."""

    @property
    def settings(self) -> Path:
        """The file of settings that names its packages."""
        return self.base / "settings.json"

    @property
    def npm(self) -> Path:
        """The root of npm packages: `package.json` and `node_modules`."""
        if self.scope == "temporary":
            return self.root / "npm" / _digest("npm-")
        return self.root / "npm"

    def installed(self, source: Source, env: Mapping[str, str]) -> Path:
        """Return where a package is, or would be."""
        match source:
            case NpmSource(name):
                return self.npm / "node_modules" / name
            case GitSource(_, host, path, ref):
                if self.scope != "temporary":
                    return self.root / "git" / host / path
                kind = f"git-{host}"
                return self.root / kind / _digest(f"{kind}-{path}{f'@{ref}' if ref else ''}") / path
            case FolderSource(path):
                return Path(os.path.normpath(self.base / expand_home(_local(path), env)))

    def identity(self, source: Source, env: Mapping[str, str]) -> str:
        """Return what is equal for the same package, whatever its version and the form of its address."""
        match source:
            case NpmSource(name):
                return f"npm:{name}"
            case GitSource(_, host, path):
                return f"git:{host}/{path}"
            case FolderSource():
                return f"local:{self.installed(source, env)}"


def places_of(scope: Scope, env: Mapping[str, str], cwd: Path) -> Places:
    """Return the places of a scope; relative paths of the temporary one are relative to `cwd`."""
    if scope == "project":
        return Places(scope, project_dir(cwd), project_dir(cwd))
    user = agent_dir(env)
    return Places(scope, user, user) if scope == "user" else Places(scope, cwd, user / "tmp" / "extensions")


def _local(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file://") else path


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]
