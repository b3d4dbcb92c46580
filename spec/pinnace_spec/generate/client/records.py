"""The types of records for the Python client: plain dicts, in modules that load without pydantic.

A type has the keys of every profile that writes the record. A key is required only where each of them has it.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, cast, get_args, get_origin

from pydantic import BaseModel

from pinnace_spec.generate.client.declared_types import family, field_type
from pinnace_spec.generate.client.source_text import WIDTH, docstring, field_text, imports, module_docstring
from pinnace_spec.generate.schema.model_texts import record_texts
from pinnace_spec.generate.source import Spec
from pinnace_spec.records import ui_requests
from pinnace_spec.records.commands import MODELS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.responses import DATA

ROOM: Final = "pinnace_rpc.client.records"
_RECORD: Final = '''
Record: TypeAlias = Mapping[str, object]
"""A JSON object. All readers get the same one, so it must not be changed."""
'''
_ABOUT: Final[Mapping[str, tuple[str, str]]] = {
    "ui_requests": (
        "The requests of extensions to the client's user, as plain dicts by `method`.",
        "The first four are dialogs: the agent waits for an answer, see `dialogs`.",
    ),
    "events": (
        "The records that are no responses, as plain dicts, typed for every agent of the family and every profile.",
        "Records of types that are not here come as they are, so a `match` needs a last case.",
    ),
    "replies": (
        "The data of answers as plain dicts, typed for every agent of the family and every profile.",
        "Nothing is checked when an answer comes: fields of later agents are included.",
    ),
}
_KEYS: Final = "Keys are the wire's. A key is required only if every profile guarantees it."


class Type(NamedTuple):
    """A record of the client, in all its generations: the newest first."""

    name: str
    models: tuple[type[BaseModel], ...]

    @property
    def module(self) -> str:
        """The module of the client that has it."""
        newest = self.models[0].__module__
        if newest == ui_requests.__name__:
            return "ui_requests"
        return "replies" if newest.endswith((".readings", ".responses")) else "events"


def commands_with_methods() -> list[str]:
    """Return the commands that have a method: neither older names nor answers, which clients send by themselves."""
    return [name for name, model in MODELS.items() if model.until is None and model.kind != "answer"]


@cache
def types() -> Mapping[str, Type]:
    """Return every type by its name, each behind those that it names."""
    found: dict[str, list[type[BaseModel]]] = {}
    for annotation in _promised():
        for model in models_in(annotation):
            _collect(model, found)
    ordered = sorted(found, key=lambda name: _order(found[name][0]))
    return {name: Type(name, tuple(found[name])) for name in ordered}


def _promised() -> Iterator[object]:
    for profile in ("pi", "1.5", "seed"):
        yield from EVENTS[profile].values()
        yield from (DATA[profile].get(name) for name in commands_with_methods())


def _collect(model: type[BaseModel], found: dict[str, list[type[BaseModel]]]) -> None:
    generations = found.setdefault(family(model), [])
    if model in generations:
        return
    generations.append(model)
    for field in model.model_fields:
        for inner in field_type(model, field, nullable=True).models:
            _collect(inner, found)


def _order(model: type[BaseModel]) -> tuple[str, int]:
    """As in the module of the models, where everything is defined before it is named."""
    return model.__module__, list(vars(sys.modules[model.__module__])).index(model.__name__)


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Return the models of a type, of a union each."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return [model for part in get_args(annotation) for model in models_in(part)]
    return []


def ui_request_types(_spec: Spec) -> str:
    """Return `records/ui_requests.py`."""
    named = _union("UiRequest", (family(model) for model in models_in(ui_requests.AnyUiRequest)))
    return _module("ui_requests", after=named)


def event_types(_spec: Spec) -> str:
    """Return `records/events.py`."""
    names = [family(model) for promised in EVENTS["pi"].values() for model in models_in(promised)]
    requests = set(types()) & {name for name, each in types().items() if each.module == "ui_requests"}
    named = [*(name for name in names if name not in requests), "UiRequest"]
    return _module(
        "events",
        before=_RECORD,
        after=_union("Event", dict.fromkeys(named)),
        also={("collections.abc", "Mapping"), (f"{ROOM}.ui_requests", "UiRequest")},
    )


def reply_types(_spec: Spec) -> str:
    """Return `records/replies.py`."""
    return _module("replies")


def _union(name: str, members: Iterable[str]) -> str:
    names = list(members)
    line = f"{name}: TypeAlias = {' | '.join(names)}"
    listed = "\n    | ".join(names)
    return "\n\n" + (line if len(line) <= WIDTH else f"{name}: TypeAlias = (\n    {listed}\n)") + "\n"


def _module(
    name: str,
    *,
    before: str = "",
    after: str = "",
    also: set[tuple[str, str]] | frozenset[tuple[str, str]] = frozenset(),
) -> str:
    here = [each for each in types().values() if each.module == name]
    needed: set[tuple[str, str]] = {*also, ("typing_extensions", "TypedDict")}
    classes = [_class(each, needed) for each in here]
    text = "".join(classes)
    typing = ("Literal", "NotRequired", "TypeAlias")
    needed |= {("typing", each) for each in typing if f"{each}[" in text or f": {each} " in before + after}
    first, last = _ABOUT[name]
    return module_docstring(first, f"{_KEYS} {last}") + imports(needed) + before + text + after


def _class(each: Type, needed: set[tuple[str, str]]) -> str:
    lines = [f"class {each.name}(TypedDict):", docstring(_about(each), "    "), ""]
    for field, annotation, text in _fields(each, needed):
        lines.append(f"    {field}: {annotation}")
        if text:
            lines.append(field_text(text, "    "))
    return "\n\n" + "\n".join(lines) + "\n"


def _about(each: Type) -> str:
    """Say what a record is: what a generation adds ("With ...") is said behind what it adds to."""
    texts: list[str] = []
    for model in each.models[0].__mro__:
        if text := _doc(model):
            texts.insert(0, text)
            if not text.startswith(("With ", "The same")):
                break
    return " ".join(texts)


def _doc(model: type[object]) -> str:
    doc = model.__doc__ if model.__module__.startswith("pinnace_spec") else ""
    return " ".join((doc or "").split())


def _fields(each: Type, needed: set[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    texts = record_texts()
    for field in dict.fromkeys(field for model in each.models for field in model.model_fields):
        having = [model for model in each.models if field in model.model_fields]
        newest = having[0]
        may_be_absent = [model for model in each.models if field not in _required_fields(model)]
        written = field_type(newest, field, nullable=newest.model_fields[field].is_required())
        if not written.text:
            written = written._replace(text="None")
        needed |= written.imports
        for model in written.models:
            if (other := types()[family(model)]).module != each.module:
                needed.add((f"{ROOM}.{other.module}", other.name))
        annotation = f'"{written.text}"' if each.name in {family(model) for model in written.models} else written.text
        text = texts.get(newest.__name__, {}).get(field, "")
        yield field, f"NotRequired[{annotation}]" if may_be_absent else annotation, text


def _required_fields(model: type[BaseModel]) -> Sequence[str]:
    """Return the fields that every record of a model has."""
    return [name for name, field in cast("Mapping[str, Any]", model.model_fields).items() if field.is_required()]
