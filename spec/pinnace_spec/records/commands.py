"""The commands of all generations as models: their fields, and every fact that is stated of a command elsewhere.

The one source of what a command is: the schemas, the pages, the tables by which most commands are read and sorted
(`command_table`), the samples of the judge and the codes of errors are made of it. The order is that of the pages.
Types only; the models are built on first use, since most processes see few kinds. Has no access to the wording of
errors (`parsing`) nor to what a command does. Source: the published protocol and its older generations.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
    with_config,
)

from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.flat_commands import MAX_MESSAGE_ID_CHARS, FlatCommand
from pinnace_spec.records.messages import (
    ApprovalMode,
    ContextItem,
    FileMethod,
    ImageContent,
    LoginKind,
    QueueMode,
    TextContent,
    ThinkingLevel,
)
from pinnace_spec.records.surface_items import SurfaceItem
from pinnace_spec.rules.errors import ErrorCode as E
from pinnace_spec.rules.limits import MAX_SESSIONS_LISTED
from pinnace_spec.wire.file_texts import file_text

Kind = Literal["text", "work", "read", "setting", "flag", "mode", "session", "shell", "answer"]
"""What the agent does about a command. In the statechart the region `session` answers those that replace the session,
`shell` those about the client's shell commands, `ui` takes a client's answers, and `run` answers all others. A read
changes nothing: it is answered in every state, and may be asked twice. An answer gets no response, whatever it holds.
Settings, flags and modes take effect at once."""

Group = Literal[
    "Runs",
    "Shell commands",
    "Queries",
    "Sessions",
    "Settings",
    "Keys and logins",
    "Protocol, dialogs and files",
    "Names of earlier generations",
]
"""What commands are for: the headings of the pages, in their order."""

_QUEUED: Final = (E.QUEUE_FULL, E.NO_MODEL, E.NO_API_KEY, E.ABORTED, E.SESSION_NOT_SAVED, E.REFUSED_BY_EXTENSION)
_SWITCH: Final = (E.SESSION_NOT_SAVED, E.IO_ERROR, E.REFUSED_BY_EXTENSION, E.SESSION_UNAVAILABLE, E.ABORTED)
_SAVED: Final = (E.SESSION_NOT_SAVED, E.SESSION_UNAVAILABLE, E.ABORTED)
_WAITS: Final = (E.ABORTED, E.SHUTTING_DOWN)


class CommandModel(BaseModel):
    """What all commands have, and what is declared of each beside its fields."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")
    since: ClassVar[str | None] = "0.16.0"
    """The first release of the original that has the command: which generations have it follows. The default is the
    oldest that counts. None: this program alone has it."""
    until: ClassVar[str | None] = None
    """The first release that has it no more: this program still does."""
    published: ClassVar[str | None] = None
    """The first release whose documents have it, if it was written earlier."""
    group: ClassVar[Group]
    """Where it stands on the pages."""
    kind: ClassVar[Kind]
    """What the agent does about it."""
    waits: ClassVar[bool] = True
    """Whether it waits in the line behind a barrier (C-9); reads and answers never do."""
    alias_of: ClassVar[str | None] = None
    """The command that it is carried out as."""
    errors: ClassVar[tuple[E, ...]] = ()
    """The codes that it may be refused with, beside those of every command (`records.command_errors`)."""
    answer: ClassVar[str | None] = None
    """The type of the data of its success, by its name in `responses`, `readings` or `compactions`, with `| None` if
    it may be null: those modules are loaded only where answers are checked. None: it is answered without data."""
    seed_answer: ClassVar[str | EllipsisType | None] = ...
    """The same in the profile of the seed, where it differs."""
    sample: ClassVar[Mapping[str, object]] = {}
    """Fields of a valid record, where a made-up value would have no effect. Paths are relative, since some agents
    create what they name."""

    id: StrictStr | StrictInt | StrictFloat | None = None

    @property
    def command_name(self) -> str:
        """The value of `type`, which every model narrows to its own names."""
        return str(vars(self)["type"])

    @property
    def has_id(self) -> bool:
        """Whether the client gave an id; null is one."""
        return "id" in self.model_fields_set


def _valid_base64(text: str) -> str:
    # Decoded here only to be checked: it stays text in the session, on the wire and in requests.
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None
    return text


