"""An agent for the tests of the simulation: its first line is another one each time."""

from itertools import count
from typing import Any

_NUMBERS = count()


async def serve(_flags: Any, _environment: Any, _folder: Any, stdin: Any, stdout: Any, *_: Any) -> int:
    async with stdin, stdout:
        await stdout.send_all(b'{"type":"extension_error","error":"%d"}\n' % next(_NUMBERS))
        while await stdin.receive_some():
            pass
    return 0
