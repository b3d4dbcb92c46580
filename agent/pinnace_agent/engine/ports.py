"""What other parts may use of the running agent: Protocols that the interpreter of effects implements.

Each user has one of its own, so that none depends on the interpreter. For annotations alone: no start loads this.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

import trio

from pinnace_agent.approval.gate import ToolApproval
from pinnace_agent.config.credentials.credentials import Credentials
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.core.ports.children import ChildAgents
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.core.ports.extensions import Extensions
from pinnace_agent.engine.compaction_job import Compactor
from pinnace_agent.engine.idle import IdleTracker
from pinnace_agent.engine.internal_commands import InternalCommands
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.engine.session_manager import SessionManager
from pinnace_agent.engine.session_settings import SessionSettings
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.queue.durable_queue import MessageFate
from pinnace_agent.tools.operations import ClientFiles
from pinnace_agent.tools.registry import ToolRegistry
from pinnace_spec.records.messages import ApprovalMode, FileMethod, Message, Model
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import InternalEvent, Trigger


class AgentReads(Protocol):
    """What answers to read commands are made from."""

    @property
    def session(self) -> Session:
        """The current session."""
        ...

    @property
    def profile(self) -> AgentProfile:
        """The configuration of the process."""
        ...

    @property
    def settings(self) -> SessionSettings:
        """Model, thinking level, name, and the models to cycle between."""
        ...

    @property
    def extensions(self) -> Extensions | None:
        """The extensions; None: there are none."""
        ...

    @property
    def draws_surfaces(self) -> bool:
        """Whether the client draws surfaces of extensions."""
        ...

    @property
    def sessions(self) -> SessionManager:
        """The current session, the folder of sessions, and the message of the prompt that begins a run."""
        ...

    @property
    def toolbox(self) -> ToolRegistry:
        """The tools: which exist, which are active, and whether they may run."""
        ...

    @property
    def approval(self) -> ToolApproval:
        """Which calls need the user's approval. Loaded when it is first asked for."""
        ...

    @property
    def approval_mode(self) -> ApprovalMode:
        """Its mode, without loading it."""
        ...

    def abort_call(self, entry: str) -> bool:
        """End the call whose result will be an entry; return False if it is not being carried out."""
        ...

    def show_children(self, *, is_wanted: bool) -> None:
        """Have the client be sent what each agent does that this one starts, from now on, or no more."""
        ...

    def made_children(self) -> ChildAgents | None:
        """Return the agents that this one starts, made now if there are none yet; None: it starts none."""
        ...

    def offer_files(self, methods: Collection[FileMethod]) -> None:
        """Let the client serve files to the calls of tools from now on, in the place of what it has offered before."""
        ...

    def offer_surfaces(self, *, is_offered: bool) -> None:
        """Let extensions draw in the client's terminal from now on, or not."""
        ...

    def take_editor_text(self, text: str) -> None:
        """Take the text that the client's editor has now, for extensions that read it."""
        ...

    def take_look(self, names: Sequence[str] | None, current: str | None, *, unfolds: bool | None) -> None:
        """Take the client's themes, the one that it shows, and whether it unfolds outputs; None: as before."""
        ...

    @property
    def jobs(self) -> Jobs:
        """Where background work runs."""
        ...

    @property
    def emitter(self) -> Emitter:
        """Where records are written."""
        ...


class MessageReader(Protocol):
    """The agent, as it is decided what a message means."""

    @property
    def is_starting(self) -> bool:
        """Whether the extensions of the session have not begun, so that the meaning of a message is unknown."""
        ...

    @property
    def extensions(self) -> Extensions | None:
        """The extensions; None: there are none."""
        ...

    def expand(self, text: str) -> str:
        """Return what a message of the user stands for."""
        ...


class CommandSink(AgentReads, MessageReader, Protocol):
    """The agent, as the reader of a client's lines uses it."""

    def fate_of(self, message_id: str) -> MessageFate | None:
        """Return what became of a message of the user; None: it is not known."""
        ...

    def returns_again(self, ref: int) -> bool:
        """Answer a `clear_queue` that was executed before with the same messages; return whether it was."""
        ...

    def submit(self, trigger: Trigger) -> None:
        """Take a trigger."""


