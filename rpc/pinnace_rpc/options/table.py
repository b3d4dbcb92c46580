"""The options and the subcommands of the command line: the one table that parsing, help and completion read.

Every option that a client of pi passes is here; one without a help text is accepted for such clients only. The field of
a row is one of `Options`, or one that `arguments` decides by. To add an option: a row here, and a field in `Options`.
Must import nothing slow, since every start loads it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_rpc.options import values
from pinnace_rpc.options.options import (
    EXIT_CODES,
    EXPORT_FORMATS,
    LOG_VARIABLE,
    MODES,
    ON_EOF,
    ON_RESTORE,
    PROFILE_VARIABLE,
    SANDBOX_NETWORKS,
    SANDBOXES,
    TOOL_APPROVALS,
)
from pinnace_rpc.options.parser import HELP, VERSION, Argument, Option, Subcommand
from pinnace_spec.profiles.profiles import CLIENT_PROFILES
from pinnace_spec.records.messages import THINKING_LEVELS


class Group(NamedTuple):
    """Options under one title of the help."""

    title: str
    options: Sequence[Option]
    is_listed: bool = False
    """Whether only the names are shown, one after the other."""


# By name, since printing them loads them; a test compares.
_SPEC: Final = (
    "asyncapi",
    "chart",
    "deviations",
    "drawing",
    "matrix",
    "mermaid",
    "meta",
    "model",
    "quint",
    "reference",
    "rules",
    "schema",
    "typescript",
)
SUBCOMMANDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "acp": ("The same as --mode acp.", ()),
    "agents": ("List the agents of the host; stop, restart or remove one.", ("stop", "restart", "remove")),
    "attach": ("Attach to an agent that outlives its client.", ()),
    "auth": ("Store, remove or list keys of providers.", ("login", "logout", "status")),
    "batch": ("Run an agent for each task of a file, here or on many machines.", ()),
    "completion": ("Print the completion script of a shell.", ("bash", "fish", "zsh")),
    "demo": ("Show a short conversation without a network.", ()),
    "doctor": ("Check files, keys, extras, the sandbox, extensions and MCP servers.", ()),
    "explain": ("Explain a rule of the protocol or a transition.", ()),
    "host": ("Keep agents running between clients.", ("status", "stop")),
    "install": ("Install a package of extensions, skills, prompts and themes.", ()),
    "list": ("List the packages.", ()),
    "mcp": (
        "List, test, add, remove or sign in to MCP servers.",
        ("add", "list", "login", "logout", "remove", "test"),
    ),
    "remove": ("Remove a package.", ()),
    "sessions": ("List the sessions of this folder.", ()),
    "shim": ("Write `pi` and `cli.js` that start pinnace.", ()),
    "spec": ("Print a file of the specification.", _SPEC),
    "trust": ("Trust a project: let its .pi configure the agent.", ()),
    "untrust": ("Stop trusting a project.", ()),
    "update": ("Update packages, all or one.", ()),
}
"""The subcommands, with their help and the words that may follow."""


def _flag(*names: str, field: str | None, help: str | None = None, constant: object = True) -> Option:
    return Option(names, field, help, constant=constant)


_MODE: Final = Group(
    "Mode",
    [
        Option(
            ("--print", "-p"),
            "is_print",
            "Send stdin, @FILEs and TEXTs, print the answer and exit.",
            text_prefix="---",  # a prompt with front matter
        ),
        Option(
            ("--mode",),
            "mode",
            "text: as --print. json: events as JSON lines. rpc: commands on stdin, records on stdout. "
            "acp: the protocol of editors (Agent Client Protocol).",
            "text|json|rpc|acp",
            completed=MODES,
            read=values.one_of(MODES, f"one of {', '.join(MODES)}"),
        ),
        _flag("--fail-on-error", field="fails_on_error", help="In mode json, exit with 1 if the model failed."),
        Option(
            ("--exit-codes",),
            "has_detailed_exit_codes",
            "plain (default): as below. detailed: a code for each reason, see docs/command-line.md.",
            "plain|detailed",
            completed=EXIT_CODES,
            read=values.is_detailed,
        ),
        Option(
            ("--result-file",),
            "result_file",
            "When the process ends, write its result to FILE as one JSON object.",
            "FILE",
            completed="file",
            read=values.not_empty,
        ),
        Option(
            ("--protocol",),
            "protocol",
            f"Protocol of stdout: {', '.join(CLIENT_PROFILES)}. Default: {PROFILE_VARIABLE}, or pi.",
            "NAME",
            completed=CLIENT_PROFILES,
            read=values.one_of(CLIENT_PROFILES, f"one of {', '.join(CLIENT_PROFILES)}"),
        ),
        Option(
            ("--on-eof",),
            "on_eof",
            "In mode rpc, when stdin ends: abort the run (default), or finish it first.",
            "abort|drain",
            completed=ON_EOF,
            read=values.one_of(ON_EOF, " or ".join(ON_EOF)),
        ),
        Option(
            ("--on-restore",),
            "on_restore",
            "In mode rpc, messages queued in the session: keep them until the next one (default), or deliver them.",
            "pause|continue",
            completed=ON_RESTORE,
            read=values.one_of(ON_RESTORE, " or ".join(ON_RESTORE)),
        ),
        Option(
            ("--surfaces",),
            "draws_surfaces",
            "In mode rpc: the client draws surfaces of extensions from the start, as `surfaces` of hello says.",
        ),
        Option(
            ("--hosted",),
            "hosted",
            "For the host: continue the session that FILE names, and name each that replaces it there.",
            "FILE",
            completed="file",
            read=values.not_empty,
        ),
    ],
)
_LIMITS: Final = Group(
    "Limits of a run, from its prompt until the agent has settled",
    [
        Option(("--max-turns",), "max_turns", "The most answers of the model.", "NUMBER", read=values.count),
        Option(("--max-cost",), "max_cost", "The highest cost, by the models' prices.", "USD", read=values.amount),
        Option(("--max-run-seconds",), "max_run_s", "The longest duration.", "SECONDS", read=values.amount),
    ],
)
_MODEL: Final = Group(
    "Model",
    [
        Option(
            ("--model",),
            "model",
            "An id, provider/id, or a part of it; :LEVEL may follow.",
            "MODEL",
            completed="model",
            read=values.readable,
        ),
        Option(
            ("--provider",),
            "provider",
            "The model's provider; `offline` needs no network, key or --model.",
            "ID",
            completed="provider",
            read=values.readable,
        ),
        Option(
            ("--api-key",),
            "api_key",
            "The key for the model's provider. It is not stored, but ps shows it.",
            "KEY",
            read=values.not_empty,
        ),
        Option(
            ("--api-key-file",),
            "api_key_file",
            "Read the key from the first line of FILE, which may be a pipe.",
            "FILE",
            completed="file",
            read=values.not_empty,
        ),
        Option(
            ("--api-key-fd",),
            "api_key_fd",
            "Read the key from this descriptor, up to a line feed or the end.",
            "NUMBER",
            read=values.descriptor,
        ),
        Option(
            ("--thinking",),
            "thinking",
            f"Thinking level: {', '.join(THINKING_LEVELS)}.",
            "LEVEL",
            completed=THINKING_LEVELS,
            read=values.thinking_level,
        ),
        Option(
            ("--models",),
            "models",
            "The models to cycle through, separated by commas, with * and ?.",
            "LIST",
            completed="models",
            read=values.items,
        ),
        Option(
            ("--login",),
            "login",
            "Log in to PROVIDER with a code, or store its key, and exit: for editors.",
            "[PROVIDER]",
            implied="",
            read=values.readable,
        ),
        Option(
            ("--list-models",),
            "list_models",
            "Print the models that have a key, or those of them that match WORDS, and exit.",
            "[WORDS]",
            implied="",
            read=values.readable,
        ),
        _flag("--json", field="as_json", help="With --list-models: print JSON lines."),
    ],
)
_PROMPT_AND_TOOLS: Final = Group(
    "Prompt and tools",
    [
        Option(
            ("--system-prompt",),
            "system_prompt",
            "Replace the built-in prompt: a text or a file.",
            "TEXT",
            completed="file",
        ),
        Option(
            ("--append-system-prompt",),
            "append_system_prompt",
            "Append to the prompt: a text or a file. Can be repeated.",
            "TEXT",
            completed="file",
            repeats=True,
        ),
        Option(
            ("--client-prompt",),
            "client_prompt",
            "For clients: append this text to the prompt, behind APPEND_SYSTEM.md or what replaces it.",
            "TEXT",
        ),
        _flag(
            "--no-context-files", "-nc", field="no_context_files", help="Leave out AGENTS.md and other context files."
        ),
        Option(
            ("--add-dir",),
            "directories",
            "Name another folder in the prompt, and read its context file. Can be repeated.",
            "DIR",
            completed="file",
            repeats=True,
        ),
        Option(
            ("--skill",),
            "skills",
            "Add a skill: a file or a folder. Can be repeated.",
            "PATH",
            completed="file",
            repeats=True,
        ),
        _flag("--no-skills", "-ns", field="no_skills", help="No skills but those of --skill."),
        Option(
            ("--prompt-template",),
            "prompt_templates",
            "Add a prompt template: a file or a folder. Can be repeated.",
            "PATH",
            completed="file",
            repeats=True,
        ),
        _flag(
            "--no-prompt-templates",
            "-np",
            field="no_prompt_templates",
            help="No prompt templates but those of --prompt-template.",
        ),
        Option(
            ("--tools", "-t"),
            "tools",
            "The active tools, separated by commas, with *; or changes of the default: +name, -name.",
            "LIST",
            completed="tools",
            read=values.items,
        ),
        Option(
            ("--exclude-tools", "-xt"),
            "exclude_tools",
            "Tools to leave out, separated by commas, with *.",
            "LIST",
            completed="tools",
            read=values.items,
        ),
        _flag("--no-tools", "-nt", field="no_tools", help="No tools but those of --tools."),
        _flag(
            "--no-builtin-tools",
            "-nbt",
            field="no_builtin_tools",
            help="No tools but those of --tools and of extensions.",
        ),
        Option(
            ("--tool-approval",),
            "tool_approval",
            "never (default); ask: the client confirms each tool call that changes something; read-only.",
            "WHEN",
            completed=TOOL_APPROVALS,
            read=values.one_of(TOOL_APPROVALS, f"{', '.join(TOOL_APPROVALS[:-1])} or {TOOL_APPROVALS[-1]}"),
        ),
        Option(
            ("--sandbox",),
            "sandbox",
            "off (default); workspace-write: commands write only in the working folder; read-only: nowhere.",
            "MODE",
            completed=SANDBOXES,
            read=values.one_of(SANDBOXES, f"{', '.join(SANDBOXES[:-1])} or {SANDBOXES[-1]}"),
        ),
        Option(
            ("--sandbox-network",),
            "sandbox_network",
            "With a sandbox: off (default), or on: commands use the network of this machine.",
            "off|on",
            completed=SANDBOX_NETWORKS,
            read=values.one_of(SANDBOX_NETWORKS, " or ".join(SANDBOX_NETWORKS)),
        ),
    ],
)
_EXTENSIONS: Final = Group(
    "Extensions, which may add further options",
    [
        Option(
            ("--extension", "-e"),
            "extensions",
            "Add an extension: a file or a folder. Can be repeated.",
            "PATH",
            completed="file",
            repeats=True,
        ),
        _flag("--no-extensions", "-ne", field="no_extensions", help="No extensions but those of --extension."),
        _flag("--no-mcp", field="no_mcp", help="No MCP servers."),
        _flag("--keep-going", field="keeps_going", help="Start without extensions that were found and fail to load."),
    ],
)
_SESSION: Final = Group(
    "Session",
    [
        _flag("--continue", "-c", field="continues", help="Continue the newest session of this folder."),
        Option(
            ("--session",),
            "session",
            "Continue a session: its file, its id or the beginning of its id.",
            "FILE|ID",
            completed="file",
            read=values.not_empty,
        ),
        Option(
            ("--fork",),
            "fork",
            "Continue a copy of a session of any folder.",
            "FILE|ID",
            completed="file",
            read=values.not_empty,
        ),
        Option(
            ("--session-id",),
            "session_id",
            "Continue the session with this id, or create it.",
            "ID",
            read=values.session_id,
        ),
        Option(
            ("--message-id",),
            "message_id",
            "The id of the prompt. A session that has it continues, and does not run it again.",
            "ID",
            read=values.message_id,
        ),
        Option(
            ("--session-dir",),
            "session_dir",
            "Store session files here.",
            "FOLDER",
            completed="folder",
            read=values.not_empty,
        ),
        _flag("--no-session", field="is_persistent", help="Keep the conversation in memory only.", constant=False),
        Option(("--name", "-n"), "name", "The name of the session.", "NAME", read=values.readable_name),
        Option(
            ("--export",),
            "export",
            "Write a session as an HTML page, or in another --format, and exit: --export FILE [OUT].",
            "FILE",
            completed="file",
            read=values.not_empty,
        ),
        Option(
            ("--format",),
            "export_format",
            "html (default), or the active branch as jsonl (a session; default of OUT.jsonl), markdown or atif.",
            "FORMAT",
            completed=EXPORT_FORMATS,
            read=values.one_of(EXPORT_FORMATS, f"one of {', '.join(EXPORT_FORMATS)}"),
        ),
        Option(
            ("--export-branch",),
            "export_branch",
            "The exported part: all branches (default), or the active one.",
            "all|active",
            completed=("all", "active"),
            read=values.one_of(("all", "active"), "all or active"),
        ),
    ],
)
_OTHER: Final = Group(
    "Other",
    [
        _flag("--approve", "--trust", "-a", field="approved", help="Trust the project for this run: read its .pi."),
        _flag(
            "--no-approve",
            "-na",
            field="approved",
            help="Do not trust the project for this run.",
            constant=False,
        ),
        _flag(
            "--offline",
            field="is_offline",
            help="Send nothing but requests to models. PI_OFFLINE=1 does the same.",
        ),
        Option(
            ("--log-file",),
            "log_file",
            f"Write a log of JSON lines to FILE. Default: {LOG_VARIABLE}, else no log.",
            "FILE",
            completed="file",
            read=values.not_empty,
        ),
        _flag(
            "--verbose", field="verbose", help="Log tools, queues and reads as well, and write the log to stderr, too."
        ),
        _flag("--version", "-v", field=VERSION, help="Print the version, in a checkout with its commit, and exit."),
        _flag("--help", "-h", field=HELP, help="Print this help and exit."),
    ],
)
_IGNORED: Final = Group(
    "Accepted for clients of pi, and ignored",
    [
        _flag("--no-themes", field=None),
        Option(("--theme",), None, metavar="TEXT"),
        Option(("--tui-mode",), None, metavar="TEXT"),
    ],
    is_listed=True,
)
_TERMINAL: Final = Group(
    "Terminal client (`pinnace` in a terminal, without a mode)",
    [
        _flag("--resume", "-r", field="resume", help="Choose a session from a list."),
        Option(
            ("--use-theme",),
            "look",
            "dark, light, high-contrast, or a theme file of pi by its name.",
            "THEME",
            completed=("dark", "light", "high-contrast"),
        ),
    ],
)

GROUPS: Final = (_MODE, _LIMITS, _MODEL, _PROMPT_AND_TOOLS, _EXTENSIONS, _SESSION, _TERMINAL, _OTHER, _IGNORED)
OPTIONS: Final[Sequence[Option]] = [option for group in GROUPS for option in group.options]
NAMES: Final[Sequence[str]] = [name for option in OPTIONS for name in option.names]
"""Of all options."""


def attach_command() -> Subcommand:
    """Return what `pinnace attach` takes beside the flags of an agent. Its rows are where an attach can read them."""
    from pinnace_rpc.options.words import ROWS

    return Subcommand(
        "pinnace attach",
        "Speak the protocol on stdin and stdout with an agent of the host, which outlives this process. Starts a "
        "host if none runs, and an agent with the AGENT FLAGS if none has this NAME or SESSION (an id or a file).",
        [Option((name,), field, text, metavar, completed=values) for name, field, text, metavar, values in ROWS],
        [Argument("agent", "[NAME|SESSION]"), Argument("flags", "[AGENT FLAGS]")],
    )
