"""Exports a session: the one entry to this package.

Blocks for seconds: belongs into a thread. Must not know commands, nor where sessions come from.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pinnace_agent.export.source import Source, redacted, session_lines
from pinnace_agent.export.target import target_name, write_target
from pinnace_spec import errors
from pinnace_spec.wire import encode_record

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
        check: Called often; what it raises ends the work, and nothing is left of it.

    Raises:
        ClientError: It can't be written, or a package is not installed; what was there is as it was.
    """
    name = target_name(source.path, wanted, env)
    write_target(name, source.path, _page(redacted(source), only_active=only_active, check=check), cwd)
    return name


# DEVIATION D-38: a session where one is asked for, and nothing but reading.
def export_lines(source: Source, wanted: str, *, cwd: str, env: Mapping[str, str]) -> str:
    """Write the active branch as a session file of its own and return its path, as it was given.

    Raises:
        ClientError: It can't be written.
    """
    name = target_name(source.path, wanted, env)
    write_target(name, source.path, (encode_record(line).decode() for line in session_lines(redacted(source))), cwd)
    return name


def _page(source: Source, *, only_active: bool, check: Callable[[], object]) -> Iterator[str]:
    try:
        from pinnace_agent.export.page import page

        yield from page(source, only_active=only_active, check=check)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise errors.ClientError(errors.export_unavailable(package), errors.ErrorCode.NOT_IMPLEMENTED) from None
