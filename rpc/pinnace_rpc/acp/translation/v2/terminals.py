"""The terminals of commands: what they have written, and how they have ended, from the results of `bash`.

The result of a command has one text: its output, and behind it how it has ended. A result without such an end, as that
of a call that was refused, is no terminal's.
"""

import base64
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.shown import Json, Status, Update
from pinnace_spec.rules import errors

_NO_OUTPUT: Final = "(no output)"
_NUMBER: Final = 12345
_EXITED: Final = re.escape(errors.shell_exited(_NUMBER)).replace(str(_NUMBER), r"(?P<code>-?\d+)")
_TIMED_OUT: Final = re.escape(errors.shell_timed_out(str(_NUMBER))).replace(str(_NUMBER), r"[\d.]+")
_ENDING: Final = re.compile(
    rf"(?:\A|\n\n)(?:{_EXITED}(?:\n\n\[[^\n]*\])?|{_TIMED_OUT}[^\n]*|{re.escape(errors.SHELL_ABORTED)})\Z"
)


class EndedCommand(NamedTuple):
    """A command that has ended."""

    output: str
    exit_status: Json


def ended_command(result: Json, status: Status) -> EndedCommand | None:
    """Return what a command has written and how it has ended; None: the result is not that of a command."""
    text = text_of(result.get("content"))
    if status == "completed":
        return EndedCommand("" if text == _NO_OUTPUT else text, {"exitCode": 0})
    if (found := _ENDING.search(text)) is None:
        return None
    output = text[: found.start()]
    code = found["code"]
    return EndedCommand("" if output == _NO_OUTPUT else output, {} if code is None else {"exitCode": int(code)})


def text_of(content: object) -> str:
    """Return the text in the content of a result."""
    blocks = [as_object(each) or {} for each in as_array(content)]
    return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


class Terminals:
    """The terminals of one session that have not ended."""

    def __init__(self) -> None:
        """Begin without any."""
        self._written: dict[str, str] = {}
        """What the client has of each."""

    def __contains__(self, identity: object) -> bool:
        """Return whether there is a terminal that has not ended."""
        return identity in self._written

    def begin(self, identity: str, command: str, cwd: str) -> Update:
        """Return the update for a command that begins."""
        self._written[identity] = ""
        return {**_of(identity), "command": command, "cwd": cwd, "capabilities": {"cancel": {}}}

    def write(self, identity: str, text: str) -> Update | None:
        """Return the update for a command that has written a text so far; None: the client has it already."""
        former = self._written[identity]
        if text == former:
            return None
        self._written[identity] = text
        if text.startswith(former):
            more = _encoded(text[len(former) :])
            return {"sessionUpdate": "terminal_output_chunk", "terminalId": identity, "data": more}
        # Of a long output the agent shows the end alone.
        return {**_of(identity), "output": {"data": _encoded(text)}}

    def end(self, identity: str, ended: EndedCommand | None) -> Update:
        """Return the update for a command that has ended; None: how is not known."""
        former = self._written.pop(identity)
        status: Mapping[str, object] = {} if ended is None else ended.exit_status
        update: dict[str, object] = {**_of(identity), "exitStatus": status, "capabilities": None}
        if ended is not None and ended.output != former:
            update["output"] = {"data": _encoded(ended.output)}
        return update


def replayed(identity: str, command: str, cwd: str, ended: EndedCommand) -> Update:
    """Return the update for a command that had ended before."""
    output = {"output": {"data": _encoded(ended.output)}} if ended.output else {}
    return {**_of(identity), "command": command, "cwd": cwd, **output, "exitStatus": ended.exit_status}


def anchor(identity: str) -> Json:
    """Return the content of a call that shows a terminal."""
    return {"type": "terminal", "terminalId": identity}


def _of(identity: str) -> Update:
    return {"sessionUpdate": "terminal_update", "terminalId": identity}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