def _valid_image(image: ImageContent) -> ImageContent:
    try:
        _valid_base64(image["data"])
    except ValueError:
        raise ValueError("data must be base64") from None
    return image


class _Attachment(BaseModel):
    """An attachment of a message in the oldest generation: an image, or a document of text."""

    model_config = ConfigDict(defer_build=True, extra="ignore")
    type: Literal["image", "document"]
    mimeType: StrictStr
    content: Annotated[StrictStr, AfterValidator(_valid_base64)]
    fileName: StrictStr | None = None
    extractedText: StrictStr | None = None
    """The text of a document, if the client has found it."""

    @model_validator(mode="after")
    def _document_is_text(self) -> Self:
        # Refused if not: dropping it in silence would lose it.
        if self.type == "document" and self.document is None:
            raise ValueError("must have extractedText: the content of this document is not text in UTF-8")
        return self

    @property
    def document(self) -> str | None:
        """What a model reads of a document; None: there is no text in it."""
        text = self.extractedText
        if not text:
            try:
                text = base64.b64decode(self.content).decode()
            except UnicodeDecodeError:
                return None
        return f"[Document: {self.fileName or 'unnamed'}]\n{text}"


def _named_item(item: ContextItem) -> ContextItem:
    if not item["uri"]:
        raise ValueError("uri must not be empty")
    return item


# Without it `1` would be read as `true`.
with_config(ConfigDict(strict=True))(SurfaceItem)
Image: TypeAlias = Annotated[ImageContent, AfterValidator(_valid_image)]


class _Text(CommandModel):
    message: StrictStr
    images: list[Image] = Field(default_factory=list[Image])
    attachments: list[_Attachment] = Field(default_factory=list[_Attachment])

    @model_validator(mode="after")
    def _read_documents(self) -> Self:
        """Put the text of documents behind the message."""
        # DEVIATION D-44: content alone, of documents without a text too.
        documents = [each.document for each in self.attachments if each.type == "document"]
        texts = [self.message, *(each for each in documents if each is not None)]
        vars(self)["message"] = "\n\n".join(text for text in texts if text)  # frozen, but not yet handed out
        return self

    @property
    def content_images(self) -> tuple[ImageContent, ...]:
        """The pictures of the message, whatever the client's generation calls them."""
        attached = (
            ImageContent(type="image", data=attachment.content, mimeType=attachment.mimeType)
            for attachment in self.attachments
            if attachment.type == "image"
        )
        return (*self.images, *attached)

    @property
    def content_blocks(self) -> tuple[TextContent | ImageContent, ...]:
        """The content behind the text: what goes with it as context, then the pictures."""
        return self.content_images


class _Message(_Text):
    """A message that its sender can name, and that texts may go with."""

    context: list[Annotated[ContextItem, AfterValidator(_named_item)]] = Field(default_factory=list[ContextItem])
    messageId: Annotated[StrictStr, Field(min_length=1, max_length=MAX_MESSAGE_ID_CHARS)] | None = None

    @property
    def content_blocks(self) -> tuple[TextContent | ImageContent, ...]:
        """As of every text, with a block for each item of `context`."""
        context = (TextContent(type="text", text=file_text(each["uri"], each["text"])) for each in self.context)
        return (*context, *self.content_images)


class Prompt(_Message):
    """Send a prompt. During a run, `streamingBehavior` determines how the message is queued."""

    group = "Runs"
    kind = "text"
    errors = (E.BUSY, E.COMPACTING, *_QUEUED, E.AUTHENTICATION_FAILED, E.SESSION_UNAVAILABLE, E.SHUTTING_DOWN)
    answer = "Disposition"
    seed_answer = None
    type: Literal["prompt"]
    streamingBehavior: Literal["steer", "followUp"] | None = None


class Steer(_Message):
    """Queue a message that is delivered before the model's next answer."""

    since = "0.32.0"
    group = "Runs"
    kind = "text"
    errors = (E.NOT_QUEUEABLE, *_QUEUED, E.SHUTTING_DOWN)
    answer = "Disposition"
    seed_answer = None
    type: Literal["steer"]


class FollowUp(_Message):
    """Queue a message that is delivered when the agent would otherwise stop."""

    since = "0.32.0"
    group = "Runs"
    kind = "text"
    errors = (E.NOT_QUEUEABLE, *_QUEUED, E.SHUTTING_DOWN)
    answer = "Disposition"
    seed_answer = None
    type: Literal["follow_up"]


