"""Exports a session: the entry point of this package.

The file is written whole or not at all. Only its owner can read it, since sessions hold what tools have read. It
replaces regular files only, never the session itself. Blocks for seconds: call it from a thread. Has no access to
commands, nor to where sessions come from.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pinnace_agent.export.source import Source, read_source, redacted, session_lines
from pinnace_agent.files.atomic_file import replace_file
from pinnace_agent.files.paths import expand_home
from pinnace_spec.rules import errors
from pinnace_spec.wire.json_text import encode_record

# Packages that nothing but an export needs, by the names that they are imported by.
_PACKAGES: Final = frozenset({"jinja2", "markupsafe", "markdown_it", "mdurl", "pygments"})


def export_page(
    source: Source,
    wanted: str | None,
    *,
    cwd: str,
    env: Mapping[str, str],
    only_active: bool = False,
    check: Callable[[], object] = lambda: None,
) -> str:
    """Write a session as a page and return the path that was written, as it was given.

    Args:
        source: The session.
        wanted: Where to; None or empty: `pi-session-<name>.html` in `cwd`.
        cwd: What relative paths start from.
        env: Knows the home folder.
        only_active: Leave the other branches out.
        check: Called often; what it raises ends the work, and no file is left.

    Raises:
        ClientError: It can't be written, or a package is not installed; what was there is as it was.
    """
    name = target_name(source.path, wanted, env)
    write_target(name, source.path, _page(redacted(source), only_active=only_active, check=check), cwd)
    return name


# DEVIATION D-38: a session where one is asked for, and nothing but reading.
def export_lines(source: Source, wanted: str | None, *, cwd: str, env: Mapping[str, str]) -> str:
    """Write the active branch as a session file of its own and return its path, as it was given.

    Raises:
        ClientError: It can't be written.
    """
    name = target_name(source.path, wanted, env, ".jsonl")
    write_target(name, source.path, (encode_record(line).decode() for line in session_lines(redacted(source))), cwd)
    return name


def export_transcript(source: Source, wanted: str | None, *, cwd: str, env: Mapping[str, str]) -> str:
    """Write the active branch as Markdown and return the path that was written, as it was given.

    Raises:
        ClientError: It can't be written.
    """
    from pinnace_agent.export.transcript import transcript

    name = target_name(source.path, wanted, env, ".md")
    write_target(name, source.path, transcript(redacted(source)), cwd)
    return name


def export_trajectory(
    source: Source, wanted: str | None, *, cwd: str, env: Mapping[str, str], program_version: str
) -> str:
    """Write the active branch as a trajectory in ATIF and return the path that was written, as it was given.

    Raises:
        ClientError: It can't be written, or there is no message.
    """
    from pinnace_agent.export.trajectory import trajectory

    name = target_name(source.path, wanted, env, ".atif.json")
    write_target(name, source.path, (trajectory(redacted(source), program_version, _child),), cwd)
    return name


def _child(path: str) -> Source | None:
    """Return the session of a sub-agent; None: it has left none that can be read, which costs its trajectory alone."""
    try:
        return redacted(read_source(path, "/"))
    except errors.ClientError:
        return None


def _page(source: Source, *, only_active: bool, check: Callable[[], object]) -> Iterator[str]:
    try:
        from pinnace_agent.export.page import page

        yield from page(source, only_active=only_active, check=check)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise errors.ClientError(errors.export_unavailable(package), errors.ErrorCode.NOT_IMPLEMENTED) from None


def target_name(session: Path, wanted: str | None, env: Mapping[str, str], ending: str = ".html") -> str:
    """Return the path to write, as it is reported to the client: relative if the client gave a relative one or none."""
    return expand_home(wanted, env) if wanted else f"pi-session-{session.name.removesuffix('.jsonl')}{ending}"


def write_target(name: str, session: Path, chunks: Iterable[str], cwd: str) -> None:
    """Write or replace a file.

    Args:
        name: The path of the file.
        session: The file of the session that is exported.
        chunks: What to write; if making them fails, nothing is left behind.
        cwd: What a relative path starts from.

    Raises:
        ClientError: It can't be written; what was there is as it was.
    """
    try:
        named = Path(cwd, name)
        path = Path(os.path.realpath(named))
        # A command may have made it, and what a session holds would be written where that command can't.
        if named.is_symlink() and path.parent != Path(os.path.realpath(named.parent)):
            raise _refusal(name, f"it is a link to another folder, {path.parent}: name the file there")
        _check(path, session, name)
        # Half of a surrogate pair, which JSON may name, is no text.
        replace_file(path, (chunk.encode("utf-8", "replace") for chunk in chunks))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _refusal(name, reason) from None


def _check(path: Path, session: Path, name: str) -> None:
    if not path.parent.is_dir():
        raise _refusal(name, f"the folder {path.parent} does not exist")
    if path == Path(os.path.realpath(session)):
        raise _refusal(name, "it is the session itself")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise _refusal(name, "it is not a regular file")
    if not os.access(path, os.W_OK):  # a rename needs no right to the file; one that is read-only is so on purpose
        raise _refusal(name, "it is read-only")


def _refusal(name: str, reason: str) -> errors.ClientError:
    return errors.ClientError(errors.not_exported(name, reason), errors.ErrorCode.IO_ERROR)
