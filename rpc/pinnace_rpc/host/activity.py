"""What an agent does, as far as the host has to know: its runs and sessions, its sub-agents, and what it asks.

Follows the records and responses that pass, so that a list asks the agent nothing, and the next host can report what a
crash has cut. Must not know connections or the journal.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pinnace_rpc.host import routing
from pinnace_rpc.host.details import DetailsStore
from pinnace_rpc.host.dialogs import OpenDialogs
from pinnace_rpc.host.offers import Offers
from pinnace_rpc.host.own_commands import OwnCommands
from pinnace_rpc.host.profiles import WITHOUT_SETTLED
from pinnace_rpc.host.routing import RoutedResponse
from pinnace_rpc.host.summary import FOLLOWED, MODEL_COMMANDS, AgentSummary
from pinnace_spec.wire.json_text import JsonValue

NOTED: Final = frozenset(
    {
        *(b"agent_start", b"agent_end", b"agent_settled", b"session_changed"),
        *(b"extension_ui_request", b"extension_ui_resolved"),
        *FOLLOWED,
    }
)
"""The types of records that say something of it."""


class AgentActivity:
    """That of one agent, over all its processes."""

    def __init__(
        self,
        details: DetailsStore,
        dialogs: OpenDialogs,
        own_commands: OwnCommands,
        offers: Offers,
        wall_time_s: Callable[[], float],
    ) -> None:
        """Begin with what is known of an agent that has had no process of this host.

        Args:
            details: Keep its session, and whether it is in a run.
            dialogs: Those that it waits for.
            own_commands: Ask for what no record says.
            offers: What the process shows of sub-agents, to whom.
            wall_time_s: Returns seconds since the epoch.
        """
        self._details = details
        self._dialogs = dialogs
        self._own = own_commands
        self._offers = offers
        self._wall_time_s = wall_time_s
        self.summary = AgentSummary()
        self.is_running_turns = False
        self.latest_s = wall_time_s()
        """When it wrote something for a client last, in seconds since the epoch."""

    @property
    def children(self) -> Sequence[Mapping[str, JsonValue]]:
        """The sub-agents that work, and whether a question of each waits for an answer."""
        asking = self._dialogs.asking
        return [{**each, "needsInput": each["agentId"] in asking} for each in self.summary.children]

    def wrote(self) -> None:
        """Take notice that it writes something for a client."""
        self.latest_s = self._wall_time_s()

    def note(self, kind: bytes, line: bytes, place: int) -> bool:
        """Take a record of one of the types `NOTED`, at a place of the journal; return whether clients get it."""
        if kind in FOLLOWED:
            self.summary.follow(kind, line)
        elif kind == b"agent_start":
            self.is_running_turns = True
            self._details.change(has_run=True)  # before any client sees it
        elif kind in (b"agent_settled", b"agent_end"):
            self.is_running_turns = kind == b"agent_end" and self._details.current.profile not in WITHOUT_SETTLED
        elif kind == b"session_changed":
            fields = routing.parse_record(line)
            self._details.take_session(fields)  # before any client sees it, or attaches behind it
            if fields.get("by") == "extension":
                self._own.ask_state_soon()  # of a client's command the answer has it asked
        elif kind == b"extension_ui_request":
            self._dialogs.note(line, place)
        elif kind == b"extension_ui_resolved":
            return self._dialogs.take_back(line)
        return True

    def keep_end_of_run(self) -> None:
        """Keep that it is in no run, if that is so: before any client sees the end of the last one."""
        if self._details.current.has_run and not self.is_running_turns:
            self._details.change(has_run=False)

    def take_answer(self, response: RoutedResponse) -> None:
        """Take a response to a client."""
        name = response.command.name
        if name in MODEL_COMMANDS:
            self.summary.take_model_answer(response.line)
        elif name in ("start_agent", routing.WAIT):
            data = routing.member(routing.parse_record(response.line), "data")
            (self._follow_started if name == "start_agent" else self._take_end)(data)
        if name in routing.REPLACEMENTS:
            self._own.ask_state_soon()

    def _follow_started(self, data: Mapping[str, JsonValue]) -> None:
        """Follow a sub-agent that a client has started: the host waits for it, as a client does."""
        row = routing.member(data, "agent")
        identity = row.get("agentId")
        if not isinstance(identity, str) or row.get("state") != "running" or not self.summary.take_started(row):
            return
        self._own.wait_for_child(identity, self._take_end, self._offers.follow(is_wanted=True))

    def _take_end(self, data: Mapping[str, JsonValue]) -> None:
        """Take the answer to a wait for a sub-agent, of the host or of a client: whichever comes first."""
        row = routing.member(data, "agent")
        if row.get("state") == "running":  # it waits no longer
            return
        self.summary.started_ended(str(row.get("agentId")), data)
        if not self.summary.has_started and (fields := self._offers.follow(is_wanted=False)):
            self._own.hello_soon(fields)