class ClearQueue(CommandModel):
    """Empty the queues and return their messages."""

    since = "0.84.4"
    group = "Runs"
    kind = "work"
    errors = (E.SESSION_NOT_SAVED, *_WAITS)
    sample = {"by": "a name"}
    answer = "QueuedTexts"
    type: Literal["clear_queue"]
    by: Annotated[StrictStr, Field(min_length=1, max_length=MAX_MESSAGE_ID_CHARS)] | None = None
    """A name for this command: repeated with the same one, it returns the same messages again."""


class Abort(CommandModel):
    """Abort the run or the compaction; `queue` determines what happens to queued messages."""

    group = "Runs"
    kind = "work"
    waits = False
    answer = "Cleared"
    type: Literal["abort"]
    queue: Literal["hold", "clear", "continue"] = "hold"


class AbortRetry(CommandModel):
    """Cancel the delay before a retry."""

    since = "0.18.2"
    group = "Runs"
    kind = "work"
    waits = False
    type: Literal["abort_retry"]


class AbortTool(CommandModel):
    """End one call of a tool; the run continues with its result."""

    since = None
    group = "Runs"
    kind = "setting"
    errors = (E.ENTRY_NOT_FOUND, *_WAITS)
    type: Literal["abort_tool"]
    entryId: StrictStr
    """The entry that the result of the call will be, as the records of the call name it."""


class StartAgent(CommandModel):
    """Start a sub-agent that does a task beside the runs of the session; `wait_agent` returns its answer."""

    since = None
    group = "Runs"
    kind = "setting"
    errors = (E.AGENT_REFUSED, E.NO_MODEL, E.SESSION_NOT_SAVED, E.REFUSED_BY_EXTENSION, *_WAITS)
    answer = "AgentStarted"
    type: Literal["start_agent"]
    task: StrictStr
    """All that it gets; no skill, template or command in it is expanded."""
    model: StrictStr | None = None
    """Its model, as `provider/id`; that of the session by default."""
    tools: list[StrictStr] | None = None
    """Its tools, some of those that are active in this agent; all of them by default."""
    cwd: StrictStr | None = None
    """A folder within the folder of the session, which is the default."""
    maxTurns: Annotated[StrictInt, Field(ge=1)] | None = None
    """The most answers that it may give; as many as a run of this agent by default."""
    timeout: Annotated[StrictFloat | StrictInt, Field(gt=0)] | None = None
    """Seconds after which it is ended; as many as a run of this agent may take by default."""
    messageId: Annotated[StrictStr, Field(min_length=1, max_length=MAX_MESSAGE_ID_CHARS)] | None = None
    """A name for the task: repeated with the same one, no other sub-agent is started for it."""


class WaitAgent(CommandModel):
    """Wait until a sub-agent of the session has ended, and return what became of it, and its last answer."""

    since = None
    group = "Runs"
    kind = "setting"
    errors = (E.AGENT_NOT_FOUND, *_WAITS)
    answer = "AgentResult"
    type: Literal["wait_agent"]
    agentId: StrictStr
    """The sub-agent, as `list_agents` names it."""
    timeout: Annotated[StrictFloat | StrictInt, Field(ge=0)] | None = None
    """Seconds after which it is answered all the same, with the state that the sub-agent has then."""


class CancelAgent(CommandModel):
    """End one sub-agent of the session; the call that has started it ends with an error result."""

    since = None
    group = "Runs"
    kind = "setting"
    errors = (E.AGENT_NOT_FOUND, *_WAITS)
    type: Literal["cancel_agent"]
    agentId: StrictStr
    """The sub-agent, as `list_agents` and the records of its call name it (`details.agent.agentId`)."""


class MessageAgent(CommandModel):
    """Give a message to one sub-agent that works; it is delivered before the sub-agent's next answer, or returned."""

    since = None
    group = "Runs"
    kind = "setting"
    errors = (E.AGENT_NOT_FOUND, E.QUEUE_FULL, E.SESSION_NOT_SAVED, *_WAITS)
    answer = "AgentMessageAccepted"
    type: Literal["message_agent"]
    agentId: StrictStr
    """The sub-agent, as `list_agents` and the records of its call name it (`details.agent.agentId`)."""
    message: StrictStr
    """Its text; no skill, template or command in it is expanded."""
    messageId: Annotated[StrictStr, Field(min_length=1, max_length=MAX_MESSAGE_ID_CHARS)] | None = None
    """A name for the message: repeated with the same one, it is not given again."""


