"""What one sub-agent has done, by the records of its process."""

from collections.abc import Callable, Mapping
from typing import Final

import trio

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.core.ports.children import ChildReport
from pinnace_agent.session.child_agents import ChildBegun, usage_of
from pinnace_rpc.subagents.doing import Doing
from pinnace_rpc.subagents.mailbox import Mailbox
from pinnace_rpc.subagents.process import Record
from pinnace_spec.records.messages import DIALOG_METHODS, Usage

# An agent asks about one call after the other.
_MOST_DIALOGS: Final = 64


class Progress:
    """What a sub-agent has done, by its records."""

    def __init__(
        self, begun: ChildBegun, session_file: str | None, mailbox: Mailbox, report: Callable[[ChildReport], None]
    ) -> None:
        self._mailbox = mailbox
        self._report = report
        self._doing = Doing()
        self.state = ChildReport(begun["agentId"], session_file, begun["provider"], begun["model"])
        self.error = ""
        self.is_aborted = False
        self._asked, self.dialogs = trio.open_memory_channel[Record](_MOST_DIALOGS)

    def take(self, record: Record) -> None:
        """Take a record."""
        match record.get("type"):
            case "tool_execution_start" if self._doing.take(record):
                self.show(self.state._replace(activity=self._doing.activity))
            case "message_end":
                self._mailbox.delivered(record.get("messageId"))  # its file has it by now
                if self._doing.take(record):
                    self._take_answer(as_object(record.get("message")) or {})
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

    def _take_answer(self, message: Mapping[str, object]) -> None:
        self.error = str(message.get("errorMessage") or "") if message.get("stopReason") == "error" else ""
        blocks = [as_object(each) or {} for each in as_array(message.get("content"))]
        text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        state = self.state._replace(activity="", usage=self.usage, turns=self._doing.turns)
        self.show(state._replace(text=text) if text else state)

    @property
    def is_complete(self) -> bool:
        """Whether nothing has cut its work."""
        return not (self.error or self.is_aborted)

    @property
    def usage(self) -> Usage:
        """What the messages so far have used."""
        return usage_of(self._doing.totals)
