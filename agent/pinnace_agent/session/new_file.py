"""Whole files written at once: complete under their name, or not there at all.

A temporary file beside the target takes the content, is brought to the disk, and gets its name in one step. Nothing is
ever written into a file that others can see. Modes are 0600 from the first byte on. Must not know what stands in a
file. Blocks; raises OSError and leaves no temporary file behind, unless the process is killed in between.
"""

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600


def write_new_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file that does not exist yet.

    Raises:
        FileExistsError: It does; nothing was changed.
    """
    with _temporary(path, chunks) as temporary:
        os.link(temporary, path)
    _sync_folder(path.parent)


def replace_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Put new content in the place of a file; whoever has it open keeps the former one."""
    with _temporary(path, chunks) as temporary:
        os.replace(temporary, path)
    _sync_folder(path.parent)


def keep_backup(path: Path) -> Path:
    """Copy a file to the first free of `<name>.bak`, `<name>.bak.2`, … and return the copy's path."""
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.bak" if number == 1 else f"{path.name}.bak.{number}")
        with suppress(FileExistsError):
            write_new_file(backup, [path.read_bytes()])
            return backup
        number += 1


@contextmanager
def _temporary(path: Path, chunks: Iterable[bytes]) -> Generator[Path, None, None]:
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
