"""The texts that published definitions take from the models: what stands under fields, what plain commands do."""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
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

_MODULES: Final = (
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

# Models of commands without fields say nothing of any one of them.
PLAIN_TEXTS: Final[Mapping[str, str]] = {
    "abort_retry": "Cancel the delay before a retry.",
    "abort_bash": "End every shell command of the client.",
    "clone": "Continue in a copy of the session.",
    "cycle_model": "Select the next model.",
    "cycle_thinking_level": "Select the next thinking level.",
    "get_state": "Read the state of the agent and its selections.",
    "get_messages": "Read the messages of the context.",
    "get_available_models": "List the models that can be selected.",
    "get_session_stats": "Read the usage of the session.",
    "get_fork_messages": "List the messages that can be forked from.",
    "get_last_assistant_text": "Read the text of the newest answer.",
    "get_commands": "List the commands, templates and skills that a prompt can name after a slash.",
    "get_branch_messages": "The name of `get_fork_messages` in the oldest generation.",
    "get_available_thinking_levels": "List the thinking levels of the current model.",
    "get_tools": "List every tool, with the schema of its arguments, its source, and whether it is active.",
    "get_tree": "Read the session's entries as a tree.",
}


@cache
def field_texts() -> Mapping[str, Mapping[str, str]]:
    """Read what stands under the fields of the models: class -> field -> text, inherited ones included."""
    texts: dict[str, dict[str, str]] = {}
    for module in _MODULES:
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
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[statement.target.id] = " ".join(after.value.value.split())
    return found
