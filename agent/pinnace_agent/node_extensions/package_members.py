"""What the modules that stand for pi's packages ask: limits of texts, requests of models, the built-in tools."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.core.json_access import as_object
from pinnace_agent.extensions.registration.registrations import ToolDefinition
from pinnace_agent.node_extensions.bridge import Bridge, Operations
from pinnace_agent.node_extensions.errors import RefusedRequest
from pinnace_agent.node_extensions.values import Ask, Now, Values

if TYPE_CHECKING:
    from pinnace_agent.extensions.api.tool_factories import Spawn
    from pinnace_agent.tools.base import ToolResult
    from pinnace_spec.records.messages import AssistantMessage, Message, Model

_BUILTIN: Final = frozenset({"read", "write", "edit", "bash", "grep", "find", "ls"})


async def _stream(bridge: Bridge, number: int | None, values: Values) -> object:
    from pinnace_agent.node_extensions import model_requests  # with the first

    return await model_requests.stream(bridge, number, values)


def _failure(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return what an answer comes to: `overflow`, `transient`, `fatal` or `nothing`, for a window of so many tokens."""
    from pinnace_agent.llm.outcomes import classify_response

    message = cast("AssistantMessage", values.record(0, "message"))  # cast: one of pi
    window = values.number_or_none(1, "contextWindow") or 0
    model = {"provider": message["provider"], "id": message["model"], "contextWindow": window}
    return classify_response(message, cast("Model", model)).kind.value  # cast: what it reads of one


