"""Changes a folder as a whole: a copy is changed beside it, and takes its place in one step.

A reader finds the old content of the folder or the new, also if this process is killed at any moment. What a killed
process has left is removed by the next change. Changes of one folder exclude each other, by a lock beside it; pi does
not take it. Blocking.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pinnace_agent.files.file_lock import file_lock
from pinnace_agent.files.folders import make_folder
from pinnace_agent.packages.programs import PackageError

_MARK: Final = ".pinnace-"
_AT_FDCWD: Final = -100
_EXCHANGE: Final = 2
# File systems and kernels that can't exchange two names.
_NO_EXCHANGE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


@contextmanager
def changing(root: Path, target: Path, *, copies: bool) -> Generator[Path, None, None]:
    """Yield a folder that takes the place of `target` when the block ends, and is removed if it raises.

    Args:
        root: The folder of all packages of this kind, in which the copy is made; its lock is held.
        target: The folder to change, `root` itself or one below it; it need not exist.
        copies: Whether the folder begins as a copy of the target.

    Raises:
        LockHeld: Another process is changing packages.
        OSError: A folder can't be written.
    """
    root, target = Path(os.path.realpath(root)), Path(os.path.realpath(target))
    with _stage(root.parent if target == root else root, root.name) as stage:
        inside = stage / target.name
        if copies and target.is_dir():
            shutil.copytree(target, inside, symlinks=True)
        else:
            inside.mkdir()
        yield inside
        make_folder(target.parent)
        _exchange(inside, target)


def remove(root: Path, target: Path) -> None:
    """Remove a folder of packages, in one step, and the folders above it that become empty, up to `root`.

    Raises:
        LockHeld: Another process is changing packages.
        OSError: The folder can't be written.
    """
    root, target = Path(os.path.realpath(root)), Path(os.path.realpath(target))
    if not target.is_dir() or root not in target.parents:
        return
    with _stage(root, root.name) as stage:
        target.rename(stage / target.name)
        for above in target.parents:
            if above == root:
                break
            with suppress(OSError):
                above.rmdir()


@contextmanager
def _stage(place: Path, name: str) -> Generator[Path, None, None]:
    """Yield a folder for what is not in its place yet, or no more, with the lock of the folder `name` held."""
    make_folder(place)
    with file_lock(place / f"{name}.packages"):
        _remove_left_behind(place, name)
        stage = Path(tempfile.mkdtemp(prefix=f".{name}{_MARK}", dir=place))
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _remove_left_behind(place: Path, name: str) -> None:
    """Remove the copies of processes that were killed: the lock is held, so no other process works on one."""
    for path in place.glob(f".{name}{_MARK}*"):
        shutil.rmtree(path, ignore_errors=True)


def _exchange(new: Path, target: Path) -> None:
    """Give `new` the name of the target, and the target the other name if it exists."""
    if not os.path.lexists(target):
        new.rename(target)
        return
    import ctypes  # an install alone needs it

    library = ctypes.CDLL(None, use_errno=True)
    exchange = getattr(library, "renameat2", None)
    if exchange is not None:
        if exchange(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(target), _EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
        if code not in _NO_EXCHANGE:
            raise PackageError(f"{target}: can't be replaced: {os.strerror(code)}")
    # In two steps: a process that is killed between them leaves no package, which the next start reports.
    old = new.with_name(f"{new.name}.old")
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
