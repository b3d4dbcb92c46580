"""What the models say of commands, as tables in a module of Python that is read without pydantic."""

from types import NoneType
from typing import Annotated, Final, Literal, get_args, get_origin

from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.records.commands import MODELS
from pinnace_spec.records.flat_commands import LISTS

# Fields of every command, and fields that hold lists, which are left to the models.
_LEFT_OUT: Final = frozenset({"id", "type", *LISTS})
_HEAD: Final = f'''"""The fields of every command, and lists of commands, as the models (`commands`) say.

{NOTE}
"""

from collections.abc import Mapping
from types import EllipsisType
from typing import Final, TypeAlias

Row: TypeAlias = tuple[type | frozenset[str] | None, "str | bool | EllipsisType | None", str]
"""What a value must be (a list is one of texts), one of which texts, or None for anything; what stands for an absent
one, `...` if it must be there; and the attribute of the model."""

COMMAND_TABLE: Final[Mapping[str, Mapping[str, Row]]] = {{
'''

_ABOUT_READS: Final = '"""Change nothing: they are answered in every state, and may be asked twice."""'
_ABOUT_OWN: Final = (
    '"""No release of the original has them: clients of older generations can use `hello` alone of ours."""'
)


def command_table(_spec: Spec) -> str:
    """Return the module `pinnace_spec.records.command_table`."""
    lines = [line for name in MODELS for line in _command(name)]
    reads = [name for name, model in MODELS.items() if model.reads]
    own = [name for name, model in MODELS.items() if model.since == "ours" and name != "hello"]
    return "\n".join(
        [
            *(_HEAD.rstrip("\n"), *lines, "}"),
            *("", *_list("READS", reads), _ABOUT_READS),
            *("", *_list("OWN_COMMANDS", own), _ABOUT_OWN, ""),
        ]
    )


def _list(name: str, commands: list[str]) -> list[str]:
    return [f"{name}: Final = (", *(f'    "{each}",' for each in commands), ")"]


def _command(name: str) -> list[str]:
    rows = [
        f'        "{field.alias or attribute}": '
        f'({_kind(field.annotation)}, {_literal(... if field.is_required() else field.default)}, "{attribute}"),'
        for attribute, field in MODELS[name].model_fields.items()
        if (field.alias or attribute) not in _LEFT_OUT
    ]
    return [f'    "{name}": {{', *rows, "    },"] if rows else [f'    "{name}": {{}},']


def _kind(annotation: object) -> str:
    if annotation is object:
        return "None"
    if get_origin(annotation) is Literal:
        return f"frozenset({{{', '.join(_literal(word) for word in sorted(get_args(annotation)))}}})"
    if get_origin(annotation) is Annotated:  # with the strictness of the model
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) is list:  # of texts; others are left out
        return "list"
    if isinstance(annotation, type):
        return annotation.__name__
    [kind] = [part for part in get_args(annotation) if part is not NoneType]  # of one that may be absent
    return _kind(kind)


def _literal(value: object) -> str:
    if value is ...:
        return "..."
    return f'"{value}"' if isinstance(value, str) else repr(value)
