"""What the models say of commands, as tables in modules of Python that are read without pydantic.

Each list has the order of the models. The dates are in a module of their own, since no agent reads them.
"""

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Annotated, Final, Literal, get_args, get_origin

from typing_extensions import is_typeddict

from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.records.commands import MODELS, Kind
from pinnace_spec.records.flat_commands import LISTS

# Fields of every command, and fields that hold lists, which are left to the models.
_LEFT_OUT: Final = frozenset({"id", "type", *LISTS})
_HEAD: Final = f'''"""The fields of every command, and the commands of each kind, as the models (`commands`) say.

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

_KINDS: Final[Mapping[str, Kind]] = {
    "TEXT_COMMANDS": "text",
    "WORK_COMMANDS": "work",
    "READS": "read",
    "SETTINGS": "setting",
    "FLAGS": "flag",
    "MODES": "mode",
    "SESSION_COMMANDS": "session",
    "SHELL_COMMANDS": "shell",
    "CLIENT_ANSWERS": "answer",
}
_ABOUT_OVERTAKING: Final = '"""Never wait behind a barrier (C-9), as reads and answers."""'
_ABOUT_OWN: Final = (
    '"""No release of the original has them: clients of older generations can use `hello` alone of ours."""'
)
_ABOUT_ALIASES: Final = '"""Older names, and the commands that they are carried out as."""'
_DATES_HEAD: Final = f'''"""The releases of the original that have each command, as the models (`records.commands`) say.

{NOTE}
"""

from collections.abc import Mapping
from typing import Final

COMMAND_DATES: Final[Mapping[str, Mapping[str, str]]] = {{
'''


def command_table(_spec: Spec) -> str:
    """Return the module `pinnace_spec.records.command_table`."""
    kinds = [line for name, kind in _KINDS.items() for line in ("", *_list(name, _which(kind=kind)))]
    aliases = [f'    "{name}": "{model.alias_of}",' for name, model in MODELS.items() if model.alias_of]
    own = [name for name in _which(since=None) if name != "hello"]
    return "\n".join(
        [
            *(_HEAD.rstrip("\n"), *(line for name in MODELS for line in _command(name)), "}", *kinds),
            *("", *_list("OVERTAKING", _which(waits=False)), _ABOUT_OVERTAKING),
            *("", *_list("OWN_COMMANDS", own), _ABOUT_OWN),
            *("", "ALIASES: Final[Mapping[str, str]] = {", *aliases, "}", _ABOUT_ALIASES, ""),
        ]
    )


def _which(**facts: object) -> list[str]:
    """Return the commands of which this is declared."""
    return [name for name, model in MODELS.items() if all(getattr(model, key) == fact for key, fact in facts.items())]


def command_dates(_spec: Spec) -> str:
    """Return the module `pinnace_spec.profiles.command_dates`."""
    return "\n".join([_DATES_HEAD.rstrip("\n"), *map(_dates, MODELS), "}", ""])


def _dates(name: str) -> str:
    model = MODELS[name]
    ours = "alone" if model.since is None else "again" if model.until is not None else None
    dates = {"since": model.since, "until": model.until, "published": model.published, "ours": ours}
    rows = [f'"{key}": "{date}"' for key, date in dates.items() if date is not None]
    return f'    "{name}": {{{", ".join(rows)}}},'


def _list(name: str, commands: Iterable[str]) -> list[str]:
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
    if is_typeddict(annotation):
        return "dict"
    if isinstance(annotation, type):
        return annotation.__name__
    kinds = [_kind(part) for part in get_args(annotation) if part is not NoneType]  # of one that may be absent
    # A number may be whole, too: one that is goes to the models.
    if sorted(kinds) == ["float", "int"]:
        return "float"
    [kind] = kinds
    return kind


def _literal(value: object) -> str:
    if value is ...:
        return "..."
    return f'"{value}"' if isinstance(value, str) else repr(value)
