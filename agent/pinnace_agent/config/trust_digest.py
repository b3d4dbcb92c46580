"""Whether the files that a project brings are still those that the user has trusted.

A digest is stored beside the decision, in a file of its own: pi's file holds nothing but decisions. With the setting
`recheckProjectTrust`, a project whose digest has changed is not trusted until the user decides again. The digest covers
every file that trust lets the agent execute or read as instructions: those in `.pi` and `.agents`, those that the
project's settings and its extensions' `pyproject.toml` name elsewhere, its packages of npm, git and folders, and the
targets of links; not the programs of the system and no installed Python packages. Imported only where that setting is
on, or a decision is stored.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace_agent.config.trust import save_decision
from pinnace_agent.files.opener import FileRefused, Reach, open_file
from pinnace_agent.files.paths import expand_home, gated_project_files, project_dir
from pinnace_agent.files.protected import Places, is_inside
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object

if TYPE_CHECKING:  # loaded with the first digest
    from pinnace_agent.config.settings import ResourceSettings

NAME: Final = "trust-digests.json"
# A project brings a few dozen small files; one with more leads, by a link, to a disk.
MAX_NAMES: Final = 20_000
MAX_BYTES: Final = 256 * 1024 * 1024
_PIECE: Final = 1 << 20
_ANY_FILE: Final = Reach(frozenset(), Places())
# The user updates the system, and an update changes these.
_SYSTEM: Final = ("/bin", "/sbin", "/usr", "/nix/store")
_WORD: Final = re.compile(r"[^\s;&|()<>'\"=]+")


def digests_file(trust_file: Path) -> Path:
    """Return the file of digests, beside the decisions."""
    return trust_file.with_name(NAME)


def digest_of(folder: Path, gated: Sequence[Path], env: Mapping[str, str]) -> str:
    """Return the digest of everything that a trusted project brings.

    Args:
        folder: The project's folder.
        gated: What in it needs trust.
        env: The environment, for paths with `~`.

    Raises:
        OSError: There is too much of it.
    """
    digest = _Digest()
    for root in sorted(gated):
        digest.add(f"{root.name}/", str(root))
    for path in sorted(set(_named(folder, gated, env))):
        digest.add(f"named {path}", path)
    return digest.total.hexdigest()


def is_changed(trust_file: Path, folder: Path, gated: Sequence[Path], env: Mapping[str, str]) -> bool:
    """Return whether a project differs from what was trusted, as does a project without a stored digest.

    Args:
        trust_file: The file of decisions.
        folder: The project's folder.
        gated: What it brings that needs trust.
        env: The environment.
    """
    try:
        kept = read_object(digests_file(trust_file), is_relaxed=False) or {}
        return kept.get(os.path.realpath(folder)) != digest_of(folder, gated, env)
    except (ConfigurationFileError, OSError):
        return True


def keep_decision(path: Path, folder: Path, env: Mapping[str, str], *, decision: bool) -> bool:
    """Store a decision about a project, and its digest if it is trusted; return whether the decision is new.

    Raises:
        ConfigurationFileError: A file can't be read, so it is left as it is.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written, or the project can't be read.
    """
    is_new = save_decision(path, folder, decision)
    if decision and (gated := gated_project_files(folder.absolute(), env)):
        keep_digest(path, folder.absolute(), gated, env)
    return is_new


def keep_digest(trust_file: Path, folder: Path, gated: Sequence[Path], env: Mapping[str, str]) -> None:
    """Store the digest of a project as it is now.

    Raises:
        ConfigurationFileError: The file can't be read, so it is left as it is.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written, or the project can't be read.
    """
    name, digest = os.path.realpath(folder), digest_of(folder, gated, env)

    def change(content: JsonObject) -> JsonObject:
        return {**content, name: digest}

    from pinnace_agent.files.json_file import FileForm, edit_object

    edit_object(digests_file(trust_file), change, FileForm(_encode))


class _Digest:
    """The SHA-256 of files, by their names and contents; links are followed."""

    def __init__(self) -> None:
        self.total = hashlib.sha256()
        self._folders: set[tuple[int, int]] = set()
        self._names = 0
        self._bytes = 0

    def add(self, name: str, path: str) -> None:
        """Add a file, or a folder with all that is in it.

        Raises:
            OSError: There is too much of it.
        """
        waiting = [(name, path)]
        while waiting:
            name, path = waiting.pop()
            self._names += 1
            if self._names > MAX_NAMES:
                raise OSError(f"it brings more than {MAX_NAMES} files, so they can't be remembered")
            below = self._folder(path)
            what = b"folder" if below is not None else self._content(path)
            link = b" by " + os.fsencode(os.readlink(path)) if os.path.islink(path) else b""
            for part in (name.encode("utf-8", "surrogateescape"), what, link):
                self.total.update(b"%d " % len(part) + part)
            waiting += [(f"{name}/{each}", os.path.join(path, each)) for each in below or ()]

    def _folder(self, path: str) -> list[str] | None:
        """Return the names in a folder, none for one that was added before; None if it is no folder."""
        try:
            status = os.stat(path)
            names = sorted(os.listdir(path), reverse=True)
        except OSError:
            return None
        identity = status.st_dev, status.st_ino
        if identity in self._folders:
            return []
        self._folders.add(identity)
        # The database of a repository is not executed, and changes with each commit.
        return [each for each in names if each != ".git"]

    def _content(self, path: str) -> bytes:
        if not os.path.exists(path):
            return b"nothing"
        content = hashlib.sha256()
        try:
            with open_file(path, _ANY_FILE) as file, open(file.descriptor, "rb", closefd=False) as stream:
                while piece := stream.read(_PIECE):
                    self._bytes += len(piece)
                    if self._bytes > MAX_BYTES:
                        break
                    content.update(piece)
        except FileRefused:
            return b"other"
        except OSError:
            # An unreadable file can't be loaded either; it must not count as its former content.
            return b"unreadable"
        if self._bytes > MAX_BYTES:
            raise OSError(f"it brings more than {MAX_BYTES // 1024**2} MiB, so they can't be remembered")
        return content.digest()


def _named(folder: Path, gated: Sequence[Path], env: Mapping[str, str]) -> Iterator[str]:
    """Yield the files and folders that the project names outside of its own folders of resources."""
    # Imported here: `config` imports nothing of `extensions` otherwise, and most processes need none of it.
    from pinnace_agent.config.path_entries import FOLDER_FILES, PathEntries
    from pinnace_agent.config.settings import Settings, settings_in
    from pinnace_agent.config.settings_reader import read_scope
    from pinnace_agent.extensions.loading.discovery import ExtensionSources, discover

    file = project_dir(folder) / "settings.json"
    settings = settings_in(read_scope(file, is_project=True)).settings if file in gated else Settings()
    # All entries, whatever the patterns leave out: the digest does not depend on how patterns are read.
    for each in settings.resources:
        for entries in (each.extensions, each.skills, each.prompts, each.themes):
            for path in PathEntries([word.lstrip("+") for word in entries], str(each.folder), env).paths:
                yield os.path.dirname(path) if os.path.basename(path) in FOLDER_FILES else path
    found = discover(ExtensionSources(env=env, cwd=str(folder), settings=settings.resources, is_trusted=True))
    for candidate in found.candidates:
        if candidate.source.get("scope") == "project" and candidate.attribute is None:
            yield candidate.folder or candidate.entry
    yield from _packages(folder, settings.resources, env)
    words = [settings.shell_path or "", *_WORD.findall(settings.shell_command_prefix or "")]
    for word in words:
        path = os.path.join(folder, expand_home(word, env))
        if word and os.path.isfile(path) and not any(is_inside(os.path.realpath(path), each) for each in _SYSTEM):
            yield path


def _packages(folder: Path, resources: "Sequence[ResourceSettings]", env: Mapping[str, str]) -> Iterator[str]:
    """Yield what packages of the project consist of, with all that is installed for them."""
    if not any(each.packages for each in resources):
        return
    from pinnace_agent.packages.resolution import resolve_settings

    yield from (str(place) for name in ("npm", "git") if os.path.isdir(place := project_dir(folder) / name))
    for files in resolve_settings(resources, env).files.values():
        for file in files:
            yield os.path.dirname(file.path) if os.path.basename(file.path) == "SKILL.md" else file.path


def _encode(content: JsonObject) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