class Bash(CommandModel):
    """Run a shell command of the client."""

    group = "Shell commands"
    kind = "shell"
    errors = (E.SHELL_UNAVAILABLE, E.SESSION_NOT_SAVED, E.REFUSED_BY_EXTENSION, *_WAITS)
    sample = {"command": "true"}
    answer = "ShellResult"
    type: Literal["bash"]
    command: StrictStr
    """The shell command to run."""
    excludeFromContext: StrictBool = False


class AbortBash(CommandModel):
    """End every shell command of the client."""

    group = "Shell commands"
    kind = "shell"
    waits = False
    type: Literal["abort_bash"]


class GetState(CommandModel):
    """Read the state of the agent and its selections."""

    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "State"
    seed_answer = "SeedState"
    type: Literal["get_state"]


class GetMessages(CommandModel):
    """Read the messages of the context."""

    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Messages"
    seed_answer = "SeedMessages"
    type: Literal["get_messages"]


class GetLastAssistantText(CommandModel):
    """Read the text of the newest answer."""

    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "LastText"
    type: Literal["get_last_assistant_text"]


class GetSessionStats(CommandModel):
    """Read the usage of the session."""

    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Stats"
    seed_answer = "SeedStats"
    type: Literal["get_session_stats"]


class GetEntries(CommandModel):
    """Read the session's entries, or those after one of them."""

    since = "0.80.3"
    group = "Queries"
    kind = "read"
    errors = (E.ENTRY_NOT_FOUND, *_WAITS)
    answer = "Entries"
    type: Literal["get_entries"]
    # `since` is the wire's name; the class variable of that name says which release brought the command.
    since_entry: StrictStr | None = Field(default=None, alias="since")


class GetTree(CommandModel):
    """Read the session's entries as a tree."""

    since = "0.80.3"
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Tree"
    type: Literal["get_tree"]


class GetForkMessages(CommandModel):
    """List the messages that can be forked from."""

    since = "0.43.0"
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "ForkMessages"
    type: Literal["get_fork_messages"]


class GetCommands(CommandModel):
    """List the commands, templates and skills that a prompt can name after a slash."""

    since = "0.50.2"
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Commands"
    seed_answer = "SeedCommands"
    type: Literal["get_commands"]


class GetTools(CommandModel):
    """List every tool, with the schema of its arguments, its source, and whether it is active."""

    since = None
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Tools"
    type: Literal["get_tools"]


class GetShortcuts(CommandModel):
    """List the keys that extensions have registered, for a client that shows a terminal."""

    since = None
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Shortcuts"
    type: Literal["get_shortcuts"]


class GetCompletions(CommandModel):
    """Complete arguments of an extension's command, or the editor's text. A later one answers a former with nothing."""

    since = None
    group = "Queries"
    kind = "read"
    errors = _WAITS
    sample = {"name": "deploy", "prefix": "st"}
    answer = "Completions"
    type: Literal["get_completions"]
    name: StrictStr
    """The command, as `get_commands` lists it; empty: extensions complete the text of the editor."""
    prefix: StrictStr
    """What is written behind the name and a space, up to the cursor; of the editor's text, all before the cursor."""
    after: StrictStr | None = None
    """The text of the editor behind the cursor."""
    force: StrictBool = False
    """Whether the user has asked for completions, as with Tab; else text is being written."""


class GetQueue(CommandModel):
    """List the queued messages and, on request, those that were returned to clients."""

    since = None
    group = "Queries"
    kind = "read"
    errors = _WAITS
    sample = {"returned": True}
    answer = "Queue"
    type: Literal["get_queue"]
    returned: StrictBool = False
    """Whether to list the messages that were returned to clients, too."""


class ListAgents(CommandModel):
    """List the sub-agents that the session has started, on all branches, in the order in which they began."""

    since = None
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Agents"
    type: Literal["list_agents"]


class GetAvailableModels(CommandModel):
    """List the models that can be selected."""

    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Models"
    type: Literal["get_available_models"]


