"""Whether what a project brings is still what the user has trusted.

A digest of the files that need trust is kept beside the decision when it is made, in a file of ours: pi's own file
holds nothing but decisions. With the setting `recheckProjectTrust` a project that has changed since is not trusted
until the user decides again. Loaded only where that setting is on, or a decision is kept. Reads files. A link counts by
where it points, not by what is there.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pinnace_agent.resources.paths import gated_project_files
from pinnace_agent.resources.relaxed_json import ConfigurationFileError, JsonObject, read_object
from pinnace_agent.resources.trust import save_decision

NAME: Final = "trust-digests.json"
_PIECE: Final = 1 << 20


def digests_file(trust_file: Path) -> Path:
    """Return where digests are kept: beside the decisions."""
    return trust_file.with_name(NAME)


def digest_of(gated: Sequence[Path]) -> str:
    """Return what tells the content of these files and folders from any other."""
    total = hashlib.sha256()
    for root in sorted(gated):
        for path in _files(root):
            total.update(f"{root.name}/{os.path.relpath(path, root)}\0".encode("utf-8", "surrogateescape"))
            total.update(_content(path))
    return total.hexdigest()


def is_changed(trust_file: Path, folder: Path, gated: Sequence[Path]) -> bool:
    """Tell whether a project is not what was trusted; so is one of which nothing is kept.

    Args:
        trust_file: Where decisions are.
        folder: The project's.
        gated: What it brings that needs trust.
    """
    try:
        kept = read_object(digests_file(trust_file), is_relaxed=False) or {}
    except ConfigurationFileError:
        return True
    return kept.get(os.path.realpath(folder)) != digest_of(gated)


def keep_decision(path: Path, folder: Path, env: Mapping[str, str], *, decision: bool) -> bool:
    """Keep a decision about a project, with what it brings now if it is trusted; return whether that is new.

    Raises:
        ConfigurationFileError: A file can't be read, so it is left as it is.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written, or the project can't be read.
    """
    is_new = save_decision(path, folder, decision)
    if decision and (gated := gated_project_files(folder.absolute(), env)):
        keep_digest(path, folder, gated)
    return is_new


def keep_digest(trust_file: Path, folder: Path, gated: Sequence[Path]) -> None:
    """Remember what is trusted now.

    Raises:
        ConfigurationFileError: The file can't be read, so it is left as it is.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written, or the project can't be read.
    """
    name, digest = os.path.realpath(folder), digest_of(gated)

    def change(content: JsonObject) -> JsonObject:
        return {**content, name: digest}

    from pinnace_agent.resources.json_file import FileForm, edit_object

    edit_object(digests_file(trust_file), change, FileForm(_encode))


def _files(root: Path) -> Iterator[Path]:
    if root.is_symlink() or not root.is_dir():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*names, *links]):
            yield Path(folder, name)


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return b"link " + os.fsencode(os.readlink(path))
    if not path.is_file():
        return b"other"
    content = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                content.update(piece)
    except OSError:
        # What can't be read can't be loaded either; it must not be taken for what was read before.
        return b"unreadable"
    return content.digest()


def _encode(content: JsonObject) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
