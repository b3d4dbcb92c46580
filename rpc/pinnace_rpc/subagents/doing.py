"""What a sub-agent does now and has used so far, by the records of its process.

The agent that has started it reads them from its process, and the host of that agent from the events that show them, so
that both list the same. Pure; knows the totals of a session alone, since a host loads this, and has no agent.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.core.json_access import as_object
from pinnace_agent.session.totals import FileTotals, add_tokens, file_totals

_SHOWN_CHARS: Final = 200


class Doing:
    """That of one sub-agent."""

    def __init__(self) -> None:
        """Begin before its first record."""
        self.activity = ""
        """The call that it carries out, as one line; empty while it answers."""
        self.turns = 0
        """How many answers it has given."""
        self.totals: FileTotals = file_totals(())
        """What its messages have used."""

    def take(self, record: Mapping[str, object]) -> bool:
        """Take a record; return whether a call has begun, or an answer has ended: something is to be shown."""
        match record.get("type"):
            case "tool_execution_start":
                args = as_object(record.get("args")) or {}
                first = next((each for each in args.values() if isinstance(each, str)), "")
                self.activity = " ".join(f"{record.get('toolName')} {first}".split())[:_SHOWN_CHARS]
                return True
            case "message_end":
                message = as_object(record.get("message")) or {}
                self._add(file_totals([{"type": "message", "message": message}]))
                if message.get("role") == "assistant":
                    self.activity, self.turns = "", self.turns + 1
                    return True
            case _:
                pass
        return False

    def _add(self, used: FileTotals) -> None:
        tokens = used["tokens"]
        kinds = tokens["input"], tokens["output"], tokens["cacheRead"], tokens["cacheWrite"]
        add_tokens(self.totals["tokens"], *kinds)
        self.totals["cost"] += used["cost"]
        self.totals["toolCalls"] += used["toolCalls"]