class GetAvailableThinkingLevels(CommandModel):
    """List the thinking levels of the current model."""

    since = "0.81.0"
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Levels"
    type: Literal["get_available_thinking_levels"]


class NewSession(CommandModel):
    """Start a new session."""

    since = "0.31.0"
    group = "Sessions"
    kind = "session"
    errors = (*_SWITCH, E.SHUTTING_DOWN)
    answer = "Replaced"
    seed_answer = "SeedReplaced"
    type: Literal["new_session"]
    parentSession: StrictStr | None = None


class SwitchSession(CommandModel):
    """Open another session file."""

    group = "Sessions"
    kind = "session"
    errors = (E.SESSION_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN)
    sample = {"sessionPath": "nonexistent/session.jsonl"}
    answer = "Replaced"
    seed_answer = "SeedReplaced"
    type: Literal["switch_session"]
    sessionPath: StrictStr


class Fork(CommandModel):
    """Start a session that ends before a user's message."""

    since = "0.43.0"
    group = "Sessions"
    kind = "session"
    errors = (E.ENTRY_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN)
    sample = {"entryId": "00000000"}
    answer = "Forked"
    seed_answer = "SeedForked"
    type: Literal["fork"]
    entryId: StrictStr
    """The user's message before which the new session ends."""


class Clone(CommandModel):
    """Continue in a copy of the session."""

    since = "0.68.0"
    group = "Sessions"
    kind = "session"
    errors = (E.ENTRY_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN)
    answer = "Replaced"
    seed_answer = "SeedReplaced"
    type: Literal["clone"]


class SetSessionName(CommandModel):
    """Name the session."""

    since = "0.50.4"
    group = "Sessions"
    kind = "setting"
    errors = (*_SAVED, E.SHUTTING_DOWN)
    type: Literal["set_session_name"]
    name: StrictStr
    """The new name."""


class NavigateTree(CommandModel):
    """Move the session to another entry: the conversation continues from there, and the branch that is left stays."""

    since = None
    group = "Sessions"
    kind = "work"
    errors = (
        *(E.BUSY, E.COMPACTING, E.ENTRY_NOT_FOUND, E.NO_MODEL, E.NO_API_KEY, E.AUTHENTICATION_FAILED),
        *(E.COMPACTION_FAILED, E.SESSION_NOT_SAVED, E.REFUSED_BY_EXTENSION, E.SHUTTING_DOWN),
    )
    sample = {"entryId": "00000000"}
    answer = "Navigation"
    type: Literal["navigate_tree"]
    entryId: StrictStr | None
    """The entry to continue from; null: before the first entry."""
    summarize: StrictBool = False
    """Whether the model summarises the abandoned branch."""
    instructions: StrictStr | None = None
    """Additional instructions for the summary."""


class SetLabel(CommandModel):
    """Label an entry of the session, or remove its label."""

    since = None
    group = "Sessions"
    kind = "setting"
    errors = (E.ENTRY_NOT_FOUND, *_SAVED, E.SHUTTING_DOWN)
    sample = {"entryId": "00000000", "label": "a label"}
    type: Literal["set_label"]
    entryId: StrictStr
    """The entry to label."""
    label: StrictStr | None = None
    """The label; null, absent or empty removes it."""


class ListSessions(CommandModel):
    """List saved sessions, those that were written to last first, a page at a time."""

    since = None
    group = "Sessions"
    kind = "read"
    errors = (E.SESSION_UNAVAILABLE, *_WAITS)
    sample = {"limit": 5}
    answer = "Sessions"
    type: Literal["list_sessions"]
    cwd: StrictStr | None = None
    """The absolute working folder whose sessions are listed; the session's own by default."""
    all: StrictBool = False
    """Whether to list the sessions of all working folders."""
    cursor: StrictStr | None = None
    """The `nextCursor` of the previous page; absent for the first one."""
    limit: Annotated[StrictInt, Field(ge=1, le=MAX_SESSIONS_LISTED)] | None = None
    """How many sessions to return at most; 50 by default."""


