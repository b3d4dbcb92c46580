"""What a scenario of the Agent Client Protocol is: what it needs, a model's script, and a client's steps. Rows only.

Made by `reading`; a scenario keeps its source, so that a failure is one again. Must not know how anything is carried
out (`playing`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pinnace_fuzz.harness.login_server import LoginServerKind
from pinnace_fuzz.judge.scenarios.scenario import LlmAnswer

NEEDS: Final[Mapping[str, str]] = {
    "llm": "the judge's model server can replace the real one",
    "tools": "the model's calls of a tool `bash` are carried out",
    "load": "`loadSession`",
    "list": "`sessionCapabilities.list`",
    "resume": "`sessionCapabilities.resume`",
    "close": "`sessionCapabilities.close`",
    "delete": "`sessionCapabilities.delete`",
    "fork": "`sessionCapabilities.fork`",
    "title": "`sessionCapabilities.title`",
    "status": "`sessionCapabilities.status`",
    "archive": "`sessionCapabilities.archive`",
    "systemPrompt": "`sessionCapabilities.systemPrompt`",
    "auth-status": "`auth.status`",
    "logout": "`auth.logout`",
    "logins": "`authenticate` with `login-xai` logs in with a code, at a server that the judge plays",
    "session": "`session/new` succeeds",
    "options": "`session/new` returns `configOptions`",
    "files": "the model's calls of tools `read` and `write`, with `path` and `content`, are carried out",
    "forms": "the prompt `/ask` asks the user for yes or no, and the model gets `answer: True` or `answer: False`",
    "subagents": "the model's calls of a tool `subagent`, with `task`, are carried out by sub-agents with that prompt",
    "steering": "sub-agents offer `_meta.steering` in their capabilities",
    "auth": "`authMethods` is not empty",
    "approval": "the arguments `--tool-approval ask` have permission asked for each call of a tool `bash`",
    "cancels": "calls of a tool `bash` and their terminals offer `cancel`",
    "providers": "`providers`",
    "fake": "the judge's model is that of a provider `fake`, with the protocol `openai`, which is not required",
    "mcp-acp": "MCP servers of the type `acp` (`mcpCapabilities.acp`, `capabilities.session.mcp.acp`)",
    "mcp-names": "the tool `echo` of an MCP server `tools` is `mcp__tools__echo` to the model",
    "pinnace": "arguments of this project's agent",
}
"""What a scenario may need, with its meaning."""

LOGIN_SERVERS: Final[tuple[LoginServerKind, ...]] = ("waiting", "granted", "refused", "unreachable")
FOLDERS: Final = ("work", "other")
"""Where sessions may be; `${work}` and `${other}` name the paths."""

Consent: TypeAlias = Literal["allow_once", "reject_once", "none"]
Json: TypeAlias = Any


class Send(NamedTuple):
    """Requests (with a name for their response) and notifications, in one write."""

    messages: tuple[tuple[str, str, Mapping[str, Json]], ...]
    """Name (empty: a notification), method, params."""


class Initialize(NamedTuple):
    """`initialize` with these capabilities of the client, which succeeds."""

    capabilities: Mapping[str, Json]


class NewSession(NamedTuple):
    """`session/new` in a folder of the home, which succeeds; its id is kept."""

    name: str
    folder: str
    servers: tuple[str, ...] = ()
    """MCP servers that the client serves over the connection (type `acp`), by their ids, which are also their names."""


class Raw(NamedTuple):
    """Bytes as they are."""

    data: bytes


class Response(NamedTuple):
    """The response of a request has come, and is so."""

    of: str | None
    """The request's name; None: a response with the id null."""
    is_error: bool
    like: Json
    """Of the result, or of the error."""
    within_ms: int = 0
    """Since the last write; 0: whenever."""
    keep: Mapping[str, str] = {}
    """Name -> path of a field of the result."""
    rules: tuple[str, ...] = ()
    """Those that are broken if it is not so; none: those of the scenario."""
    deadline: tuple[str, ...] = ()
    """Those that are broken if it is late."""


class Update(NamedTuple):
    """An update, or a request, like this comes, behind the last one that was waited for."""

    like: Json


class Named(NamedTuple):
    """Something with an id is shown as this, behind the last update that was waited for; its id is kept."""

    name: str
    kind: str
    """Of the update."""
    key: str
    """The field that has the id."""
    like: Json


class Ever(NamedTuple):
    """A message like this comes, or has come since the last mark."""

    like: Json
    rules: tuple[str, ...] = ()


class Never(NamedTuple):
    """No message like this has come since the last mark."""

    like: Json
    rules: tuple[str, ...] = ()