def _partial_json(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the object that a text begins, as far as it goes."""
    from pinnace_agent.llm.arguments import guess_arguments

    return guess_arguments(values.text(0, "text")) or {}


def _valid_arguments(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the arguments of a call, repaired and valid by the schema of its tool."""
    from pinnace_agent.tools.base import ToolError
    from pinnace_agent.tools.validation import malformed_arguments, validate_arguments

    name, call = values.text(0, "name"), values.record(2, "call")
    try:
        if problem := call.get("argumentsError"):
            raise malformed_arguments(name, str(problem))
        return validate_arguments(
            _Checked(name, values.record(1, "parameters")), as_object(call.get("arguments")) or {}
        )
    except ToolError as error:
        raise RefusedRequest(str(error)) from error


class _Checked(NamedTuple):
    """What validation needs of a tool."""

    name: str
    parameters: Mapping[str, object]
    checks_itself: bool = False

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments as they are."""
        return raw


def _key_variables(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the environment variables that may hold the key of a provider."""
    from pinnace_agent.config.models.builtin import key_variables

    return key_variables(values.text(0, "provider"))


def _truncate(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.shell import truncation

    cut = truncation.truncate_head if values.text(0, "end") == "head" else truncation.truncate_tail
    limits = Values("truncate", [values.record(2, "options").get(each) for each in ("maxLines", "maxBytes")])
    most_lines, most_bytes = limits.number_or_none(0, "maxLines"), limits.number_or_none(1, "maxBytes")
    text = values.text(1, "content")
    return cut(
        text,
        max_lines=truncation.MAX_LINES if most_lines is None else most_lines,
        max_bytes=truncation.MAX_BYTES if most_bytes is None else most_bytes,
    ).record()


def _conversation(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.extensions.api.helpers import serialize_conversation

    return serialize_conversation(cast("list[Message]", values.records(0, "messages")))  # cast: messages of pi


def _yaml(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from ruamel.yaml import YAML

    # cast: its types are not declared
    load = cast("Callable[[str], object]", YAML(typ="safe", pure=True).load)  # pyright: ignore[reportUnknownMemberType]
    return load(values.text(0, "text"))


def _agent_dir(_bridge: Bridge, _number: int | None, _values: Values) -> object:
    from pinnace_agent.extensions.api.helpers import agent_dir

    return agent_dir()


def _scoped_settings(bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return what one file of settings holds; that of a project which is not trusted counts as empty."""
    from pinnace_agent.config.settings_reader import read_scope
    from pinnace_agent.extensions.api.helpers import agent_dir
    from pinnace_agent.files.paths import project_dir

    if values.text(0, "scope") == "user":
        return read_scope(Path(agent_dir()) / "settings.json").content
    folder = bridge.trusted_folder()
    return {} if folder is None else read_scope(project_dir(Path(folder)) / "settings.json", is_project=True).content


def _catalog_providers(_bridge: Bridge, _number: int | None, _values: Values) -> object:
    return Catalog().providers()


def _catalog_models(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the built-in models of a provider, which neither the user's files nor extensions change."""
    return Catalog().models_of(values.text(0, "provider"))


def _session_folder(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the folder where the sessions of a working folder are kept."""
    from pinnace_agent.core.surroundings import environment
    from pinnace_agent.extensions.api.helpers import agent_dir
    from pinnace_agent.session.folders import choose_folder

    return str(choose_folder(Path(agent_dir()), values.text(0, "cwd"), None, environment(), None).path)


def _builtin(name: str, cwd: str | None = None, **options: object) -> ToolDefinition:
    from pinnace_agent.extensions.api import tool_factories

    if name not in _BUILTIN:
        raise RefusedRequest(f"there is no built-in tool {name}")
    make = cast("Callable[..., ToolDefinition]", getattr(tool_factories, name))  # cast: each of the listed does
    return make(cwd, **options)


def _builtin_tool(_bridge: Bridge, _number: int | None, values: Values) -> object:
    found = _builtin(values.text(0, "tool"))
    return {
        "name": found.name,
        "label": found.label,
        "description": found.description,
        "parameters": found.parameters,
        "promptSnippet": found.prompt_snippet,
        "promptGuidelines": list(found.prompt_guidelines),
        "executionMode": "sequential" if found.is_sequential else "parallel",
    }


async def _run_builtin(bridge: Bridge, number: int | None, values: Values) -> object:
    name, kept, options = values.text(0, "tool"), values.record(3, "options"), dict[str, object]()
    if isinstance(operations := kept.get("operations"), int):
        options["operations"] = Operations(bridge, operations)
    if isinstance(hook := kept.get("spawnHook"), int):
        options["spawn_hook"] = partial(_spawn, bridge, hook)
    found = _builtin(name, values.text_or_none(1, "cwd"), **options)
    run = cast("Callable[..., Awaitable[ToolResult]]", found.execute)  # cast: the factories' own function
    result = await run(bridge.context(number), values.record(2, "params"))
    if result.is_error:
        texts = [str(block.get("text")) for block in result.content if block.get("type") == "text"]
        raise RefusedRequest("\n".join(texts))
    return {"content": result.content, "details": result.details}


def _spawn(bridge: Bridge, hook: int, spawn: "Spawn") -> "Spawn":
    """Let the hook of an extension change a command."""
    changed = as_object(bridge.kept_now(hook, spawn._asdict()))
    if changed is None:
        raise RefusedRequest("spawnHook must return an object with command, cwd and env")
    fields = Values("spawnHook", [changed.get(each) for each in ("command", "cwd", "env")])
    env = {name: str(value) for name, value in fields.record(2, "env").items()}
    return spawn._replace(command=fields.text(0, "command"), cwd=fields.text(1, "cwd"), env=env)


async def _change_file(bridge: Bridge, _number: int | None, values: Values) -> None:
    """Let an extension change a file while no other does."""
    from pinnace_agent.extensions.api.helpers import file_mutation

    async with file_mutation(values.text(0, "path")):
        await bridge.kept(values.number(1, "work"))


NOW: Final[Mapping[str, Now]] = {
    "truncate": _truncate,
    "serialize_conversation": _conversation,
    "parse_yaml": _yaml,
    "agent_dir": _agent_dir,
    "scoped_settings": _scoped_settings,
    "settings": lambda bridge, _number, _values: bridge.settings(),
    "builtin_tool": _builtin_tool,
    "agent_command": lambda bridge, number, values: bridge.context(number).agent_command(values.text_or_none(0, "cwd")),
    "session_folder": _session_folder,
    "failure": _failure,
    "partial_json": _partial_json,
    "valid_arguments": _valid_arguments,
    "key_variables": _key_variables,
    "catalog.providers": _catalog_providers,
    "catalog.models": _catalog_models,
}

ASK: Final[Mapping[str, Ask]] = {
    "models.stream": _stream,
    "run_builtin_tool": _run_builtin,
    "change_file": _change_file,
}
