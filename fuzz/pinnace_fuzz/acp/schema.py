"""Holds messages of the Agent Client Protocol to its published schemas, in both directions.

`schema.json` and `schema_v2.json` are the stable schemas of versions 1 and 2, as the package
`@agentclientprotocol/sdk` 2.4.0 has them (Apache License 2.0). A message is held to the type that the schema names for
its method and side; a method that the schema does not have must begin with an underscore. Sessions of sub-agents, which
the protocol has since 20 November 2026, are in the unstable schemas of that package: `subagents.json` has their types.
`unstable_methods.json` has those of further methods that are announced by a capability, and of results with `usage`.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias, cast

from jsonschema import Draft202012Validator

from pinnace_fuzz.acp.acceptance import Acceptance

Side: TypeAlias = Literal["agent", "client"]
Json: TypeAlias = Mapping[str, Any]  # Any: JSON

SCHEMAS: Final[Mapping[int, str]] = {1: "schema.json", 2: "schema_v2.json"}
"""The file of each version."""
SUBAGENTS: Final = "subagents.json"
"""The types of sub-agents, of each version."""
UNSTABLE_METHODS: Final = "unstable_methods.json"
"""The types of methods of the unstable schema, of the versions in which agents of this project have them."""
_ENVELOPE: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_LONGEST_ERRORS: Final = 3


class NotOfTheSchema(AssertionError):
    """A message that the schema does not allow."""


def check_call(message: Json, receiver: Side, version: int = 1) -> None:
    """Check a request or a notification.

    Args:
        message: The message.
        receiver: The side that it is for.
        version: Of the protocol.

    Raises:
        NotOfTheSchema: It is not allowed.
    """
    _check_envelope(message)
    method = message["method"]
    if method.startswith(("_", "$/")) and (receiver, method, "call") not in _types(version):
        return
    kind = "Request" if "id" in message else "Notification"
    name = _types(version).get((receiver, method, "call"))
    if name is None or not name.endswith(kind):
        raise NotOfTheSchema(f"{method} is no {kind.lower()} to the {receiver}: {_shown(message)}")
    _check(name, message.get("params", {}), message, version)


def check_result(message: Json, method: str, receiver: Side, version: int = 1) -> None:
    """Check a response.

    Args:
        message: The response.
        method: Of the request.
        receiver: The side that has got the request, and responds.
        version: Of the protocol.

    Raises:
        NotOfTheSchema: It is not allowed.
    """
    _check_envelope(message)
    if method == "initialize":
        version = _chosen(message, version)
    if ("result" in message) == ("error" in message):
        raise NotOfTheSchema(f"a response has either a result or an error: {_shown(message)}")
    if "error" in message:
        _check("Error", message["error"], message, version)
    elif (name := _types(version).get((receiver, method, "result"))) is not None:
        _check(name, message["result"], message, version)
    elif not method.startswith("_"):
        raise NotOfTheSchema(f"{method} has no result: {_shown(message)}")


def _chosen(message: Json, asked: int) -> int:
    """Return the version that the response to `initialize` chooses, and whose form it has; else the asked one."""
    result = message.get("result")
    chosen: object = cast("Json", result).get("protocolVersion") if isinstance(result, Mapping) else None
    return chosen if isinstance(chosen, int) and chosen in SCHEMAS else asked


def _check_envelope(message: Json) -> None:
    if message.get("jsonrpc") != "2.0" or not set(message) <= _ENVELOPE:
        raise NotOfTheSchema(f"no message of JSON-RPC 2.0: {_shown(message)}")


def _check(name: str, value: Any, message: Json, version: int) -> None:
    if _acceptance(version).of(name)(value):
        return
    validator: Any = _validator(name, version)  # the types of jsonschema are incomplete
    errors: list[Any] = list(validator.iter_errors(value))
    said = "; ".join(f"{error.json_path}: {error.message[:300]}" for error in errors[:_LONGEST_ERRORS])
    raise NotOfTheSchema(f"{name}: {said}: {_shown(message)}")


def _shown(message: Json) -> str:
    text = json.dumps(message, ensure_ascii=False)
    return text if len(text) <= 2000 else text[:2000] + " ..."


@cache
def _schema(version: int) -> dict[str, Any]:
    schema = _file(SCHEMAS[version])
    subagents = _file(SUBAGENTS)[str(version)]
    schema["$defs"] |= subagents["$defs"] | _file(UNSTABLE_METHODS).get(str(version), {}).get("$defs", {})
    kinds = schema["$defs"]["SessionUpdate"]
    variants: list[Any] = kinds.get("oneOf") or kinds["anyOf"]
    for update in subagents["updates"]:
        kind = {"properties": {"sessionUpdate": update["properties"]["sessionUpdate"]}, "required": ["sessionUpdate"]}
        for other in (each for each in variants if "not" in each):  # whatever has no type of its own
            other["not"]["anyOf"].append(kind)
    variants += subagents["updates"]
    return schema


def _file(name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(files("pinnace_fuzz.acp").joinpath(name).read_text(encoding="utf-8")))


@cache
def _validator(name: str, version: int) -> Draft202012Validator:
    definitions = _schema(version)["$defs"]
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})


@cache
def _acceptance(version: int) -> Acceptance:
    return Acceptance(_schema(version)["$defs"])


@cache
def _types(version: int) -> Mapping[tuple[str, str, str], str]:
    """Return the name of each type, by the receiver of its request, its method, and what it is."""
    found: dict[tuple[str, str, str], str] = {}
    for name, definition in _schema(version)["$defs"].items():
        method, side = definition.get("x-method"), definition.get("x-side")
        if method is None:
            continue
        what = "result" if name.endswith("Response") else "call"
        for receiver in ("agent", "client") if side == "protocol" else (side,):
            found[receiver, method, what] = name
    return found
