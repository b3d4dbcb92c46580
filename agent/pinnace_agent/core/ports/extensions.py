"""What the engine asks of extensions, and reports to them. The extension host implements it; without one it is absent.

Extensions live as long as the process, their instance as long as a session. Methods that are not async never wait.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:  # for annotations alone
    import trio

    from pinnace_agent.compaction.compaction import CompactionResult, Plan
    from pinnace_agent.compaction.tree_moves import LeafMove, MoveDecision
    from pinnace_agent.config.settings import CompactionSettings
    from pinnace_agent.core.jobs import Work
    from pinnace_agent.core.ports.emitter import Emitter
    from pinnace_agent.core.ports.runs import RecordedRun, RunHooks, RunObserver
    from pinnace_agent.core.ports.shells import CommandGuard
    from pinnace_agent.session.conversation import Session
    from pinnace_agent.session.replacement import SessionRequest
    from pinnace_agent.session.tree import EntryTree
    from pinnace_agent.tools.base import Tool
    from pinnace_spec.records.entries import Entry
    from pinnace_spec.records.messages import Message, Model, ThinkingLevel
    from pinnace_spec.records.surface_items import SurfaceItem

CompactionReason = Literal["manual", "threshold", "overflow"]
EndReason = Literal["new", "resume", "fork"]
ModelSource = Literal["set", "cycle", "restore"]


class SurfaceInput(NamedTuple):
    """What a client sends of a surface (`ui_surface_input`)."""

    surface: str
    size: tuple[int, int] | None = None
    """Its columns, and the rows of the terminal."""
    data: str | None = None
    """What a terminal sends for a key or a paste."""
    key: str | None = None
    """The name of the key."""
    text: str | None = None
    """What an editor is to hold."""
    by: str = ""
    """The client that counts what it sends to an editor; empty: it counts nothing."""
    number: int = 0
    is_closed: bool = False


class PromptHooks(Protocol):
    """The jobs of extensions before and after a run, and their commands."""

    system_prompt: str | None
    """The prompt that handlers have set, until the next prompt of the user."""

    async def read_pending(self, job: int) -> bool:
        """Let handlers read the prompt in preflight. Returns whether the run is still to be prepared."""
        ...

    async def read(self, job: int) -> None:
        """Let handlers read a message before it is queued, and report."""

    async def before_run(self) -> None:
        """Let handlers add messages and change the system prompt.

        Raises:
            ClientError: The answer of a handler is invalid, so the run must not begin.
        """

    def take_opening(self) -> "Sequence[Message]":
        """Return the messages that follow the prompt that is delivered."""
        ...

    async def settle(self, job: int) -> None:
        """Ask whether the agent may settle, and report."""

    def start_command(self, ref: int, text: str, once: "Callable[[Work], Work]") -> None:
        """Run the command that a message calls; `once` returns its work as it is to be done."""

    def cancel_commands(self, refs: Sequence[int]) -> None:
        """End commands that run."""


class RunMessages(Protocol):
    """Messages of extensions that wait for the end of a turn."""

    def append_rest(self, run: "RecordedRun | None") -> None:
        """Append them: to the turn that begins, or to the session if there is none."""


class ExtensionRun(Protocol):
    """What extensions observe and change of one run."""

    @property
    def observer(self) -> "RunObserver":
        """Takes what the run records."""
        ...

    def hooks(self, run: "RecordedRun") -> "RunHooks":
        """Return what the run's job asks."""
        ...


