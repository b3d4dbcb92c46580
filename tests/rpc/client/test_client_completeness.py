"""The client is complete against the specification: every command, field, answer and event, in the right types.

What is added to the specification and not to the client makes this red, and the other way round.
"""

import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Union, get_args

import pytest
from pydantic import BaseModel
from typing_extensions import get_type_hints, is_typeddict

from pinnace_rpc.client import AsyncioClient, dialogs
from pinnace_rpc.client.blocking import BlockingClient
from pinnace_rpc.client.blocking_commands import BlockingCommands
from pinnace_rpc.client.client import Client
from pinnace_rpc.client.commands import Commands
from pinnace_rpc.client.records import events, ui_requests
from pinnace_spec.profiles.profiles import PROFILES
from pinnace_spec.records.commands import MODELS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.responses import DATA
from pinnace_spec.records.ui_requests import AnyUiRequest

# What the client sends by itself, and the answer to what it never offers: files of its own.
INTERNAL = {"extension_ui_response", "client_response"}
# Fields of the oldest generation in commands that the client has for their newer fields, and the offer of files.
LEFT_OUT = {"attachments", "delegate"}
COMMANDS = [name for name, model in MODELS.items() if name not in INTERNAL and model.until is None]
# Types are judged here, by whatever they are.
Type = Any


def method_of(command: str) -> Any:
    return getattr(Commands, command)


def fields_of(command: str) -> dict[str, tuple[Type, bool]]:
    """The fields of a command on the wire: their types, and whether they are required."""
    found = {
        field.alias or name: (field.annotation, field.is_required())
        for name, field in MODELS[command].model_fields.items()
    }
    return {name: each for name, each in found.items() if name not in {"type", "id"} | LEFT_OUT}


def parameters_of(command: str) -> dict[str, tuple[Type, bool]]:
    hints = get_type_hints(method_of(command))
    given = list(inspect.signature(method_of(command)).parameters.values())[1:]
    return {each.name: (hints[each.name], each.default is inspect.Parameter.empty) for each in given}


def snake(name: str) -> str:
    """Return the parameter of a field; a time has its unit."""
    return "timeout_s" if name == "timeout" else re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def origin(annotation: Type) -> Type:
    return typing.get_origin(annotation)


def alternatives(annotation: Type) -> list[Type]:
    """Resolve aliases, what is said beside a type, and unions; literals each by itself."""
    if origin(annotation) in (Annotated, NotRequired, typing.Required):
        return alternatives(get_args(annotation)[0])
    if origin(annotation) in (Union, types.UnionType):
        return [each for part in get_args(annotation) for each in alternatives(part)]
    if origin(annotation) is Literal:
        return [Literal[value] for value in get_args(annotation)]
    return [annotation]


def plain(annotation: Type) -> set[str]:
    """What a parameter takes, and a field: without the difference of list and sequence, null and absence."""
    found = set()
    for each in alternatives(annotation):
        is_list = origin(each) in (list, Sequence)
        found.add(f"list of {alternatives(get_args(each)[0])}" if is_list else str(each))
    return found - {str(type(None))}


