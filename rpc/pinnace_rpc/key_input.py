"""The key that `--api-key-file` and `--api-key-fd` name: no list of processes shows it, and no child inherits it."""

import os
import select
import stat
import sys
import time
from typing import Final

from pinnace_rpc.options import Options, StartupError

MAX_KEY_BYTES: Final = 64 * 1024
# Who writes into a pipe may ask a person first.
WAIT_S: Final = 60.0


def with_key(options: Options) -> Options:
    """Return the options with the key that they name. A descriptor is closed.

    Raises:
        StartupError: It can't be read, or is none; the text names the option, and holds nothing that was read.
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
    # Without waiting: a named pipe that has no writer would hold the start up for good.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(os.path.expanduser(path), flags)
    except (OSError, ValueError) as error:
        raise StartupError(f"{source}: {getattr(error, 'strerror', None) or error}") from None
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(descriptor)
        raise StartupError(f"{source}: it is neither a file nor a pipe")
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
                raise StartupError(f"{source}: nothing came within {WAIT_S:g} s")
            if events[0][1] & select.POLLNVAL:
                raise StartupError(f"{source}: that descriptor is not open")
            if not (piece := os.read(descriptor, MAX_KEY_BYTES)):
                break
            data += piece
    except OSError as error:
        raise StartupError(f"{source}: {error.strerror}") from None
    return data


def _key(source: str, data: bytes) -> str:
    line, _, rest = data.partition(b"\n")
    key = line.decode("utf-8", "replace").strip()
    if not key:
        raise StartupError(f"{source}: there is no key in its first line")
    if rest.strip() or len(data) > MAX_KEY_BYTES or not (key.isascii() and key.isprintable()):
        raise StartupError(f"{source}: a key is one line of printable ASCII characters, and nothing more")
    return key


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