class Before(NamedTuple):
    """An update like this has come before the response of a request."""

    of: str
    like: Json
    rules: tuple[str, ...] = ()


class AnswersShown(NamedTuple):
    """The answers since the last mark have this text, or are messages of these texts where messages have ids."""

    texts: tuple[str, ...]
    is_joined: bool


class UserMessages(NamedTuple):
    """The messages of the user since the last mark are these, each once; of version 2."""

    ids: tuple[str, ...]
    rules: tuple[str, ...] = ()


class Idle(NamedTuple):
    """The state `idle` comes, behind the last update that was waited for; of version 2."""

    reason: str
    """Empty: any."""
    like: Mapping[str, Json] = {}
    """Of the update."""
    within_ms: int = 0
    """Since the last write; 0: whenever."""
    rules: tuple[str, ...] = ()
    """Those that are broken if it is not so; none: those of the scenario."""
    deadline: tuple[str, ...] = ()
    """Those that are broken if it is late."""


class Order(NamedTuple):
    """The responses of these requests have come in this order."""

    of: tuple[str, ...]
    rules: tuple[str, ...] = ()


class Mark(NamedTuple):
    """What comes from now on is new."""


class Reached(NamedTuple):
    """The model's answer, or the shell's command, waits at a gate."""

    gate: str


class Open(NamedTuple):
    """A gate is opened."""

    gate: str


class Model(NamedTuple):
    """The request to the model with this number, from 1, has texts and headers, and lacks others."""

    number: int
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    path: str = ""
    """How its path begins."""
    headers: Mapping[str, str] = {}
    """By names in lower case; empty: it has no such header."""
    rules: tuple[str, ...] = ()


class Keep(NamedTuple):
    """The conversation since the last mark is kept under a name."""

    name: str


class Same(NamedTuple):
    """The conversation since the last mark is the one that was kept."""

    name: str
    rules: tuple[str, ...] = ()


class Quiet(NamedTuple):
    """So much time passes, for what should not come."""

    ms: int


class Disk(NamedTuple):
    """A file has this text."""

    path: str
    """In the folder `work`."""
    text: str | None
    """None: there is no such file."""
    rules: tuple[str, ...] = ()


class Restart(NamedTuple):
    """The agent is ended in order, and started again in the same home."""


class Kill(NamedTuple):
    """The agent and all that it has started are killed (SIGKILL), and it is started again in the same home."""


class End(NamedTuple):
    """Standard input ends; the agent answers what is open, and exits."""


Check: TypeAlias = (
    Response
    | Update
    | Named
    | Idle
    | Ever
    | Never
    | Before
    | AnswersShown
    | UserMessages
    | Order
    | Reached
    | Model
    | Keep
    | Same
    | Disk
)
"""A step that looks at what has come."""
Step: TypeAlias = Initialize | NewSession | Send | Raw | Mark | Open | Quiet | Restart | Kill | End | Check


Cited: TypeAlias = Response | Idle | Ever | Never | Before | UserMessages | Order | Model | Same
"""Steps that may cite rules of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpScenario:
    """One scenario."""

    id: str
    title: str
    rules: tuple[str, ...]
    client: tuple[Step, ...]
    llm: tuple[LlmAnswer, ...] = ()
    needs: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
    consent: Consent = "allow_once"
    """The answer to requests for permission."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """The files of the home, by paths that begin with one of its folders."""
    serves: Mapping[str, str] = field(default_factory=dict[str, str])
    """The files that the client has open, by paths in the folder `work`."""
    mcp: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the id of an MCP server of the client, what its tool `echo` answers; `open`: nothing."""
    refuses_writes: bool = False
    """The client refuses to write files."""
    form: Mapping[str, Json] | None = None
    """What the user enters in forms; None: the user declines them."""
    leaves_forms: bool = False
    """The user does not answer forms."""
    login: LoginServerKind | None = None
    """What becomes of logins; None: no server is played."""
    source: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """As it was read."""
    place: str = ""
    """`file:line`."""

    @property
    def version(self) -> int:
        """The version of the protocol that it is for: that of its area, such as `PRM2`."""
        return int(self.id.partition("/")[0][3:] or 1)

    @property
    def cited(self) -> frozenset[str]:
        """The rules that a failure of any of its steps may break."""
        own = [rule for step in self.client if isinstance(step, Cited) for rule in step.rules]
        late = [rule for step in self.client if isinstance(step, Response | Idle) for rule in step.deadline]
        return frozenset((*self.rules, *own, *late))
