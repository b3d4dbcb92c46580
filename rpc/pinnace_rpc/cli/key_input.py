"""The key that `--api-key-file` and `--api-key-fd` name: neither ps nor a child process can see it."""

import os
import select
import stat
import sys
import time
from typing import Final

from pinnace_rpc.options.options import Options, StartupError

MAX_KEY_BYTES: Final = 64 * 1024
# The writer of a pipe may wait for a person.
WAIT_S: Final = 60.0


class KeyInputError(StartupError):
    """The key can't be read."""

    def __init__(self, text: str) -> None:
        """Word the error."""
        super().__init__(text, "no_key")


def with_key(options: Options) -> Options:
    """Return the options with the key that they name. A descriptor is closed.

    Raises:
        KeyInputError: It can't be read, or is not a key; the text names the option and contains no part of the input.
    """
    if options.api_key_fd is not None:
        source, descriptor = f"--api-key-fd {options.api_key_fd}", options.api_key_fd
    else:
        assert options.api_key_file is not None
        source = f"--api-key-file {options.api_key_file}"
        descriptor = _opened(source, options.api_key_file)
    try:
        key = _key(source, _first_line(source, descriptor))
    finally:
        if options.api_key_fd is None or _is_open(descriptor):
            os.close(descriptor)
    return options._replace(api_key=key, api_key_file=None, api_key_fd=None)


def _opened(source: str, path: str) -> int:
    # Without waiting: a named pipe without a writer would block the start forever.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(os.path.expanduser(path), flags)
    except (OSError, ValueError) as error:
        raise KeyInputError(f"{source}: {getattr(error, 'strerror', None) or error}") from None
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(descriptor)
        raise KeyInputError(f"{source}: it is neither a file nor a pipe")
    if stat.S_ISREG(mode) and mode & 0o077:
        sys.stderr.write(f"pinnace: {source}: others can read it (mode {stat.S_IMODE(mode):03o}); `chmod 600` it\n")
    return descriptor


def _first_line(source: str, descriptor: int) -> bytes:
    poll = select.poll()
    deadline = time.monotonic() + WAIT_S
    data = b""
    try:
        poll.register(descriptor, select.POLLIN)
        while b"\n" not in data and len(data) <= MAX_KEY_BYTES:
            events = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not events:
                raise KeyInputError(f"{source}: no input within {WAIT_S:g} s")
            if events[0][1] & select.POLLNVAL:
                raise KeyInputError(f"{source}: that descriptor is not open")
            if not (piece := os.read(descriptor, MAX_KEY_BYTES)):
                break
            data += piece
    except OSError as error:
        raise KeyInputError(f"{source}: {error.strerror}") from None
    return data


def _key(source: str, data: bytes) -> str:
    line, _, rest = data.partition(b"\n")
    key = line.decode("utf-8", "replace").strip()
    if not key:
        raise KeyInputError(f"{source}: its first line is empty")
    if rest.strip() or len(data) > MAX_KEY_BYTES or not (key.isascii() and key.isprintable()):
        raise KeyInputError(f"{source}: a key is one line of printable ASCII characters, and nothing more")
    return key


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