class Compact(CommandModel):
    """Compact the context: summarise its older part."""

    group = "Sessions"
    kind = "work"
    errors = (
        E.ALREADY_COMPACTED,
        E.NOTHING_TO_COMPACT,
        E.COMPACTION_IN_PROGRESS,
        E.COMPACTION_CANCELLED,
        E.COMPACTION_FAILED,
        E.NO_MODEL,
        E.NO_API_KEY,
        E.SESSION_NOT_SAVED,
        E.REFUSED_BY_EXTENSION,
        *_WAITS,
    )
    answer = "CompactionResult"
    seed_answer = "SeedCompactionResult"
    type: Literal["compact"]
    customInstructions: StrictStr | None = None


class ExportHtml(CommandModel):
    """Write the session as an HTML page."""

    group = "Sessions"
    kind = "read"
    errors = (E.SESSION_UNAVAILABLE, E.IO_ERROR, E.NOT_IMPLEMENTED, *_WAITS)
    sample = {"outputPath": "page.html"}
    answer = "Path"
    type: Literal["export_html"]
    outputPath: StrictStr | None = None


class SetModel(CommandModel):
    """Select a model."""

    group = "Settings"
    kind = "setting"
    errors = (E.MODEL_NOT_FOUND, E.NO_MODEL, *_SAVED, E.SHUTTING_DOWN)
    sample = {"provider": "fake", "modelId": "m2"}
    answer = "Model"
    type: Literal["set_model"]
    provider: StrictStr
    modelId: StrictStr


class CycleModel(CommandModel):
    """Select the next model."""

    group = "Settings"
    kind = "setting"
    errors = (E.NO_MODEL, *_SAVED, E.SHUTTING_DOWN)
    answer = "CycledModel | None"
    type: Literal["cycle_model"]


class SetThinkingLevel(CommandModel):
    """Select a thinking level."""

    group = "Settings"
    kind = "setting"
    errors = (*_SAVED, E.SHUTTING_DOWN)
    type: Literal["set_thinking_level"]
    level: ThinkingLevel


class CycleThinkingLevel(CommandModel):
    """Select the next thinking level."""

    group = "Settings"
    kind = "setting"
    errors = (*_SAVED, E.SHUTTING_DOWN)
    answer = "Level | None"
    type: Literal["cycle_thinking_level"]


class SetSteeringMode(CommandModel):
    """Set how many steering messages are delivered at once."""

    since = "0.32.0"
    group = "Settings"
    kind = "mode"
    errors = _WAITS
    type: Literal["set_steering_mode"]
    mode: QueueMode


class SetFollowUpMode(CommandModel):
    """Set how many follow-ups are delivered at once."""

    since = "0.32.0"
    group = "Settings"
    kind = "mode"
    errors = _WAITS
    type: Literal["set_follow_up_mode"]
    mode: QueueMode


class SetAutoCompaction(CommandModel):
    """Turn automatic compaction on or off."""

    group = "Settings"
    kind = "flag"
    errors = _WAITS
    type: Literal["set_auto_compaction"]
    enabled: StrictBool


class SetAutoRetry(CommandModel):
    """Turn automatic retry on or off."""

    since = "0.18.2"
    group = "Settings"
    kind = "flag"
    errors = _WAITS
    type: Literal["set_auto_retry"]
    enabled: StrictBool


class SetActiveTools(CommandModel):
    """Select the tools that the next requests of the session declare, and no others."""

    since = None
    group = "Settings"
    kind = "setting"
    errors = (E.TOOL_NOT_FOUND, *_SAVED, E.SHUTTING_DOWN)
    sample = {"names": ["read"]}
    type: Literal["set_active_tools"]
    names: list[StrictStr]
    """The names of the tools; the others become inactive."""


class SetToolApproval(CommandModel):
    """Choose which tool calls need the user's approval."""

    since = None
    group = "Settings"
    kind = "setting"
    errors = _WAITS
    type: Literal["set_tool_approval"]
    mode: ApprovalMode
    """`never`: every call runs; `ask`: the user decides about each call that may change something; `read-only`: only
    tools that change nothing run."""


class Reload(CommandModel):
    """Read the user's files again: settings, models, keys, resources and extensions. The session stays."""

    since = None
    group = "Settings"
    kind = "work"
    errors = (E.BUSY, E.COMPACTING, E.INVALID_CONFIGURATION, *_WAITS)
    type: Literal["reload"]