class ExtensionInstance(Protocol):
    """The extensions of one session instance."""

    def new_run(self, session: "Session", emitter: "Emitter") -> ExtensionRun:
        """Return the extensions of a run that begins."""
        ...

    def guard_command(self) -> "CommandGuard | None":
        """Return what decides about the client's shell commands that start now; None: nothing does."""
        ...

    def has_command(self, text: str) -> bool:
        """Return whether a message calls a command of an extension."""
        ...

    @property
    def reads_input(self) -> bool:
        """Whether handlers read messages before they are expanded."""
        ...

    def at_work(self) -> Sequence[str]:
        """Return the paths of the extensions with a background task that runs."""
        ...

    def command_infos(self) -> "Sequence[CommandInfo]":
        """Describe the commands of the extensions."""
        ...

    def shortcuts(self) -> Sequence[Mapping[str, object]]:
        """Describe the keys of the extensions, as on the wire."""
        ...

    def item_renderers(self) -> Sequence[Mapping[str, object]]:
        """Describe what extensions draw of the conversation, as on the wire."""
        ...

    def run_shortcut(self, key: str) -> bool:
        """Start what an extension does at a key; return whether one has it."""
        ...

    def completes(self, name: str) -> bool:
        """Return whether an extension completes the arguments of a command."""
        ...

    async def complete(self, name: str, prefix: str) -> Sequence[Mapping[str, object]]:
        """Return what an extension offers for the arguments of a command, as on the wire. Its failures are reported."""
        ...

    @property
    def completes_text(self) -> bool:
        """Whether an extension completes the text of the editor."""
        ...

    async def complete_text(self, before: str, after: str, *, is_forced: bool) -> Mapping[str, object]:
        """Return the answer of what extensions offer for the text at the cursor. Their failures are reported."""
        ...

    async def decide_warming(
        self, warm_cost: float, miss_cost: float, probability: float, *, is_wanted: bool
    ) -> bool | None:
        """Return whether the provider's cache of the conversation is kept; None: no handler says so.

        Args:
            warm_cost: Of a request that keeps it, in dollars.
            miss_cost: What the next request costs more without it, in dollars.
            probability: That there is a next request in time.
            is_wanted: What the agent decides by itself.
        """
        ...

    @property
    def decides_compactions(self) -> bool:
        """Whether handlers decide about compactions."""
        ...

    async def decide_compaction(
        self,
        plan: "Plan",
        path: "Sequence[Entry]",
        settings: "CompactionSettings",
        instructions: str | None,
        reason: CompactionReason,
    ) -> 'CompactionResult | Literal["cancelled"] | None':
        """Return the compaction of an extension; None if a model is to write the summary.

        Raises:
            CompactionFailed: The compaction of an extension is invalid.
        """
        ...

    def compaction_ended(
        self, entry: "Entry", reason: CompactionReason, *, from_extension: bool, will_retry: bool
    ) -> None:
        """Take a compaction that is in the session."""

    def compaction_failed(
        self, reason: CompactionReason, text: str | None, *, aborted: bool, from_extension: bool
    ) -> None:
        """Take the end of a compaction that has failed or was aborted."""

    @property
    def decides_moves(self) -> bool:
        """Whether handlers decide about moves to another entry."""
        ...

    async def decide_move(self, tree: "EntryTree", move: "LeafMove") -> 'MoveDecision | Literal["cancelled"]':
        """Return what handlers want of a move."""
        ...

    async def moved(
        self, new_leaf_id: str | None, old_leaf_id: str | None, summary: "Entry | None", then: Callable[[], None]
    ) -> None:
        """Publish a move, and then call `then`; messages that its handlers send follow that."""

    def level_selected(self, level: "ThinkingLevel", former: "ThinkingLevel") -> None:
        """Take a change of the thinking level."""

    def session_renamed(self, name: str | None) -> None:
        """Take the new name of the session."""


class CommandInfo(Protocol):
    """A command of an extension, as clients see it."""

    @property
    def name(self) -> str:
        """What follows the slash."""
        ...

    @property
    def description(self) -> str | None:
        """What it does."""
        ...

    @property
    def source(self) -> Literal["extension", "prompt", "skill"]:
        """What it is."""
        ...

    @property
    def source_info(self) -> Mapping[str, object]:
        """Where it comes from."""
        ...


