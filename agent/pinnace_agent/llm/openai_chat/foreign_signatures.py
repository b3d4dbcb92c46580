"""Signatures of another vendor's model behind OpenAI's format, which must be sent back unchanged.

Pure. Gemini signs its tool calls, and sometimes its text: its own server puts the signature into `extra_content`,
LiteLLM into `provider_specific_fields`. Both stand beside what is signed, in an answer and in a request. Independent of
chunks and messages.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.core.json_access import as_object, compact_json
from pinnace_spec.wire.json_text import WireError, decode_line

_FIELDS: Final = ("extra_content", "provider_specific_fields")
_SIGNATURE: Final = "thought_signature"


def signature_beside(members: Mapping[str, object]) -> str | None:
    """Return the signature that stands beside a call or a text, as a session keeps it; None: there is none."""
    found = {name: value for name in _FIELDS if _has_signature(value := members.get(name))}
    return compact_json(found) if found else None


def fields_of(signature: str | None) -> dict[str, object]:
    """Return the fields that hold a signature in a request; empty if it is one of another kind."""
    if not signature or not signature.startswith(tuple(f'{{"{name}"' for name in _FIELDS)):
        return {}
    try:
        kept = as_object(decode_line(signature.encode(errors="replace"))) or {}
    except WireError:
        return {}
    return {name: value for name, value in kept.items() if name in _FIELDS}


def _has_signature(value: object) -> bool:
    """Return whether one is in a field, or in the part of a vendor in it."""
    members = as_object(value) or {}
    return any(_SIGNATURE in part for part in (members, *filter(None, map(as_object, members.values()))))