class AuthStatus(CommandModel):
    """Read where the credentials of each provider come from, and how to log in. No answer has a secret."""

    since = None
    group = "Keys and logins"
    kind = "read"
    errors = (E.PROVIDER_NOT_FOUND, *_WAITS)
    answer = "AuthStatuses"
    type: Literal["auth_status"]
    provider: StrictStr | None = None
    """The only provider that is asked about; absent: all."""


class Login(CommandModel):
    """Store a key of a provider, or log in to it. It is answered at its end: the models can be used."""

    since = None
    group = "Keys and logins"
    kind = "work"
    waits = False
    errors = (
        *(E.PROVIDER_NOT_FOUND, E.AUTHENTICATION_FAILED, E.INVALID_CONFIGURATION, E.IO_ERROR),
        *_WAITS,
    )
    sample = {"provider": "unknown", "method": "key", "key": "none"}
    answer = "ProviderAuth"
    type: Literal["login"]
    provider: StrictStr
    """The provider, as `auth_status` lists it."""
    method: LoginKind
    """`key`: with the key in `key`. `device-code`: with a code that the user enters in a browser (`login_start`).
    `browser`: in a browser that comes back to this machine; a dialog (`input`) takes what it was sent to, too.
    `extension`: as the extension that registers the provider does, which asks by dialogs and may show an address."""
    key: StrictStr | None = None
    """The key itself, printable ASCII characters without spaces around them; with the method `key` alone."""
    settings: list[StrictStr] | None = None
    """What is stored beside a key with the method `key`, each as `NAME=VALUE`; `auth_status` lists the names."""
    force: StrictBool = False
    """Whether a key may replace a stored login."""


class AbortLogin(CommandModel):
    """End logins that wait for their users; each is answered with `aborted`, and stores nothing."""

    since = None
    group = "Keys and logins"
    kind = "work"
    waits = False
    sample = {"provider": "unknown"}
    type: Literal["abort_login"]
    provider: StrictStr | None = None
    """The provider whose login ends; absent: all."""


class Logout(CommandModel):
    """Remove the stored key or login of a provider. The answer shows which credentials it has left."""

    since = None
    group = "Keys and logins"
    kind = "work"
    waits = False
    errors = (E.PROVIDER_NOT_FOUND, E.INVALID_CONFIGURATION, E.IO_ERROR, *_WAITS)
    sample = {"provider": "unknown"}
    answer = "ProviderAuth"
    type: Literal["logout"]
    provider: StrictStr
    """The provider, as `auth_status` lists it."""
    force: StrictBool = False
    """Whether a login that this program can't make again is removed, too."""


class Hello(CommandModel):
    """Identify the agent; as the first command, select the profile."""

    since = None
    group = "Protocol, dialogs and files"
    kind = "work"
    waits = False
    errors = (E.TOO_LATE,)
    answer = "Hello"
    seed_answer = "SeedHello"
    type: Literal["hello"]
    protocol: ClientProfile | None = None
    delegate: list[FileMethod] | None = None
    """The file methods that the client offers from now on; replaces its previous offer."""
    directories: list[StrictStr] | None = None
    """The additional folders from now on, as absolute paths; replace those of `--add-dir`."""
    surfaces: StrictBool | None = None
    """Whether the client draws surfaces of extensions from now on; replaces what it has said before."""
    subagents: StrictBool | None = None
    """Whether the client is sent what sub-agents do (`subagent_event`); replaces what it has said before."""
    themes: list[StrictStr] | None = None
    """The names of the client's themes, of which extensions may choose one."""
    theme: StrictStr | None = None
    """The theme that the client shows now."""
    toolsExpanded: StrictBool | None = None
    """Whether the client shows the outputs of tools unfolded now."""


class UiSurfaceInput(CommandModel):
    """Send what the user does with a surface of an extension, or have an `item` drawn. What is gone takes none."""

    since = None
    group = "Protocol, dialogs and files"
    kind = "work"
    waits = False
    sample = {"surface": "unknown", "columns": 80, "rows": 24}
    type: Literal["ui_surface_input"]
    surface: StrictStr
    """As `ui_surface_open` names it, or as the client names the surface of an item; `editor`: the client's editor."""
    text: StrictStr | None = None
    """The text that the client's own editor has now, or that the editor of an extension (`input`) is to have."""
    number: StrictInt | None = None
    """Counts the keys, pastes and texts for an `input` or `keys`; `ui_input` names the newest one that was taken."""
    by: StrictStr | None = None
    """Names the client whose numbers they are; `ui_input` repeats it."""
    columns: StrictInt | None = None
    """The width that the surface has now, from 1."""
    rows: StrictInt | None = None
    """The height of the terminal, from 1."""
    data: StrictStr | None = None
    """What a terminal sends for a key or a paste."""
    key: StrictStr | None = None
    """The name of the key, such as `ctrl+c`, `enter` or `a`."""
    closed: StrictBool = False
    """Whether the user has closed it, or the client shows the item no more."""
    item: SurfaceItem | None = None
    """What is to be drawn, for the width in `columns`; replaces what the client has sent for this surface before."""


