"""An agent for the tests of the simulation: it reads everything and answers nothing."""

from typing import Any


async def serve(_flags: Any, _environment: Any, _folder: Any, stdin: Any, _stdout: Any, *_: Any) -> int:
    async with stdin:
        while await stdin.receive_some():
            pass
    return 0
