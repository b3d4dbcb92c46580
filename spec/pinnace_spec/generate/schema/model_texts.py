"""The texts that published definitions take from the models: what stands under fields, what plain commands do."""

import ast
import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from types import ModuleType
from typing import Final

from pinnace_spec.records import (
    commands,
    compactions,
    events,
    messages,
    other_records,
    readings,
    responses,
    ui_requests,
    updates,
)

_OF_COMMANDS: Final = (messages, commands)
_OF_RECORDS: Final = (
    compactions,
    events,
    messages,
    other_records,
    readings,
    responses,
    ui_requests,
    updates,
)


@cache
def command_texts() -> Mapping[str, Mapping[str, str]]:
    """Read what stands under the fields of commands: class -> field -> text, inherited ones included."""
    return _texts(_OF_COMMANDS)


@cache
def record_texts() -> Mapping[str, Mapping[str, str]]:
    """Read the same of what an agent writes; some of these classes are named as a command is."""
    return _texts(_OF_RECORDS)


def _texts(modules: Iterable[ModuleType]) -> Mapping[str, Mapping[str, str]]:
    texts: dict[str, dict[str, str]] = {}
    for module in modules:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                inherited = [texts.get(base.id, {}) for base in node.bases if isinstance(base, ast.Name)]
                texts[node.name] = {key: text for base in inherited for key, text in base.items()} | _own_texts(node)
    return texts


def _own_texts(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement, after in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and not ast.unparse(statement.annotation).startswith("ClassVar")  # of the model, no field of a record
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[statement.target.id] = " ".join(after.value.value.split())
    return found
