"""The command line of `pinnace attach`: which words are its own, and which are the agent's.

The rows are those of the one table of options (`table`), written so that an attach reads them without loading it:
most of what an attach costs is what it imports. Agent flags are passed on as they are; only the host, which starts the
agent, reads them; it also checks names and cursors. Standard library only.
"""

import re

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ON_EOF = ("detach", "end")
ROWS: "Sequence[tuple[str, str, str, str | None, Sequence[str]]]" = (
    ("--new", "is_new", "Start a new agent. The default without NAME and SESSION.", None, ()),
    ("--since", "since", "Replay what followed this cursor, JOURNAL.EPOCH:SEQ; implies --cursors.", "CURSOR", ()),
    ("--cursors", "has_cursors", "Begin with a record `attached`, and number events by `seq`.", None, ()),
    ("--client", "client", "The name of this client run: a command repeated after a reconnect runs once.", "NAME", ()),
    ("--on-eof", "on_eof", "When stdin ends: detach (default with NAME or SESSION), or end the agent.", "WHAT", ON_EOF),
    ("--tui", "is_terminal", "Open the terminal client on the agent (extra tui).", None, ()),
    ("--no-start", "starts_no_host", "Exit with 69 if no host runs, instead of starting one.", None, ()),
)
"""Name, field, help, metavar of the value or None, the values there are or none."""

TAKING_VALUES = frozenset(
    "--add-dir --api-key --api-key-fd --api-key-file --append-system-prompt --client-prompt --exclude-tools "
    "--exit-codes --export --export-branch --extension --fork --format --hosted --log-file --max-cost "
    "--max-run-seconds --max-turns --message-id --mode --model --models --name --on-restore --prompt-template "
    "--protocol --provider --result-file --sandbox --sandbox-network --session --session-dir --session-id --skill "
    "--system-prompt --theme --thinking --tool-approval --tools --tui-mode --use-theme -e -n -t -xt".split()
)
"""Agent flags with a value. By name, since their table loads more than an attach; a test compares."""

_FOREIGN = frozenset("--export --export-branch --format --list-models --message-id --print -p --api-key-fd".split())
"""Agent flags that no attach can pass on."""
_SESSION_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class WrongWords(Exception):
    """The command line is invalid. The text is for the user."""


class AttachWords:
    """The parsed command line of an attach."""

    def __init__(self) -> None:
        """Begin with the defaults."""
        self.is_new = False
        self.since: str | None = None
        self.has_cursors = False
        self.client: str | None = None
        self.on_eof: str | None = None
        self.starts_no_host = False
        self.is_terminal = False
        """Whether to open the terminal client, which attaches by itself."""
        self.agent: str | None = None
        """The name of an agent."""
        self.session: str | None = None
        """The id of a session, or its path."""
        self.profile: str | None = None
        """The protocol profile that was asked for."""
        self.flags: list[str] = []
        """Those of the agent."""
        self.request: str | None = None
        """`help` or `version`, instead."""

    def record(self, cwd: str, environment: "Mapping[str, str]", umask: int, release: str) -> dict[str, object]:
        """Return the first message to the host."""
        session = self.session
        if session is not None and is_path(session):
            session = f"{cwd.rstrip('/')}/{session}" if not session.startswith("/") else session
        return {
            "type": "attach",
            "versions": [1],
            "release": release,
            "new": self.is_new,
            "agent": self.agent,
            "session": session,
            "since": self.since,
            "cursors": self.has_cursors,
            "client": self.client,
            "onEof": self.on_eof,
            "start": self.flags,
            "cwd": cwd,
            "environment": dict(environment),
            "umask": umask,
            "profile": self.profile or environment.get("PINNACE_PROTOCOL") or None,
        }


def read_words(words: "Sequence[str]") -> AttachWords:
    """Sort out the words behind `pinnace attach`.

    Raises:
        WrongWords: They are not understood (exit code 2).
    """
    found, rest = AttachWords(), list(words)
    rows = {name: (field, metavar, choices) for name, field, _, metavar, choices in ROWS}
    places: list[str] = []
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.partition("=")
        if word in ("-h", "--help", "-v", "--version"):
            found.request = "help" if "h" in word else "version"
        elif name in rows:
            field, metavar, choices = rows[name]
            if metavar is None:
                if has_value:
                    raise WrongWords(f"{name} takes no value")
                setattr(found, field, True)
            else:
                setattr(found, field, _value(name, value if has_value else None, rest, choices))
        elif not word.startswith("-"):
            places.append(word)
        else:
            _take_flag(found, word, rest)
    _place(found, places)
    if found.since is not None:
        found.has_cursors = True
    if found.is_terminal and (found.has_cursors or found.client or found.on_eof or found.starts_no_host):
        raise WrongWords("--tui takes a NAME or SESSION and flags of the agent alone")
    found.is_new = found.is_new or not places
    found.on_eof = found.on_eof or ("detach" if places else "end")
    if found.is_new and found.session is not None:
        raise WrongWords("--new begins an agent of its own: leave SESSION out, or --new")
    return found


def _misspelt(flags: "Sequence[str]") -> str | None:
    """Return what is said of a flag that is nearly one with a value, so that its value was taken for a NAME."""
    from pinnace_spec.nearest import did_you_mean

    known = [*(row[0] for row in ROWS), *TAKING_VALUES]
    for flag in flags:
        if flag.startswith("--") and flag not in known and (hint := did_you_mean(flag, known)):
            return f"no option {flag}{hint}"
    return None


def is_path(session: str) -> bool:
    """Return whether a word that names a session is the path of its file."""
    return "/" in session or session.endswith(".jsonl")


def _value(name: str, value: "str | None", rest: list[str], choices: "Sequence[str]") -> str:
    if value is None:
        if not rest:
            raise WrongWords(f"{name} requires a value")
        value = rest.pop(0)
    if choices and value not in choices:
        raise WrongWords(f"{name} takes {' or '.join(choices)}")
    return value


def _take_flag(found: AttachWords, word: str, rest: list[str]) -> None:
    """Take a flag of the agent, with its value."""
    name, has_value, value = word.partition("=")
    if name in _FOREIGN:
        raise WrongWords(f"{name} is not for an agent that is attached to: see pinnace --help")
    taken = [word]
    if name in TAKING_VALUES and not has_value:
        value = _value(name, None, rest, ())
        taken.append(value)
    if name == "--mode":
        if value != "rpc":
            raise WrongWords("attach speaks mode rpc only")
        return  # which every agent of a host speaks
    if name == "--protocol":
        found.profile = value
    found.flags += taken


def _place(found: AttachWords, places: list[str]) -> None:
    """Take the agent's name or session."""
    if len(places) > 1:
        problem = f"attach takes one NAME or SESSION, not {len(places)}; prompts are sent on stdin"
        raise WrongWords(_misspelt(found.flags) or problem)
    if not places:
        return
    if is_path(places[0]) or _SESSION_ID.fullmatch(places[0]):
        found.session = places[0]
    else:
        found.agent = places[0]
