"""What one sub-agent has done, by the records of its process."""

from collections.abc import Callable, Mapping
from typing import Final

import trio

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.core.ports.children import ChildReport
from pinnace_agent.session.child_agents import ChildBegun, usage_of
from pinnace_agent.session.totals import file_totals
from pinnace_rpc.subagents.mailbox import Mailbox
from pinnace_rpc.subagents.process import Record
from pinnace_spec.records.messages import DIALOG_METHODS, Usage

# An agent asks about one call after the other.
_MOST_DIALOGS: Final = 64
_SHOWN_CHARS: Final = 200


class Progress:
    """What a sub-agent has done, by its records."""

    def __init__(
        self, begun: ChildBegun, session_file: str | None, mailbox: Mailbox, report: Callable[[ChildReport], None]
    ) -> None:
        self._mailbox = mailbox
        self._report = report
        self._entries: list[Record] = []
        self.state = ChildReport(begun["agentId"], session_file, begun["provider"], begun["model"])
        self.error = ""
        self.is_aborted = False
        self._asked, self.dialogs = trio.open_memory_channel[Record](_MOST_DIALOGS)

    def take(self, record: Record) -> None:
        """Take a record."""
        match record.get("type"):
            case "tool_execution_start":
                args = as_object(record.get("args")) or {}
                first = next((each for each in args.values() if isinstance(each, str)), "")
                line = " ".join(f"{record.get('toolName')} {first}".split())
                self.show(self.state._replace(activity=line[:_SHOWN_CHARS]))
            case "message_end":
                self._mailbox.delivered(record.get("messageId"))  # its file has it by now
                self._take_message(as_object(record.get("message")) or {})
            case "agent_settled":
                self.is_aborted = record.get("aborted") is True
                if isinstance(limit := record.get("limit"), str):
                    self.error = f"it has reached its limit {limit}"
                self._mailbox.settled(is_complete=self.is_complete)
            case "extension_ui_request" if record.get("method") in DIALOG_METHODS:
                try:
                    self._asked.send_nowait(record)
                except trio.WouldBlock:
                    return
            case _:
                return

    def show(self, state: ChildReport) -> None:
        """Report a state."""
        self.state = state
        self._report(state)

    def _take_message(self, message: Mapping[str, object]) -> None:
        if message.get("role") not in ("assistant", "toolResult"):
            return
        self._entries.append({"type": "message", "message": message})
        if message.get("role") != "assistant":
            return
        self.error = str(message.get("errorMessage") or "") if message.get("stopReason") == "error" else ""
        blocks = [as_object(each) or {} for each in as_array(message.get("content"))]
        text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        state = self.state._replace(activity="", usage=self.usage, turns=self.state.turns + 1)
        self.show(state._replace(text=text) if text else state)

    @property
    def is_complete(self) -> bool:
        """Whether nothing has cut its work."""
        return not (self.error or self.is_aborted)

    @property
    def usage(self) -> Usage:
        """What the messages so far have used."""
        return usage_of(file_totals(self._entries))
