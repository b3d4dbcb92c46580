"""Reads the scenarios of the Agent Client Protocol: `scenarios/*.yaml`. `docs/conformance.md` has the format.

Each step's word has a reader; a mistake is an error with the file, the line and the field.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from pinnace_fuzz.acp.rules import rules
from pinnace_fuzz.acp.scenario import (
    FOLDERS,
    LOGIN_SERVERS,
    NEEDS,
    AcpScenario,
    AnswersShown,
    Before,
    Disk,
    End,
    Ever,
    Idle,
    Initialize,
    Json,
    Keep,
    Kill,
    Mark,
    Model,
    Named,
    Never,
    NewSession,
    Open,
    Order,
    Quiet,
    Raw,
    Reached,
    Response,
    Restart,
    Same,
    Send,
    Step,
    Update,
    UserMessages,
)
from pinnace_fuzz.judge.scenarios.fields import FieldError, Fields, texts
from pinnace_fuzz.judge.scenarios.files import ScenarioError, fill, line_of
from pinnace_fuzz.judge.scenarios.llm_lines import read_llm
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_fuzz.judge.scenarios.yaml_lines import Path, YamlError, read_yaml

FOLDER: Final = FilePath(__file__).parent / "scenarios"


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
