"""Reads the scenarios of the Agent Client Protocol: `scenarios/*.yaml`. `docs/conformance.md` has the format.

Rows and their reader. Must not know how anything is carried out (`playing`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pinnace_fuzz.acp.rules import rules
from pinnace_fuzz.harness.login_server import LoginServerKind
from pinnace_fuzz.judge.scenarios.fields import FieldError, Fields, texts
from pinnace_fuzz.judge.scenarios.files import ScenarioError, fill, line_of
from pinnace_fuzz.judge.scenarios.llm_lines import read_llm
from pinnace_fuzz.judge.scenarios.scenario import LlmAnswer
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_fuzz.judge.scenarios.yaml_lines import Path, YamlError, read_yaml

FOLDER: Final = FilePath(__file__).parent / "scenarios"
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


def load(folder: FilePath = FOLDER) -> tuple[AcpScenario, ...]:
    """Read all scenarios, sorted by id.

    Raises:
        ScenarioError: A file is invalid, or two scenarios have the same id.
    """
    found: dict[str, AcpScenario] = {}
    for path in sorted(folder.glob("*.yaml")):
        for scenario in read_file(path):
            if scenario.id in found:
                raise ScenarioError(f"{scenario.place}: id {scenario.id} is also at {found[scenario.id].place}")
            found[scenario.id] = scenario
    return tuple(found[key] for key in sorted(found))


def read_file(path: FilePath) -> list[AcpScenario]:
    """Read one file.

    Raises:
        ScenarioError: It is invalid.
    """
    try:
        value, lines = read_yaml(path.read_text(encoding="utf-8"))
    except YamlError as error:
        raise ScenarioError(f"{path.name}:{error.line}: {error}") from None
    try:
        fields = Fields(value, ())
        fields.text("about")
        groups = fields.each(
            "scenarios",
            lambda item, at: [_scenario(each, at, f"{path.name}:{line_of(at, lines)}") for each in _rows(item, at)],
        )
        fields.finish()
    except FieldError as error:
        where = ".".join(str(part) for part in error.path)
        raise ScenarioError(f"{path.name}:{line_of(error.path, lines)}: {where}: {error}") from None
    return [scenario for group in groups for scenario in group]


def read_scenario(source: Mapping[str, Json]) -> AcpScenario:
    """Read a scenario as it was written, spelled out.

    Raises:
        FieldError: It is invalid.
    """
    return _scenario(source, (), "")


def _rows(item: Any, path: Path) -> Iterable[Mapping[str, Json]]:
    """Spell out a scenario with `each`: one for each row, with the row's values in the holes `${name}`."""
    whole = as_object(item)
    if whole is None:
        raise FieldError(path, "a scenario is a mapping")
    rest = {key: value for key, value in whole.items() if key != "each"}
    rows = as_list(whole.get("each", [{}])) or []
    return [fill(rest, as_object(row) or {}) for row in rows]


def _scenario(item: Mapping[str, Json], path: Path, place: str) -> AcpScenario:
    fields = Fields(item, path)
    needs = fields.texts("needs")
    for need in needs:
        if need not in NEEDS:
            raise fields.error("needs", f"{need!r} is none of {', '.join(NEEDS)}")
    client = fields.each("client", read_step)
    opens = ("session",) if any(isinstance(step, NewSession) for step in client) else ()
    found = AcpScenario(
        id=fields.matching("id", r"[A-Z]{3}2?/[a-z0-9-]+", "an id such as PRM/an-answer, or PRM2/an-answer"),
        title=fields.needed("title"),
        rules=_rules(fields, is_needed=True),
        llm=fields.each("llm", read_llm),
        client=client,
        needs=frozenset((*needs, *opens)),
        arguments=fields.texts("arguments"),
        consent=fields.word("consent", ("allow_once", "reject_once", "none"), "allow_once"),
        files=fields.text_map("files"),
        serves=fields.text_map("serves"),
        mcp=fields.text_map("mcp"),
        refuses_writes=fields.word("writes", ("carried-out", "refused"), "carried-out") == "refused",
        form=None if (entered := as_object(item.get("form"))) is None else entered,
        leaves_forms=fields.take("form") == "open",
        login=None if item.get("login") is None else fields.word("login", LOGIN_SERVERS, "waiting"),
        source=item,
        place=place,
    )
    fields.finish()
    return found


def _rules(fields: Fields, key: str = "rules", *, is_needed: bool = False) -> tuple[str, ...]:
    found = fields.texts(key)
    for rule in found:
        if rule not in rules():
            raise fields.error(key, f"there is no rule {rule!r}")
    if is_needed and not found:
        raise fields.error(key, "is needed")
    return found


def read_step(value: Any, path: Path) -> Step:
    """Read a step: a mapping whose first word says what it is.

    Raises:
        FieldError: It is none.
    """
    step = as_object(value)
    if not step or (verb := next(iter(step))) not in _STEPS:
        raise FieldError(path, f"expected a step: {', '.join(_STEPS)}")
    if len(step) > 1:
        raise FieldError(path, f"a step has one word, not {', '.join(step)}")
    return _STEPS[verb](step[verb], (*path, verb))


def _reader(make: Callable[[Fields], Step]) -> Callable[[Any, Path], Step]:
    """Return the reader of a step that has the fields which `make` takes, and no others."""

    def read(value: Any, path: Path) -> Step:
        fields = Fields(value, path)
        found = make(fields)
        fields.finish()
        return found

    return read


def _named(kind: str, key: str) -> Callable[[Any, Path], Step]:
    return _reader(lambda fields: Named(fields.needed("as"), kind, key, fields.mapping("is")))


