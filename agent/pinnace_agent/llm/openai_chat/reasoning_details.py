"""A router's own record of a model's thoughts, which must be sent back unchanged.

Pure. Joins its pieces, and decides whether it contains more than the thoughts themselves: signatures or encrypted
parts. Independent of chunks or messages.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_list, as_object, as_text, compact_json
from pinnace_spec.wire.json_text import WireError, decode_line

# Kinds that come in pieces, and where their text is.
_GROWING: Final[dict[object, str]] = {"reasoning.text": "text", "reasoning.summary": "summary"}
# Fields that the thoughts alone do not contain.
_OPAQUE: Final = ("signature", "data")


class ReasoningDetails:
    """The record while it is streamed; the cost of a piece does not depend on its length so far."""

    def __init__(self) -> None:
        self._details: list[dict[str, object]] = []
        self._pieces: list[list[str]] = []  # of the text of each
        self._is_opaque = False

    def add(self, detail: Mapping[str, object]) -> bool:
        """Take one piece; return whether it holds what only the provider can read."""
        field = _GROWING.get(_kind(detail))
        piece = (as_text(detail.get(field)) or "") if field else ""
        said = {name: value for name, value in detail.items() if value is not None}
        if field and self._details and _key(self._details[-1]) == _key(detail):
            self._details[-1] |= said
        else:
            self._details.append(said)
            self._pieces.append([])
        self._pieces[-1].append(piece)
        is_opaque = any(as_text(detail.get(name)) for name in _OPAQUE)
        self._is_opaque = self._is_opaque or is_opaque
        return is_opaque

    def signature(self) -> str | None:
        """Return the whole record as JSON, None if the thoughts themselves contain as much."""
        if not self._is_opaque:
            return None
        whole: list[dict[str, object]] = []
        for detail, pieces in zip(self._details, self._pieces, strict=True):
            field = _GROWING.get(_kind(detail))
            whole.append(detail if field is None else {**detail, field: "".join(pieces)})
        return compact_json(whole)


def details_of(signature: str) -> Sequence[object]:
    """Return the record that a signature holds; empty if it is one of another kind."""
    if not signature.startswith("["):
        return ()
    try:
        details = as_list(decode_line(signature.encode(errors="replace"))) or []
    except WireError:
        return ()
    return [detail for detail in details if as_object(detail) is not None]


def _kind(detail: Mapping[str, object]) -> str:
    return as_text(detail.get("type")) or ""


def _key(detail: Mapping[str, object]) -> tuple[str, str]:
    return _kind(detail), str(detail.get("index"))
