"""`--list-models`: the models that have a key, as a table for people or as JSON lines, by provider and id.

Starts no agent, reads the user's models and keys and the built-in models of the providers that have one, runs no
command and changes nothing. Extensions may register models, so they are loaded.
"""

import os
import re
import sys
from collections.abc import Sequence
from typing import Final, Literal

from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.core.collation import collation_key
from pinnace_agent.files.paths import agent_dir
from pinnace_rpc.options.extension_hints import may_find_extensions
from pinnace_rpc.options.options import Options
from pinnace_spec.records.messages import Model
from pinnace_spec.wire.json_text import encode_record

_TITLES: Final = ("provider", "model", "context", "max-out", "thinking", "images")
_ORDER: Final[tuple[Literal["provider"], Literal["id"]]] = ("provider", "id")
_GAP: Final = "  "
_WORDS: Final = re.compile(r"[\s/]+")
_LETTERS_AND_NUMBER: Final = re.compile(r"([a-z]+)([0-9]+)|([0-9]+)([a-z]+)")


def main(search: str, options: Options) -> int:
    """Write the table of the models that match `search`; of all if it is empty."""
    folder = agent_dir(os.environ)
    catalog = read_catalog(folder / "models.json")
    auth = read_auth(folder / "auth.json")
    for diagnostic in (*catalog.diagnostics, *auth.diagnostics):
        sys.stderr.write(f"pinnace: {diagnostic}\n")
    registry = ModelRegistry(catalog, auth, os.environ)
    if options.extensions or (not options.no_extensions and may_find_extensions(os.environ)):
        from pinnace_rpc.options.extension_preview import Preview, add_providers, preview, refresh_providers

        async def add(seen: Preview) -> None:
            add_providers(registry, seen.providers)
            await refresh_providers(registry, seen.providers)

        is_discovering = not options.no_extensions
        preview(options.extensions, is_discovering=is_discovering, approved=options.approved, work=add)
    models = registry.available()
    found = [model for model in models if is_match(search, f"{model['provider']} {model['id']}")]
    found.sort(key=lambda model: [collation_key(model[name], small_first=True) for name in _ORDER])
    if options.as_json:
        from pinnace_rpc.server.queries import shown_model  # loads much, and the table needs none of it

        for model in found:
            sys.stdout.buffer.write(encode_record(shown_model(model)))
        sys.stdout.buffer.flush()
        return 0
    if not models:
        text = (
            "No models available. Set the variable of a provider, such as OPENAI_API_KEY, store a key (pinnace auth "
            f"login PROVIDER), or describe a server in {folder / 'models.json'}.\n"
        )
    elif not found:
        text = f'No models matching "{search}"\n'
    else:
        text = _table(found)
    # Paths and command lines may contain bytes that are not UTF-8.
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 0


def _table(models: Sequence[Model]) -> str:
    rows = [_TITLES, *(_row(model) for model in models)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _row(model: Model) -> tuple[str, ...]:
    return (
        _shown(model["provider"]),
        _shown(model["id"]),
        _size(model["contextWindow"]),
        _size(model["maxTokens"]),
        "yes" if model["reasoning"] else "no",
        "yes" if "image" in model["input"] else "no",
    )


def _shown(name: str) -> str:
    """Return a name without control sequences."""
    return name if name.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in name)


def _size(tokens: int) -> str:
    """Format a number of tokens briefly: `999`, `128K`, `1.5M`."""
    for unit, name in ((1_000_000, "M"), (1_000, "K")):
        if tokens >= unit:
            return f"{_one_decimal(tokens / unit)}{name}" if tokens % unit else f"{tokens // unit}{name}"
    return str(tokens)


def _one_decimal(number: float) -> str:
    # Python rounds 1.25 to 1.2, other programs to 1.3.
    from decimal import ROUND_HALF_UP, Decimal

    return str(Decimal(number).quantize(Decimal("0.1"), ROUND_HALF_UP))


def is_match(search: str, text: str) -> bool:
    """Return whether a search matches a text: the letters of each word in this order, with others between them.

    Case does not matter. Words are separated by blanks or slashes.
    """
    lower = text.lower()
    return all(_is_word_match(word, lower) for word in _WORDS.split(search.lower()) if word)


def _is_word_match(word: str, text: str) -> bool:
    if _has_in_order(word, text):
        return True
    # `5gpt` matches `gpt5`: the order of the parts is easily forgotten.
    parts = _LETTERS_AND_NUMBER.fullmatch(word)
    if parts is None:
        return False
    letters, number, number_first, letters_last = parts.groups()
    swapped = f"{number}{letters}" if letters is not None else f"{letters_last}{number_first}"
    return _has_in_order(swapped, text)


def _has_in_order(word: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in word)