def _described(fields: Fields) -> Step:
    like = {"description": fields.take("description", {"$any": True})}
    return Named(fields.needed("as"), "subagent_update", "sessionId", like)


def _session(value: Any, path: Path) -> Step:
    fields = Fields({"as": value} if isinstance(value, str) else value, path)
    found = NewSession(fields.needed("as"), fields.word("folder", FOLDERS, "work"), fields.texts("servers"))
    fields.finish()
    return found


def _send(value: Any, path: Path) -> Step:
    messages = as_list(value)
    return Send(tuple(_message(each, (*path, at)) for at, each in enumerate([value] if messages is None else messages)))


def _message(value: Any, path: Path) -> tuple[str, str, Mapping[str, Json]]:
    fields = Fields(value, path)
    found = (fields.text("as"), fields.needed("method"), fields.mapping("params"))
    fields.finish()
    return found


def _prompts(value: Any, path: Path) -> Step:
    """Read the short form of messages of a session, in one write: {as, text, session?} or {cancel: session}."""
    found: list[tuple[str, str, Mapping[str, Json]]] = []
    for at, each in enumerate([value] if as_list(value) is None else value):
        fields = Fields(each, (*path, at))
        if session := fields.text("cancel"):
            found.append(("", "session/cancel", {"sessionId": f"${{{session}}}"}))
        else:
            session = fields.text("session", "s")
            blocks = fields.take("blocks", [{"type": "text", "text": fields.text("text", "Go")}])
            found.append((fields.needed("as"), "session/prompt", {"sessionId": f"${{{session}}}", "prompt": blocks}))
        fields.finish()
    return Send(tuple(found))


def _response(value: Any, path: Path) -> Step:
    fields = Fields(value, path)
    is_error = path[-1] == "error"
    of = fields.take("of")
    if of is not None and not isinstance(of, str):
        raise fields.error("of", "expected the name of a request, or null")
    code = fields.take("code")
    like = {"code": code} if code is not None else fields.take("is", {})
    kept = fields.text_map("keep")
    found = Response(of, is_error, like, fields.count("within_ms"), kept, _rules(fields), _rules(fields, "deadline"))
    fields.finish()
    return found


def _idle(value: Any, path: Path) -> Step:
    fields = Fields({"reason": value} if isinstance(value, str) else value or {}, path)
    like = fields.mapping("is")
    found = Idle(fields.text("reason"), like, fields.count("within_ms"), _rules(fields), _rules(fields, "deadline"))
    fields.finish()
    return found


def _model(fields: Fields) -> Step:
    has, lacks, path = fields.texts("has"), fields.texts("lacks"), fields.text("path")
    return Model(fields.count("number", 1), has, lacks, path, fields.text_map("headers"), _rules(fields))


def _disk(value: Any, path: Path) -> Step:
    fields = Fields(value, path)
    text = fields.take("is")
    if text is not None and not isinstance(text, str):
        raise fields.error("is", "expected a text, or null")
    found = Disk(fields.needed("path"), text, _rules(fields))
    fields.finish()
    return found


def _raw(value: Any, path: Path) -> Step:
    hexadecimal = as_object(value)
    if hexadecimal is not None:
        fields = Fields(value, path)
        text = fields.matching("hex", r"([0-9a-f]{2})+", "bytes in hexadecimal digits")
        fields.finish()
        return Raw(bytes.fromhex(text))
    return Raw(f"{_text(value, path)}\n".encode())


def _text(value: Any, path: Path) -> str:
    if not isinstance(value, str):
        raise FieldError(path, f"expected a text, not {value!r}")
    return value


def _number(value: Any, path: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FieldError(path, f"expected a number, not {value!r}")
    return value


_STEPS: Final[Mapping[str, Callable[[Any, Path], Step]]] = {
    "initialize": lambda value, path: Initialize(Fields({"it": value}, path).mapping("it")),
    "session": _session,
    "send": _send,
    "prompt": _prompts,
    "line": _raw,
    "result": _response,
    "error": _response,
    "message": lambda value, path: Update(value),
    "announced": _reader(_described),
    "update": lambda value, path: Update({"method": "session/update", "params": {"update": value}}),
    "call": _named("tool_call_update", "toolCallId"),
    "terminal": _named("terminal_update", "terminalId"),
    "idle": _idle,
    "ever": _reader(lambda fields: Ever(fields.mapping("like"), _rules(fields))),
    "never": _reader(lambda fields: Never(fields.mapping("like"), _rules(fields))),
    "before": _reader(lambda fields: Before(fields.needed("of"), fields.mapping("like"), _rules(fields))),
    "shown": lambda value, path: AnswersShown((_text(value, path),), is_joined=True),
    "messages": lambda value, path: AnswersShown(texts(value, path), is_joined=False),
    "user_messages": _reader(lambda fields: UserMessages(fields.texts("ids"), _rules(fields))),
    "order": _reader(lambda fields: Order(fields.texts("of"), _rules(fields))),
    "mark": lambda value, path: Mark(),
    "reached": lambda value, path: Reached(_text(value, path)),
    "open": lambda value, path: Open(_text(value, path)),
    "model": _reader(_model),
    "keep": lambda value, path: Keep(_text(value, path)),
    "same": _reader(lambda fields: Same(fields.needed("as"), _rules(fields))),
    "quiet_ms": lambda value, path: Quiet(_number(value, path)),
    "disk": _disk,
    "restart": lambda value, path: Restart(),
    "kill": lambda value, path: Kill(),
    "end": lambda value, path: End(),
}
"""A step's word -> its reader."""