class RunOwner(AgentReads, Protocol):
    """The agent, as the effects of a run use it."""

    @property
    def chart(self) -> Chart:
        """Whether a run is open, and which attempt it makes."""
        ...

    @property
    def compactor(self) -> Compactor:
        """Decides whether a compaction is due."""
        ...

    def files_of_call(self, call_id: str) -> ClientFiles | None:
        """Return the files that the client serves to a call; None: it has never offered any."""
        ...

    def submit(self, trigger: Trigger) -> None:
        """Take a trigger."""

    def system_prompt(self) -> str:
        """Return the system prompt of the next request."""
        ...


class RunAgent(Protocol):
    """The agent, as the job of a run uses it."""

    @property
    def session(self) -> Session:
        """The current session."""
        ...

    @property
    def profile(self) -> AgentProfile:
        """The configuration of the process."""
        ...

    @property
    def emitter(self) -> Emitter:
        """Where deltas are written."""
        ...

    @property
    def compactor(self) -> Compactor:
        """Decides whether a compaction is due."""
        ...

    @property
    def max_retry_after_s(self) -> float:
        """The longest wait that a server may ask for."""
        ...

    @property
    def approval(self) -> ToolApproval:
        """Which calls need the user's approval."""
        ...

    @property
    def tool_refusal(self) -> str | None:
        """Why no tool may run now; None: tools run. Read before each call."""
        ...

    def files_of_call(self, call_id: str) -> ClientFiles | None:
        """Return the files that the client serves to a call; None: it has never offered any."""
        ...

    def report(self, event: InternalEvent) -> None:
        """Take what the job reports; its effects are performed when this returns."""

    def system_prompt(self) -> str:
        """Return the system prompt of the next request."""
        ...

    def attempts(self) -> tuple[int, int]:
        """Return the number of the request's present attempt, and how many there may be."""
        ...

    def warn_of_window(self, model: Model, tokens: int) -> None:
        """Take the context window that a model's server reports, where it is smaller than the model's."""

    def warn_of_stop_reason(self, model: Model, reason: str) -> None:
        """Take a provider's own stop reason that is not known, of an answer that counts as a success."""

    def request_sent(self, request: LlmRequest, messages: tuple[Message, ...]) -> None:
        """Take a request that is sent now, and the session's messages that it was made from."""

    def compare_window(self, model: Model, credentials: Credentials) -> None:
        """Take a model whose server has just answered, and the credentials of the request."""


class ExtensibleAgent(RunOwner, Protocol):
    """The agent, as the extension host uses it."""

    @property
    def idle(self) -> IdleTracker:
        """Whether something runs."""
        ...

    @property
    def internal_commands(self) -> InternalCommands:
        """Commands of extensions, which the statechart answers."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether the process is ending."""
        ...

    @property
    def draws_surfaces(self) -> bool:
        """Whether the client draws surfaces of extensions."""
        ...

    @property
    def editor_text(self) -> str:
        """The text of the client's editor, as far as it is known; empty while it draws no surfaces."""
        ...

    def take_editor_text(self, text: str) -> None:
        """Take the text that the client's editor has now, or will have."""
        ...

    @property
    def themes(self) -> Sequence[str] | None:
        """The names of the client's themes; None: it has not named any."""
        ...

    @property
    def theme(self) -> str | None:
        """The name of the theme that the client shows; None: it is unknown."""
        ...

    def take_look(self, names: Sequence[str] | None, current: str | None, *, unfolds: bool | None) -> None:
        """Take the client's themes, the one that it shows, and whether it unfolds outputs; None: as before."""
        ...

    @property
    def tools_expanded(self) -> bool:
        """Whether the client shows the outputs of tools unfolded, as far as it is known."""
        ...

    @property
    def run_scope(self) -> trio.CancelScope | None:
        """The cancel scope of the open run; None: there is none."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether the last answer is an error."""
        ...

    def expand(self, text: str) -> str:
        """Return what a message of the user stands for."""
        ...
