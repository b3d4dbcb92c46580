"""How a tool, or a client, has another agent do a task: the agents that are started, and what ends them.

Neither knows processes or their protocol. What starts an agent decides its rights, from what neither the model nor the
new agent can change. One that a call has started ends with it; one that a client has started, with its task, its
session or the process. Rules R-SUB-01 to R-SUB-05, R-SUB-13.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pinnace_spec.records.messages import Usage

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.interpreter import EffectInterpreter
    from pinnace_agent.session.child_agents import ChildEnd, MessageState, ShownMessage

TASK_WORDS: Final = "Task: "
"""Before the task of an agent in its conversation: with words before it, it is no command, template or skill."""
MESSAGE_WORDS: Final = "Message: "
"""Before a message to one that works, likewise."""


class ChildRequest(NamedTuple):
    """What a call, or a client, asks for. None: as the agent that is asked has it."""

    task: str
    call_id: str | None
    """None: a client asks."""
    model: str | None = None
    """`provider/id`."""
    tools: Sequence[str] | None = None
    """Names of tools that are active in the agent that calls."""
    folder: str | None = None
    """Where it works, relative to the folder of the session."""
    max_turns: int | None = None
    message_id: str | None = None
    """What the client calls its task."""
    timeout_s: float | None = None
    """How long one may take that a client starts; None: as long as a run of the agent that is asked."""


class ChildReport(NamedTuple):
    """What an agent has done so far, or in all."""

    agent_id: str
    session_file: str | None
    """None: its session is kept in memory."""
    provider: str
    model: str
    """Its id at the provider."""
    text: str = ""
    """Its last answer."""
    activity: str = ""
    """What it does now, as one line; empty after its end."""
    turns: int = 0
    """How many answers it has given."""
    usage: Usage | None = None
    """In all; None: not known yet."""
    outcome: "ChildEnd | None" = None
    """None: it works."""
    error: str = ""
    """Why it has not completed its task."""
    messages: "Sequence[ShownMessage]" = ()
    """With its outcome: those that it was given while it worked."""

    def details(self) -> Mapping[str, object]:
        """Return this for clients."""
        fields: dict[str, object] = {
            "agentId": self.agent_id,
            "state": self.outcome or "running",
            "turns": self.turns,
            "provider": self.provider,
            "model": self.model,
        }
        if self.session_file is not None:
            fields["sessionFile"] = self.session_file
        if self.activity:
            fields["activity"] = self.activity
        if self.usage is not None:
            fields["usage"] = self.usage
        if self.messages:
            fields["messages"] = list(self.messages)
        return {"agent": fields}


class ChildRefused(Exception):
    """An agent may not be started, or not so; the text names what was asked for and what is allowed."""


class ChildNotSaved(ChildRefused):
    """An agent was not started, since the session can't keep that it was."""


OnStarted = Callable[["Mapping[str, object] | ChildRefused | None"], None]
"""Takes the agent that was started, for clients, or why it was not; None: it was ended before."""


class ChildAgents(Protocol):
    """The agents that the runs, and the clients, of one agent start."""

    def follow(self, agent: "EffectInterpreter") -> None:
        """Take the agent that starts them, before its first run."""

    async def run(self, request: ChildRequest, on_report: Callable[[ChildReport], None]) -> ChildReport:
        """Start an agent, have it do its task, and end it.

        Cancelled, it ends the agent, which takes two seconds at most, and reports its end before `Cancelled` leaves.

        Raises:
            ChildRefused: It was not started.
        """
        ...

    def start(self, request: ChildRequest, on_started: OnStarted) -> None:
        """Start an agent for a client, which works beside everything else until it has done its task.

        Its rights are decided now. `on_started` is called once, when its beginning is on the disk, or will not be.

        Raises:
            ChildRefused: It is not started; `on_started` is not called.
        """

    @property
    def started(self) -> int:
        """How many work that clients have started."""
        ...

    def cancel_started(self) -> None:
        """End those that clients have started, each as `cancel` does."""

    async def until_over(self) -> None:
        """Return when none works that a client has started. Cancelled, it waits no longer."""

    async def ended(self, agent_id: str) -> None:
        """Return when an agent does not work, at once if it does not now."""

    def is_beginning(self, agent_id: str) -> bool:
        """Return whether the beginning of an agent is in the session, and not known to be on the disk yet."""
        ...

    def answer_of(self, agent_id: str) -> str | None:
        """Return the last answer of one whose session is in memory; None: it has given none, or has a file."""
        ...

    def show(self, *, is_wanted: bool) -> None:
        """Have the client be sent what each does, from now on, or no more (R-SUB-09)."""
        ...

    def cancel(self, agent_id: str) -> bool:
        """End one alone, whose `run` then returns its end as `cancelled`; return False if none works under the id."""
        ...

    def take_message(self, agent_id: str, message_id: str, text: str) -> None:
        """Take a message to one that works, into the session; its end waits until that is decided (R-SUB-10).

        It is accepted, or dropped, when it is known whether it is on the disk (`decide_message`).

        Raises:
            ClientError: It does not work, or its end is decided; it has too many; or that can't be saved.
        """

    def decide_message(self, agent_id: str, message_id: str, *, is_saved: bool) -> None:
        """Accept a message that was taken, which is then delivered, or returned with the end; or drop it (R-SUB-12).

        One that has ended meanwhile has returned it.
        """

    def messages(self, agent_id: str) -> "Mapping[str, MessageState] | None":
        """Return what became of the messages to one that works, by their ids; None: none works under the id."""
        ...
