"""Arguments: every command in valid form, and with one field invalid, missing, or unknown.

Made from the schema of the specification's commands, so that a new command or field is tested without a change here.
The state is read before and after: a refused command must not change it.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, cast

from pinnace_fuzz.judge.campaigns.cases import case
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec.profiles.generations import Generation
from pinnace_spec.records.command_table import TEXT_COMMANDS
from pinnace_spec.records.commands import MODELS

if TYPE_CHECKING:
    from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
    from pinnace_fuzz.judge.playing.pool import Pool

NAME = "arguments"
_STATE = {"id": "before", "type": "get_state"}
_AFTER = {"id": "after", "type": "get_state"}
_WRONG: tuple[Any, ...] = (None, True, 7, -1.5, "bogus", "", [], ["x"], {}, {"a": 1})
# Settings that agents are known to accept without validation.
_NASTY: tuple[Mapping[str, Any], ...] = (
    {"type": "set_steering_mode", "mode": "bogus"},
    {"type": "set_follow_up_mode"},
    {"type": "set_auto_compaction", "enabled": "no"},
    {"type": "set_tool_approval", "mode": "always"},
    {"type": "set_thinking_level", "level": "ultra"},
)
_SAMPLES: Mapping[str, Any] = {
    "string": "a text",
    "boolean": True,
    "integer": 1,
    "number": 1.5,
    "array": [],
    "object": {},
}
_LONG = "x" * 100_000
# A prompt needs the model; the other commands do not use it in an empty session.
_ASKS_MODEL = frozenset({*TEXT_COMMANDS, "compact", "start_agent"})


def valid(command: str) -> dict[str, Any]:
    """Make the smallest valid record of a command."""
    schema = _schema(command)
    found: dict[str, Any] = {"type": command}
    for name in schema.get("required", []):
        if name != "type":
            found[name] = _sample(schema["properties"][name], schema)
    return {**found, **MODELS[command].sample}


def _schema(command: str) -> dict[str, Any]:
    return MODELS[command].model_json_schema(by_alias=True)


def _sample(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _sample(root["$defs"][str(schema["$ref"]).rpartition("/")[2]], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][-1]
    if "anyOf" in schema:
        return _sample(schema["anyOf"][0], root)
    return _SAMPLES.get(str(schema.get("type")))


def wrong(command: str) -> Iterator[dict[str, Any]]:
    """Yield records with one invalid field."""
    good = valid(command)
    properties = cast("Mapping[str, Any]", _schema(command).get("properties", {}))
    for name in properties:
        if name == "type":
            continue
        if name in good:
            yield {key: value for key, value in good.items() if key != name}
        for value in _WRONG:
            if not (name == "id" and isinstance(value, str)):
                yield {**good, name: value}
    yield {**good, "unknownField": {"a": [1]}}
    yield {**good, "message": _LONG} if "message" in good else {**good, "id": "i" * 300}


def argument_cases(generation: Generation) -> Iterator[Scenario]:
    """Yield every command of a generation, first valid, then invalid in one way."""
    commands = [name for name in MODELS if name in generation.commands]
    for command in commands:
        yield _case(valid(command))
    for each in _NASTY:
        if each["type"] in generation.commands:
            yield _case(each)
    # Round robin: when the time is short, every command has been tried a little.
    queues = [wrong(command) for command in commands]
    while queues:
        for queue in list(queues):
            record = next(queue, None)
            if record is None:
                queues.remove(queue)
            else:
                yield _case(record)


def _case(record: Mapping[str, Any]) -> Scenario:
    needs = ["llm"] if record["type"] in _ASKS_MODEL else ["bash"] if record["type"] == "bash" else []
    given = record if "id" in record else {"id": "c", **record}
    return case(NAME, [{"send": _STATE}, {"send": given}, {"send": _AFTER}, "quiet"], needs=needs)


def arguments(run: "CampaignRun", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """Play them all."""
    for each in argument_cases(run.kit.generation):
        if is_over():
            return
        if run.fits(each):
            run.try_case(pool, each, NAME)
