"""The manifests of extensions in TypeScript and JavaScript: fields of a package.json. Runs nothing."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pinnace_agent.core.json_values import is_list, is_object


class ManifestError(Exception):
    """A package.json can't be used; the text names the field."""


def listed_extensions(manifest: str) -> list[str]:
    """Return the files and folders that a package.json lists and that are there, as absolute paths.

    Raises:
        ManifestError: It can't be read, or `pi.extensions` is not a list of paths.
    """
    pi = _content(manifest).get("pi")
    listed = pi.get("extensions") if is_object(pi) else None
    if listed is None:
        return []
    if not is_list(listed) or not all(isinstance(each, str) for each in listed):
        raise ManifestError("pi.extensions must be a list of paths")
    paths = [os.path.normpath(os.path.join(os.path.dirname(manifest), str(each))) for each in listed]
    return [path for path in paths if os.path.exists(path)]


def main_file(manifest: str) -> str | None:
    """Return the file that a package.json names as `main`, as an absolute path; None: it names none that is there.

    Raises:
        ManifestError: It can't be read.
    """
    main = _content(manifest).get("main")
    if not isinstance(main, str):
        return None
    path = os.path.normpath(os.path.join(os.path.dirname(manifest), main))
    return path if os.path.isfile(path) else None


def _content(manifest: str) -> Mapping[str, object]:
    try:
        content: object = json.loads(Path(manifest).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"can't be read: {error}") from error
    return content if is_object(content) else {}
