"""Ports for programs that have to be told one, and listen on it some time later."""

import random
import socket
from contextlib import suppress
from typing import Final

# Below those that the system gives to whoever asks for any, as other tests do all the time: from 32,768 on.
_NUMBERS: Final = range(20_000, 30_000)


def unused_port() -> int:
    """Return a port of the loopback address that nothing uses, and that is given to nobody else."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_NUMBERS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
