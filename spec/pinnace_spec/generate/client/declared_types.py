"""Types as the modules of records write them, for the same types without pydantic.

A name is followed to where it is defined: what pydantic checks beside a type (`NonEmpty`, `Count`, `Annotated`) is left
out, models become the plain dicts of the client, and plain types of the specification stay as they are and are
imported. Source code is read and not values, since values have lost the names of their types.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Final, NamedTuple

from pydantic import BaseModel

from pinnace_spec.records import (
    commands,
    compactions,
    events,
    output_model,
    readings,
    responses,
    ui_requests,
    updates,
)

_MODULES: Final[dict[str, ModuleType]] = {
    module.__name__: module
    for module in (commands, compactions, events, output_model, readings, responses, ui_requests, updates)
}
_PLAIN: Final = {"StrictStr": "str", "StrictInt": "int", "StrictFloat": "float", "StrictBool": "bool"}
_OLDER: Final = ("Whole", "Delta", "Seed")
"""How the names of models begin that are one record in another generation."""


class Written(NamedTuple):
    """A type as source code, and what it needs."""

    text: str
    imports: frozenset[tuple[str, str]] = frozenset()
    """Modules of the specification and names in them."""
    models: tuple[type[BaseModel], ...] = ()
    """The models that it names, by their `family`."""


class _Source(NamedTuple):
    imports: dict[str, str]
    aliases: dict[str, ast.expr]


def family(model: type[BaseModel]) -> str:
    """Return the name that all generations of a record share."""
    name = model.__name__
    while prefix := next((each for each in _OLDER if name.startswith(each)), ""):
        name = name.removeprefix(prefix)
    return name


def field_type(model: type[BaseModel], field: str, *, nullable: bool) -> Written:
    """Return the type of a field; without null, unless that is one of its values."""
    owner, node = next(
        (each, statement.annotation)
        for each in model.__mro__
        if each.__module__ in _MODULES
        for statement in _class_body(each)
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == field
    )
    return _joined(_alternatives(node, _MODULES[owner.__module__]), nullable=nullable)


def _joined(parts: Iterator[Written], *, nullable: bool) -> Written:
    kept = {part.text: part for part in parts if nullable or part.text != "None"}
    return Written(
        " | ".join(kept),
        frozenset(each for part in kept.values() for each in part.imports),
        tuple(dict.fromkeys(model for part in kept.values() for model in part.models)),
    )


def _alternatives(node: ast.expr, module: ModuleType) -> Iterator[Written]:
    match node:
        case ast.BinOp(left=left, right=right):
            yield from _alternatives(left, module)
            yield from _alternatives(right, module)
        case ast.Constant(value=str(text)):  # a type that names itself
            yield from _alternatives(ast.parse(text, mode="eval").body, module)
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
            yield from _alternatives(first, module)
        case ast.Subscript(value=ast.Name(id="Literal")):
            yield Written(ast.unparse(node).replace("'", '"'))
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            parts = [_joined(_alternatives(each, module), nullable=True) for each in arguments]
            whole = _joined(iter(parts), nullable=True)
            yield whole._replace(text=f"{name}[{', '.join(part.text for part in parts)}]")
        case ast.Name(id=name):
            yield from _named(name, module)
        case _:
            yield Written(ast.unparse(node))


def _named(name: str, module: ModuleType) -> Iterator[Written]:
    source = _source(module.__name__)
    value = vars(module).get(name)
    if name in _PLAIN:
        yield Written(_PLAIN[name])
    elif isinstance(value, type) and issubclass(value, BaseModel):
        yield Written(family(value), models=(value,))
    elif name in source.aliases:
        yield from _alternatives(source.aliases[name], module)
    elif (origin := source.imports.get(name)) in _MODULES:
        yield from _named(name, _MODULES[origin])
    elif origin is not None:
        yield Written(name, frozenset({(origin, name)}))
    else:
        yield Written(name)


@cache
def _source(module: str) -> _Source:
    found = _Source({}, {})
    for node in _tree(module).body:
        match node:
            case ast.ImportFrom(module=str(origin), names=names):
                found.imports.update({each.name: origin for each in names})
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.aliases[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.aliases[name] = value
            case _:
                pass
    return found


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(_MODULES[module]))


def _class_body(model: type[BaseModel]) -> list[ast.stmt]:
    tree = _tree(model.__module__)
    return next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == model.__name__)