class RunShortcut(CommandModel):
    """Start what an extension does at a key. It is answered at once; a failure is an `extension_error`."""

    since = None
    group = "Protocol, dialogs and files"
    kind = "work"
    waits = False
    sample = {"key": "ctrl+alt+p"}
    answer = "ShortcutRun"
    type: Literal["run_shortcut"]
    key: StrictStr
    """The key, as `get_shortcuts` lists it."""


class ExtensionUiResponse(CommandModel):
    """Answer a dialog. This command has no response, whatever its content."""

    since = "0.35.0"
    published = "0.51.0"
    group = "Protocol, dialogs and files"
    kind = "answer"
    sample = {"id": "unknown", "cancelled": True}
    type: Literal["extension_ui_response"]
    value: object = None
    confirmed: object = None
    cancelled: object = None


class ClientResponse(CommandModel):
    """Answer a request for a file. This command has no response, whatever its content."""

    since = None
    group = "Protocol, dialogs and files"
    kind = "answer"
    sample = {"id": "unknown", "success": True}
    type: Literal["client_response"]
    success: object = None
    """True: the operation was done. Anything else refuses the request."""
    content: object = None
    """The complete content of the file as the client has it."""
    error: object = None
    """Why the request is refused; the model reads it."""
    errorCode: object = None
    """`unsupported`: the client can't do this at all."""


class QueueMessage(_Text):
    """The name of `steer` in the oldest generation."""

    since, until = "0.16.0", "0.32.0"
    group = "Names of earlier generations"
    kind = "text"
    alias_of = "steer"
    errors = (E.NOT_QUEUEABLE, *_QUEUED, E.SHUTTING_DOWN)
    type: Literal["queue_message"]


class Reset(CommandModel):
    """The name of `new_session` in the oldest generation."""

    since, until = "0.16.0", "0.31.0"
    group = "Names of earlier generations"
    kind = "session"
    alias_of = "new_session"
    errors = (*_SWITCH, E.SHUTTING_DOWN)
    type: Literal["reset"]


class Branch(CommandModel):
    """The name of `fork` in the oldest generation."""

    since, until = "0.16.0", "0.43.0"
    group = "Names of earlier generations"
    kind = "session"
    errors = (E.ENTRY_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN)
    sample = {"entryIndex": 0}
    answer = "Branched"
    seed_answer = "SeedBranched"
    type: Literal["branch"]
    entryIndex: StrictInt


class GetBranchMessages(CommandModel):
    """The name of `get_fork_messages` in the oldest generation."""

    since, until = "0.16.0", "0.43.0"
    group = "Names of earlier generations"
    kind = "read"
    errors = _WAITS
    answer = "BranchMessages"
    type: Literal["get_branch_messages"]


class SetQueueMode(CommandModel):
    """Set both modes, as in the oldest generation."""

    since, until = "0.16.0", "0.32.0"
    group = "Names of earlier generations"
    kind = "mode"
    errors = _WAITS
    type: Literal["set_queue_mode"]
    mode: QueueMode


AnyCommand: TypeAlias = CommandModel | FlatCommand


def _declared() -> Iterator[tuple[str, type[CommandModel]]]:
    for declared in tuple(globals().values()):
        if isinstance(declared, type) and issubclass(declared, CommandModel) and "type" in declared.__annotations__:
            [name] = cast("Sequence[str]", getattr(declared.__annotations__["type"], "__args__", ()))
            yield name, declared


MODELS: Final[Mapping[str, type[CommandModel]]] = dict(_declared())
"""Every command by its name, in the order of this module, which is that of the pages."""
ALL_COMMANDS: Final = tuple(MODELS)