def is_model(annotation: Type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def members(annotation: Type) -> dict[str, tuple[Type, bool]]:
    """The keys of a model or a typed dict: their types, and whether they are required."""
    if is_model(annotation):
        return {name: (each.annotation, each.is_required()) for name, each in annotation.model_fields.items()}
    hints = get_type_hints(annotation, include_extras=True)
    return {name: (each, name in annotation.__required_keys__) for name, each in hints.items()}


def is_object(annotation: Type) -> bool:
    return is_model(annotation) or is_typeddict(annotation)


def tags(annotation: Type) -> set[str]:
    """By which texts alternatives of a union are told apart."""
    found: set[str] = set()
    for key in ("type", "role", "method"):
        if key in members(annotation):
            options = alternatives(members(annotation)[key][0])
            found |= {f"{key}={value}" for each in options if origin(each) is Literal for value in get_args(each)}
    return found


def problems(typed: Type, promised: Type, path: str, seen: frozenset[tuple[str, str]] = frozenset()) -> list[str]:
    """Say where a client's type does not take what the specification promises."""
    if typed is object or typed == promised or (str(typed), str(promised)) in seen:
        return []
    seen |= {(str(typed), str(promised))}
    found: list[str] = []
    for option in alternatives(promised):
        fitting = [each for each in alternatives(typed) if fits(each, option)]
        if not fitting:
            found.append(f"{path}: {option} is not among {alternatives(typed)}")
        elif is_object(option) and fitting[0] != option:
            found += object_problems(fitting[0], option, path, seen)
        elif origin(option) is list:
            found += problems(get_args(fitting[0])[0], get_args(option)[0], f"{path}[]", seen)
    return found


def fits(typed: Type, promised: Type) -> bool:
    if is_object(typed) and is_object(promised):
        wanted = tags(promised)
        return not wanted or wanted <= tags(typed)
    if origin(typed) is list and origin(promised) is list:
        return True
    if origin(promised) is Literal and typed is str:
        return True
    return bool(typed == promised or typed is object or (typed, promised) == (float, int))


def object_problems(typed: Type, promised: Type, path: str, seen: frozenset[tuple[str, str]]) -> list[str]:
    ours, theirs = members(typed), members(promised)
    found = [f"{path}.{name} is promised, not typed" for name in theirs.keys() - ours.keys()]
    for name, (annotation, is_required) in ours.items():
        if name not in theirs:
            found += [f"{path}.{name} is required, not promised"] if is_required else []
            continue
        if is_required and not theirs[name][1]:
            found.append(f"{path}.{name} is required, and may be absent")
        promise = theirs[name][0]
        if not theirs[name][1]:  # absent is not null
            kept = [each for each in alternatives(promise) if each is not type(None)]
            promise = Union[tuple(kept)] if kept else type(None)  # noqa: UP007 - made at run time
        found += problems(annotation, promise, f"{path}.{name}", seen)
    return found


def inventions(typed: Type, promises: Sequence[Type], path: str) -> list[str]:
    """Say which keys of a client's type no profile promises."""
    known = {name for promise in promises for name in members(promise)}
    return [f"{path}.{name}" for name in members(typed) if name not in known]


def test_every_command_but_those_of_the_oldest_generation_has_a_method() -> None:
    assert [] == [name for name in COMMANDS if not hasattr(Commands, name)]
    assert {"prompt", "hello", "get_tree", "clear_queue", "fork"} <= set(COMMANDS)
    assert {"reset", "branch", "queue_message", "extension_ui_response"}.isdisjoint(COMMANDS)


def test_no_method_is_a_command_that_the_specification_does_not_have() -> None:
    public = {name for name in vars(Commands) if not name.startswith("_")}

    assert public - {"request"} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_method_takes_every_field_of_its_command(command: str) -> None:
    fields = {snake(name): (plain(each), required) for name, (each, required) in fields_of(command).items()}
    parameters = {name: (plain(each), required) for name, (each, required) in parameters_of(command).items()}

    assert fields == parameters


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_method_sends_its_fields_under_their_names_on_the_wire(command: str) -> None:
    sent: list[tuple[str, Mapping[str, object]]] = []

    class Recorder(Commands):
        async def request(self, command: str, /, **fields: object) -> object:
            sent.append((command, fields))
            return {}

    fields = fields_of(command)
    await getattr(Recorder(), command)(**{snake(name): name for name in fields})

    assert [(command, {name: name for name in fields})] == sent


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_method_returns_what_every_profile_answers(command: str, profile: Any) -> None:
    returned = get_type_hints(method_of(command))["return"]
    promised = DATA[profile].get(command, "never")
    if promised == "never":
        pytest.skip("never answered with success in this build")
    if promised is None:
        assert returned is type(None) or type(None) in alternatives(returned)
        return

    assert [] == problems(returned, promised, command)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_type_of_an_answer_has_no_key_that_no_profile_has(command: str) -> None:
    returned = [each for each in alternatives(get_type_hints(method_of(command))["return"]) if is_object(each)]
    promised = [each for profile in PROFILES for each in alternatives(DATA[profile].get(command)) if is_object(each)]

    assert [] == [invented for each in returned for invented in inventions(each, promised, command)]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_event_of_every_profile_is_typed(profile: Any) -> None:
    found = [
        problem for kind, promised in EVENTS[profile].items() for problem in problems(events.Event, promised, kind)
    ]

    assert [] == found


def test_no_event_is_typed_that_the_specification_does_not_have() -> None:
    promised = {
        tag
        for profile in PROFILES
        for each in EVENTS[profile].values()
        for one in alternatives(each)
        for tag in tags(one)
    }
    typed = {tag for each in alternatives(events.Event) for tag in tags(each)}

    assert promised == typed


def test_no_event_has_a_key_that_no_profile_has() -> None:
    promised = [one for profile in PROFILES for each in EVENTS[profile].values() for one in alternatives(each)]
    found = [
        invented
        for typed in alternatives(events.Event)
        for invented in inventions(typed, [each for each in promised if tags(each) & tags(typed)], str(tags(typed)))
    ]

    assert [] == found


def test_every_dialog_can_be_answered() -> None:
    methods = {tag.removeprefix("method=") for each in alternatives(AnyUiRequest) for tag in tags(each)}
    waiting = {each for each in methods if dialogs.is_dialog({"id": "1", "method": each, "type": "x"})} - {
        "type=extension_ui_request"
    }

    assert waiting == set(dialogs.Dialogs.__slots__)
    assert len(alternatives(ui_requests.UiRequest)) == len(methods) - 1


def signatures(of: type) -> dict[str, str]:
    methods = inspect.getmembers(of, inspect.isfunction)
    return {name: str(inspect.signature(each)) for name, each in methods if not name.startswith("_")}


def test_the_client_for_asyncio_is_the_one_for_trio() -> None:
    assert AsyncioClient is Client


def test_the_blocking_client_has_everything_that_the_async_one_has() -> None:
    asynchronous, blocking = signatures(Client), signatures(BlockingClient)
    differing = {name for name in asynchronous if asynchronous[name] != blocking.get(name)}

    assert {"events", "stream_text"} == differing
    assert asynchronous.keys() == blocking.keys()
    assert issubclass(BlockingClient, BlockingCommands)
