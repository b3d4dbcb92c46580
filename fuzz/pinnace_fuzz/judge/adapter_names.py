"""Finds an adapter by the word for it on a command line: a built-in one, one that comes with the tester, or a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pinnace_fuzz.judge.adapter import (
    Adapter,
    AdapterError,
    AttachAdapter,
    EnvAdapter,
    FileAdapter,
    NoAdapter,
    PiAdapter,
)
from pinnace_fuzz.judge.json_mode import JsonModeAdapter

BUILT_IN: Final[Mapping[str, type[PiAdapter | AttachAdapter | EnvAdapter]]] = {
    each.name: each for each in (PiAdapter, AttachAdapter, JsonModeAdapter, EnvAdapter, NoAdapter)
}
"""By name."""
DEFAULT: Final = PiAdapter.name
# Adapters of agents that need more than `pi` or `env`, by name.
_SHIPPED: Final = Path(__file__).parent / "adapters"


def adapter(name: str) -> Adapter:
    """Return an adapter: one of the built-in ones, one of those that come with the tester, or that of a file.

    Raises:
        AdapterError: There is none.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    path = _shipped().get(name, Path(name))
    try:
        return FileAdapter(path.read_text(encoding="utf-8"), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise AdapterError(f"{name} is none of {', '.join([*BUILT_IN, *_shipped()])} and no file: {why}") from None


def option_of(name: str) -> str:
    """Return what a command line needs so that the tester uses an adapter, with a blank before it.

    Nothing for the default, and nothing for one of the user's: its file is not known by its name.
    """
    return f" --adapter {name}" if name != DEFAULT and name in (*BUILT_IN, *_shipped()) else ""


def _shipped() -> Mapping[str, Path]:
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.toml"))}
