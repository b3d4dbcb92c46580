"""Records of a durable host, which stand between those of the agent: for clients that attach with cursors alone.

They are in every profile alike, and no agent writes them but `extension_ui_resolved`. Beside them each event of the
agent has a `seq` for such a client. Source: R-HST-01 to R-HST-04.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from pinnace_spec.records.output_model import Count, NonEmpty, OutputModel, Positive
from pinnace_spec.records.ui_requests import ResolvedReason

EpochReason = Literal["host", "crash", "sleep", "upgrade"]
Cursor = Annotated[str, Field(pattern=r"^[0-9a-f]+\.[0-9]+:[0-9]+$")]
"""`JOURNAL.EPOCH:SEQ`: the place behind an event."""


class HostRecord(OutputModel):
    """One of them. Its fields are described where they stand."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Attached(HostRecord):
    """The first record of a client that attaches with cursors: which agent it has, and where it is in its journal."""

    type: Literal["attached"]
    agent: NonEmpty
    """The agent's name."""
    protocol: NonEmpty
    """The agent's profile, fixed at its start."""
    hostVersion: NonEmpty
    """The release of the host."""
    sessionId: NonEmpty | None
    """The session's id; null: the agent has failed before it was known."""
    sessionFile: NonEmpty | None
    """The session's file; null: there is none."""
    journal: NonEmpty
    """The id of the journal, the first part of each cursor."""
    epoch: Count
    """The number of the agent's process, from 1; 0: it has had none."""
    seq: Count
    """The number of the newest event in this epoch; 0: there is none."""
    replay: Literal["none", "complete", "truncated"]
    """What follows of the events behind the cursor of `--since`: `none` without one, or if it is of another journal."""
    clients: Positive
    """How many clients are attached, with this one."""
    knownClient: bool
    """Whether the name of `--client` was here before."""


class AgentRestarted(HostRecord):
    """The first record of each epoch but the first: the agent has another process."""

    type: Literal["agent_restarted"]
    epoch: Count
    """The number of the process."""
    reason: EpochReason
    """Why there is another one: the former has crashed, or slept; a restart was requested; the host is another one."""
    complete: bool
    """Whether all records of the former process were received."""
    interrupted: bool
    """Whether the former process ended in a run, which is not repeated."""
    pendingMessageCount: Count
    """The number of queued messages, which are paused."""


class Truncated(HostRecord):
    """Stands for events that are no longer in the journal."""

    type: Literal["truncated"]
    from_: Annotated[Cursor, Field(alias="from")]
    """Behind the last event before the gap."""
    to: Cursor
    """Behind the last event of the gap."""


class ExtensionUiResolved(HostRecord):
    """A dialog is over: a client has answered it, so that the others need not, or the agent has taken it back."""

    type: Literal["extension_ui_resolved"]
    id: NonEmpty
    """The id of the dialog's `extension_ui_request`."""
    reason: ResolvedReason
    """Why it is over. `answered`: by a client."""
    seq: Positive
    """Its number among the events."""


HOST_RECORDS: Final[Mapping[str, type[HostRecord]]] = {
    "attached": Attached,
    "agent_restarted": AgentRestarted,
    "truncated": Truncated,
    "extension_ui_resolved": ExtensionUiResolved,
}
"""By type. `extension_ui_resolved` is an event and has a `seq`; the others say where the numbers begin."""
