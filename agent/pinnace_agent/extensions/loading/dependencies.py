"""The Python packages that an extension declares, checked before it is imported.

Declared in the file as in PEP 723 (`# /// script`), or in the `pyproject.toml` of its folder (`project.dependencies`,
`project.requires-python`). Nothing is installed: missing packages are an error that names them.
"""

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.core.json_values import is_list, is_object

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_BLOCK_START: Final = re.compile(r"# /// ([a-zA-Z0-9-]+)\Z")
_BLOCK_END: Final = "# ///"


class DependencyError(Exception):
    """A declared dependency is missing, or the declaration is invalid; the text says what to do."""


class DependencyDeclaration(NamedTuple):
    """The declaration of an extension."""

    dependencies: Sequence[str] = ()
    requires_python: str | None = None


def check_dependencies(entry: str, folder: str | None) -> None:
    """Check that every declared dependency of an extension is installed.

    Raises:
        DependencyError: One is missing; the text names it, and the Python that needs it.
        OSError: A file can't be read.
    """
    for declaration in _declarations(entry, folder):
        if declaration.requires_python:
            _check_python(declaration.requires_python)
        missing = [each for text in declaration.dependencies if (each := _missing(text)) is not None]
        if missing:
            reasons = "; ".join(f"{each.requirement} ({each.reason})" for each in missing)
            # No command to copy: a package name that is unregistered today may be registered by an attacker tomorrow.
            raise DependencyError(
                f"needs {reasons}. Ask its author where they come from, and install them for {sys.executable}"
            )


def _declarations(entry: str, folder: str | None) -> list[DependencyDeclaration]:
    # Invalid UTF-8 is reported when the file is compiled.
    source = Path(entry).read_bytes().decode("utf-8", "replace")
    declarations = [inline_declaration(source)]
    if folder is not None and (project := Path(folder) / "pyproject.toml").is_file():
        declarations.append(project_declaration(read_toml(project)))
    return declarations


def read_toml(path: Path) -> Mapping[str, object]:
    """Read a TOML file.

    Raises:
        DependencyError: The file is invalid.
        OSError: The file can't be read.
    """
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DependencyError(f"{path.name} is damaged: {error}") from error


def inline_declaration(source: str) -> DependencyDeclaration:
    """Read the block of a script's metadata, if there is one (PEP 723).

    Raises:
        DependencyError: It is invalid, or there are two.
    """
    blocks = _script_blocks(source)
    if len(blocks) > 1:
        raise DependencyError("has more than one block of script metadata")
    if not blocks:
        return DependencyDeclaration()
    import tomllib

    try:
        content = tomllib.loads(blocks[0])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DependencyError(f"its script metadata is damaged: {error}") from error
    return _declaration("script metadata", content, "dependencies", "requires-python")


def project_declaration(content: Mapping[str, object]) -> DependencyDeclaration:
    """Read the `project` table of a pyproject.toml.

    Raises:
        DependencyError: It is damaged.
    """
    project = content.get("project", {})
    if not is_object(project):
        raise DependencyError("project in pyproject.toml must be a table")
    return _declaration("pyproject.toml", project, "dependencies", "requires-python")


def _script_blocks(source: str) -> list[str]:
    """Return the contents of the blocks of type script. An unterminated block is ignored."""
    blocks: list[str] = []
    lines = source.splitlines()
    at = 0
    while at < len(lines):
        start = _BLOCK_START.match(lines[at])
        at += 1
        if start is None:
            continue
        end = at
        while end < len(lines) and (lines[end] == "#" or lines[end].startswith("# ")):
            end += 1
        # The last end marker of the comment counts, because the TOML may contain such a line.
        closing = next((each for each in range(end - 1, at - 1, -1) if lines[each] == _BLOCK_END), None)
        if closing is not None:
            if start[1] == "script":
                blocks.append("\n".join(line[2:] for line in lines[at:closing]))
            at = closing + 1
    return blocks


def _declaration(place: str, table: Mapping[str, object], dependencies: str, python: str) -> DependencyDeclaration:
    listed, required = table.get(dependencies, []), table.get(python)
    if not is_list(listed) or not all(isinstance(each, str) for each in listed):
        raise DependencyError(f"{dependencies} in its {place} must be a list of strings")
    if required is not None and not isinstance(required, str):
        raise DependencyError(f"{python} in its {place} must be a string")
    return DependencyDeclaration([each for each in listed if isinstance(each, str)], required)


def _check_python(specifier: str) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    version = platform.python_version()
    try:
        is_met = SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier as error:
        raise DependencyError(f"its requires-python is damaged: {error}") from error
    if not is_met:
        raise DependencyError(f"needs Python {specifier}, and this is {version}")


class _Missing(NamedTuple):
    requirement: str
    reason: str


def _missing(text: str) -> _Missing | None:
    """Return why a requirement is not met; None: it is met, or does not apply to this system."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise DependencyError(f"its dependency {text!r} can't be understood: {error}") from error
    if requirement.marker is not None and not requirement.marker.evaluate():
        return None
    reason = _problem(requirement)
    return None if reason is None else _Missing(text.strip(), reason)


def _problem(requirement: "Requirement") -> str | None:
    from importlib import metadata

    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return "not installed"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{version} is installed"
