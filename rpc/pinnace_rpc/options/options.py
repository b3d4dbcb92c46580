"""The options of a process as data: created by `arguments`, used by the server.

Nothing here is resolved: a model is a pattern, a prompt may be a path. Must import nothing but types, since
`--help` loads it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from pinnace_spec.profiles.profiles import DEFAULT_PROFILE, ClientProfile
from pinnace_spec.records.messages import ThinkingLevel

if TYPE_CHECKING:
    from pinnace_spec.batch.results import ResultReason

PROFILE_VARIABLE: Final = "PINNACE_PROTOCOL"
LOG_VARIABLE: Final = "PINNACE_LOG"
_OFFLINE_VARIABLE: Final = "PI_OFFLINE"
_YES: Final = frozenset({"1", "true", "yes"})

OnEof = Literal["abort", "drain"]
OnRestore = Literal["pause", "continue"]

Mode = Literal["text", "json", "rpc", "acp"]

ToolApproval = Literal["never", "ask", "read-only"]

ExportFormat = Literal["html", "jsonl", "markdown", "atif"]

ExitCodes = Literal["plain", "detailed"]

Sandbox = Literal["off", "workspace-write", "read-only"]
SandboxNetwork = Literal["off", "on"]

SERVING_MODES: Final[frozenset[Mode]] = frozenset({"rpc", "acp"})
"""Those in which a client speaks on stdin."""

ON_EOF: Final[tuple[OnEof, ...]] = get_args(OnEof)
ON_RESTORE: Final[tuple[OnRestore, ...]] = get_args(OnRestore)
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
SANDBOXES: Final[tuple[Sandbox, ...]] = get_args(Sandbox)
SANDBOX_NETWORKS: Final[tuple[SandboxNetwork, ...]] = get_args(SandboxNetwork)
TOOL_APPROVALS: Final[tuple[ToolApproval, ...]] = get_args(ToolApproval)
EXPORT_FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)
EXIT_CODES: Final[tuple[ExitCodes, ...]] = get_args(ExitCodes)


_SECRET: Final = frozenset({"api_key", "extension_flags"})


class StartupError(Exception):
    """The process can't start: a model or a file that the options name does not exist. The text is for the user."""

    exit_code = 1

    def __init__(self, text: str, reason: "ResultReason" = "usage", *, is_retryable: bool = False) -> None:
        """Word the error; `reason` and `is_retryable` are those of the result of the process."""
        super().__init__(text)
        self.reason: ResultReason = reason
        self.is_retryable = is_retryable


class UsageRefused(StartupError):
    """The command line or the settings are invalid."""

    exit_code = 2


class UnknownOption(UsageRefused):
    """A long option that is neither the program's nor an extension's."""


class ExportOptions(NamedTuple):
    """What to export instead of serving."""

    source: str
    """The path of a session."""
    target: str | None = None
    """The path to write; without a format, one that ends in `.jsonl` is to be a session, too."""
    only_active: bool = False
    format: ExportFormat | None = None


def says_offline(env: Mapping[str, str]) -> bool:
    """Return whether the environment says what `--offline` says."""
    return env.get(_OFFLINE_VARIABLE, "").lower() in _YES


class Options(NamedTuple):
    """The options of one process. `repr` contains no values that may be secret."""

    provider: str | None = None
    model: str | None = None
    models: tuple[str, ...] = ()
    """Patterns of the models to cycle between; empty: all that are available."""
    list_models: str | None = None
    """The search text for models, instead of serving; empty: list all."""
    as_json: bool = False
    """Whether they are listed as JSON lines."""
    login: str | None = None
    """The provider whose key is asked for, instead of serving; empty: it is asked for, too."""
    export: ExportOptions | None = None
    api_key: str | None = None
    api_key_file: str | None = None
    """The file to read it from, instead."""
    api_key_fd: int | None = None
    """Likewise: an inherited descriptor."""
    thinking: ThinkingLevel | None = None
    system_prompt: str | None = None
    """A text, or the path of a file."""
    append_system_prompt: tuple[str, ...] = ()
    """Each a text, or the path of a file."""
    client_prompt: str | None = None
    """A text of the client's behind all of these, which replaces none."""
    skills: tuple[str, ...] = ()
    """Paths of files or folders."""
    prompt_templates: tuple[str, ...] = ()
    """Likewise."""
    no_skills: bool = False
    """Only those of `skills`."""
    no_prompt_templates: bool = False
    """Only those of `prompt_templates`."""
    no_context_files: bool = False
    directories: tuple[str, ...] = ()
    """Paths of additional folders, relative to the folder of the process."""
    extensions: tuple[str, ...] = ()
    """Paths, or names of packages and of built-in extensions."""
    no_extensions: bool = False
    """Only those of `extensions`."""
    no_mcp: bool = False
    keeps_going: bool = False
    """Whether to start without extensions that fail to load."""
    tool_approval: ToolApproval = "never"
    sandbox: Sandbox | None = None
    """None: as the settings say."""
    sandbox_network: SandboxNetwork | None = None
    """Likewise."""
    extension_flags: tuple[tuple[str, str | None], ...] = ()
    """Unknown long options with the word that followed; extensions may have registered them."""
    taken_words: tuple[tuple[int, int], ...] = ()
    """Those of them that took the word behind them, by place; and the place among `messages` or `files` to which that
    word belongs if the option takes no value."""
    tools: tuple[str, ...] | None = None
    """Names, patterns or changes; None: not given, empty: none."""
    exclude_tools: tuple[str, ...] = ()
    no_tools: bool = False
    no_builtin_tools: bool = False
    name: str | None = None
    session_id: str | None = None
    is_persistent: bool = True
    """Whether sessions are kept in files."""
    session: str | None = None
    """A path, or an id or its beginning."""
    continues: bool = False
    """Whether to continue the folder's newest session."""
    fork: str | None = None
    """As `session`, to be copied."""
    session_dir: str | None = None
    approved: bool | None = None
    """Whether the project is trusted; None: as the user has decided before."""
    protocol: ClientProfile = DEFAULT_PROFILE
    on_eof: OnEof = "abort"
    on_restore: OnRestore = "pause"
    draws_surfaces: bool = False
    """Whether the client draws surfaces of extensions from the start."""
    hosted: str | None = None
    """The file by which a host, and the next process of its agent, know the current session."""
    mode: Mode = "rpc"
    is_interactive: bool = False
    """Whether to open the terminal client, whose agent is in mode rpc."""
    opens_sessions: bool = False
    """Whether the terminal client begins with a list of sessions."""
    look: str | None = None
    """The theme of the terminal client."""
    agent_flags: tuple[str, ...] = ()
    """The words of the command line for the agent of the terminal client."""
    messages: tuple[str, ...] = ()
    """Prompts, sent one after the other; the first one follows the texts of stdin and the files."""
    files: tuple[str, ...] = ()
    """Paths, as they were given."""
    message_id: str | None = None
    """Of the first prompt of the command line, whose repetition is not run again."""
    result_file: str | None = None
    has_detailed_exit_codes: bool = False
    fails_on_error: bool = False
    """Whether mode json, too, ends with 1 if the model failed."""
    max_turns: int | None = None
    max_cost: float | None = None
    max_run_s: float | None = None
    is_offline: bool = False
    verbose: bool = False
    log_file: str | None = None
    """The log file; None: the one that the environment names, or none."""

    def __repr__(self) -> str:
        """Show the options that were given."""
        said = {name: value for name, value in self._asdict().items() if name not in _SECRET}
        return f"Options({', '.join(f'{name}={value!r}' for name, value in said.items())})"