class SessionExtensions(Protocol):
    """The extensions, as a session is replaced."""

    def asks(self, request: "SessionRequest") -> bool:
        """Return whether handlers decide about a session command."""
        ...

    async def allows(self, request: "SessionRequest", leaf_id: str | None) -> bool:
        """Return what handlers decide."""
        ...

    def reason_of(self, request: "SessionRequest") -> EndReason:
        """Return why a session ends and the next one begins."""
        ...

    async def end(self, reason: EndReason, target_file: str | None = None) -> None:
        """End the instance of the current session."""

    async def fill(self, ref: int, session: "Session") -> None:
        """Fill a new session, if its request came with a function for it; the former instance still lives.

        Raises:
            ClientError: That has failed.
        """

    async def begin(
        self, reason: EndReason, previous_file: str | None = None, choose: Callable[[], None] | None = None
    ) -> None:
        """Load the instance of the current session; `choose` is called when its models are registered.

        A failure is reported, not raised: the session is replaced.
        """


class Dialogs(Protocol):
    """Questions to the client's user, each of which ends exactly once."""

    async def select(
        self, title: str, options: list[str], *, timeout_s: float | None, extra: Mapping[str, object]
    ) -> str | None:
        """Let the user choose; None: cancelled, closed, or not answered in time. `extra`: further fields."""
        ...

    def answer(self, response: Mapping[str, object]) -> bool:
        """Take an `extension_ui_response`; return whether its question was open."""
        ...

    def close_all(self, *, for_good: str | None = None) -> int:
        """End every open question with its default; with a reason, later ones too. Returns how many were open."""
        ...


class Extensions(SessionExtensions, Protocol):
    """The extensions of one process."""

    @property
    def prompt_hooks(self) -> PromptHooks:
        """Jobs before and after runs."""
        ...

    @property
    def messages(self) -> RunMessages:
        """Messages that wait for the end of a turn."""
        ...

    @property
    def instance(self) -> ExtensionInstance | None:
        """The extensions of the current session; None: none is loaded now."""
        ...

    @property
    def registered(self) -> "trio.Event":
        """Set when the extensions of the session have registered their providers, or failed."""
        ...

    async def start(self, job: int) -> None:
        """Load the instance of the start, and report."""

    async def reload(self, make_current: Callable[[], None]) -> None:
        """End the instance, call `make_current`, and load the next one. A failure is reported, not raised."""

    def cut_start(self) -> None:
        """End handlers that delay the beginning of a session."""

    def settled(self, *, aborted: bool) -> None:
        """Take `agent_settled`."""

    def model_selected(self, model: "Model", former: "Model | None", source: ModelSource) -> None:
        """Take a change of the model."""

    def idle_reached(self) -> None:
        """Take that nothing runs, and that nothing will by itself."""

    @property
    def dialogs(self) -> Dialogs | None:
        """The questions of the current session's extensions; None: none is loaded now."""
        ...

    @property
    def files(self) -> Sequence[str]:
        """Files and folders of the extensions of the current session."""
        ...

    @property
    def mcp_servers(self) -> Sequence[Mapping[str, object]]:
        """The MCP servers of the session, as clients have seen them last."""
        ...

    @property
    def left_out(self) -> Sequence[Mapping[str, object]]:
        """The extensions that were found or named for the session and are not loaded: `path` and `reason`."""
        ...

    def hints_of(self, tool: "Tool") -> Mapping[str, bool]:
        """Return what the server of a tool says about it, which may be wrong."""
        ...

    def is_read_only(self, tool: "Tool") -> bool:
        """Return whether a tool is built in, or declared by its extension, as one that changes nothing."""
        ...

    def source_of(self, tool: "Tool") -> Mapping[str, object]:
        """Return where a tool comes from, as on the wire."""
        ...

    def answer(self, response: Mapping[str, object]) -> None:
        """Take an `extension_ui_response`."""

    def default_dialogs(self, *, for_good: bool) -> None:
        """Give open dialogs their defaults, and with `for_good` later ones too."""

    def offer_surfaces(self, *, is_offered: bool) -> None:
        """Let extensions draw in the client's terminal from now on, or not."""

    def take_surface_input(self, given: SurfaceInput) -> None:
        """Take what the user does with a surface."""

    def draw_item(self, surface: str, columns: int, item: "SurfaceItem") -> None:
        """Have an item of the conversation drawn on a surface of the client, or close that."""

    def handlers_at_work(self, task: "trio.lowlevel.Task") -> list[str]:
        """Name the handlers that a task is in."""
        ...
