"""What an output item says as a whole, when it is done.

Pure. Gives texts as they stand behind all deltas, or None where only the deltas have them. Must not know events.
"""

from collections.abc import Mapping, Set
from typing import Final

from pinnace_agent.llm.json_edge import as_array, as_object, as_text, compact_json
from pinnace_agent.llm.responses_items import Part

# Between the parts of a summary, which are paragraphs with headings.
BLANK_LINE: Final = "\n\n"


def whole_arguments(value: object) -> str | None:
    """Return the JSON text of a call's arguments as a whole; None where only the deltas have them."""
    if isinstance(value, str):
        return value or None
    return None if value is None else compact_json(value)


def whole_thoughts(members: Mapping[str, object], parts: Set[Part]) -> str | None:
    """Return all thoughts of an item, of the kind of which some came."""
    kinds = {name for name, _ in parts}
    summary = joined_texts(members.get("summary"), "text", between=BLANK_LINE)
    content = joined_texts(members.get("content"), "text", between=BLANK_LINE)
    if not kinds:
        return summary or content
    return summary if "summary_index" in kinds else content


def joined_texts(parts: object, *fields: str, between: str = "") -> str | None:
    """Join the texts of parts, each under one of `fields`; None if there is none."""
    texts: list[str] = []
    for part in as_array(parts):
        members = as_object(part) or {}
        text = next((text for field in fields if (text := as_text(members.get(field)))), None)
        if text is not None:
            texts.append(text)
    return between.join(texts) or None
