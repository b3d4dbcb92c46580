"""Source code of Python in the form that the formatter of this repository leaves as it is."""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from pinnace_spec.generate.source import NOTE

WIDTH: Final = 120


def module_docstring(*paragraphs: str) -> str:
    """Return the head of a generated module: what it is, and that it is generated."""
    filled = (textwrap.fill(each, WIDTH) for each in (*paragraphs[1:], NOTE))
    return "\n\n".join([f'"""{paragraphs[0]}', *filled]) + '\n"""\n'


def docstring(text: str, indent: str, arguments: Iterable[tuple[str, str]] = ()) -> str:
    """Return a docstring: on one line if it fits and there is nothing to say of arguments.

    Else its first sentence has a line of its own.
    """
    listed = [
        line for name, about in arguments for line in _wrapped(f"{name}: {about}", f"{indent}    ", hanging="    ")
    ]
    one = f'{indent}"""{text}"""'
    if len(one) <= WIDTH and not listed:
        return one
    sentence, _, rest = text.partition(". ")
    if not rest or (listed and len(one) <= WIDTH + 3):
        sentence, rest = text, ""
    about = [f'{indent}"""{sentence}{"." if rest else ""}', *(["", *_wrapped(rest, indent)] if rest else [])]
    return "\n".join([*about, *(["", f"{indent}Args:", *listed] if listed else []), f'{indent}"""'])


def field_text(text: str, indent: str) -> str:
    """Return what stands under a field."""
    return "\n".join(_wrapped(f'"""{text}"""', indent))


def _wrapped(text: str, indent: str, *, hanging: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging)


def imports(needed: Iterable[tuple[str, str]]) -> str:
    """Return the import statements for modules and names in them, in their groups."""
    by_module = [
        (module, sorted(name for _, name in names)) for module, names in groupby(sorted(needed), lambda e: e[0])
    ]
    groups = [
        [each for each in by_module if each[0] in {"abc", "collections.abc", "typing"}],
        [each for each in by_module if each[0] == "typing_extensions"],
        [each for each in by_module if each[0].startswith("pinnace")],
    ]
    return "".join("\n" + "\n".join(_import(*each) for each in group) + "\n" for group in groups if group)


def _import(module: str, names: list[str]) -> str:
    ordered = sorted(names, key=lambda name: (not name.isupper(), name))
    line = f"from {module} import {', '.join(ordered)}"
    return line if len(line) <= WIDTH else f"from {module} import (\n{''.join(_listed(ordered))})"


def _listed(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield f"    {name},\n"


def call(head: str, arguments: list[str], tail: str, indent: str) -> str:
    """Return a call or a definition: on one line if it fits, else with a line for each argument."""
    one = f"{indent}{head}({', '.join(arguments)}){tail}"
    if len(one) <= WIDTH:
        return one
    return "\n".join([f"{indent}{head}(", *(f"{indent}    {each}," for each in arguments), f"{indent}){tail}"])
