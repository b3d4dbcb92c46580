"""What a sandbox must show at each path of its policy, and whether it does: looked at inside, before a command runs.

bubblewrap is given paths, and resolves each of them again, when other commands may have put a link in the place of a
folder. So nothing is concluded from the arguments: the namespace that they have made is entered by its process, each
path is opened there without a link on the way, and what is found has to be what was meant, by identity and by whether
its mount can be written. A difference means that the command does not run; there is no second try. Linux only.
Blocking.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pinnace_agent.files.protected import is_inside
from pinnace_agent.sandbox.bubblewrap import HiddenFolder, Layout, placed
from pinnace_agent.sandbox.opened import Identity, LinkOnTheWay, OpenedPath, look_at

_PRIVATE: Final = ("/tmp", "/var/tmp")


class ExpectedFile(NamedTuple):
    """What has to be at a path inside."""

    path: str
    identity: Identity | None = None
    """That of what is there outside; None: an empty thing of the sandbox is in its place."""
    is_read_only: bool = True
    is_file: bool = False
    """Whether what is hidden is a file: `/dev/null` is in its place then, else an empty folder."""


class NotAsMeant(OSError):
    """A sandbox does not show what the policy says; the text says which path."""


def expected_of(layout: Layout) -> tuple[ExpectedFile, ...]:
    """Return what a layout must come to, with what is on the disk at this moment.

    Raises:
        LinkOnTheWay: A path leads through a link, which has come there since it was resolved.
        NotAsMeant: A path does not exist any more.
    """
    mounts = list(_mounts(layout))
    # Later mounts cover earlier ones.
    return tuple(
        each
        for place, each in enumerate(mounts)
        if not any(is_inside(each.path, later.path) for later in mounts[place + 1 :])
    )


def _mounts(layout: Layout) -> Iterator[ExpectedFile]:
    """Yield what each mount must come to, in the order of the arguments."""
    yield _same("/")
    private = look_at(layout.private).identity
    yield from (ExpectedFile(each, private, is_read_only=False) for each in _PRIVATE)
    yield from _same_if_there(layout.outputs)
    yield from map(_same, layout.readable)
    yield _same(layout.folder, is_read_only=not layout.is_writable)
    for kind, each in placed(layout):
        yield ExpectedFile(each) if kind == "absent" else _same(each, is_read_only=kind == "protected")
    for hidden in layout.hidden_folders:
        yield from _hidden(hidden)
    yield from (ExpectedFile(each, is_file=True) for each in layout.hidden_files)
    if layout.agent_dir is not None:
        yield from _hidden(layout.agent_dir)
    yield from (ExpectedFile(each, is_file=True) for each in layout.masked)


def _hidden(hidden: HiddenFolder) -> Iterator[ExpectedFile]:
    yield ExpectedFile(hidden.path)
    yield from _same_if_there(hidden.shown)


def _same(path: str, *, is_read_only: bool = True) -> ExpectedFile:
    try:
        return ExpectedFile(path, look_at(path).identity, is_read_only)
    except LinkOnTheWay:
        raise
    except OSError as error:
        raise NotAsMeant(f"{path} is not there any more: {error.strerror}") from None


def _same_if_there(paths: Iterable[str]) -> Iterator[ExpectedFile]:
    for each in paths:
        with suppress(NotAsMeant):  # it may be missing
            yield _same(each)


def verify(expected: Sequence[ExpectedFile], process: int) -> None:
    """Look at what a process sees.

    Args:
        expected: What it has to see.
        process: Its number; it waits meanwhile.

    Raises:
        NotAsMeant: It sees something else.
        OSError: It is gone, or its view can't be entered.
    """
    root = os.open(f"/proc/{process}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in expected:
            try:
                found = look_at(each.path, root)
            except LinkOnTheWay:
                raise NotAsMeant(f"{each.path} leads through a link inside, which was made meanwhile") from None
            except OSError as error:
                raise NotAsMeant(f"{each.path} can't be reached inside: {error.strerror}") from None
            if not _is_as_meant(each, found):
                raise NotAsMeant(f"{each.path} was replaced while the sandbox was set up")
    finally:
        os.close(root)


def _is_as_meant(expected: ExpectedFile, found: OpenedPath) -> bool:
    if expected.is_file:
        return found.is_null
    if found.is_read_only != expected.is_read_only:
        return False
    if expected.identity is not None:
        return found.identity == expected.identity
    # An empty file system of the sandbox: no other one has its number.
    try:
        outside = look_at(expected.path).identity.device
    except OSError:  # the mount point was taken away outside; what is inside is not that of the disk
        return True
    return found.identity.device != outside
