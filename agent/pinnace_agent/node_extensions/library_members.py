"""What the functions of pi's packages ask that work on messages, texts and files: what the agent knows already."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.values import Ask, Now, Values

if TYPE_CHECKING:
    from pinnace_agent.compaction.prompts import Part


# --- summaries --------------------------------------------------------------------------------------------------------


def _summary_request(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the request for a summary; the wording has `part`, `previousSummary`, `instructions` and `replaces`."""
    from pinnace_agent.compaction.prompts import SYSTEM_PROMPT, request_text, request_text_as_wanted
    from pinnace_agent.compaction.serialisation import paragraphs
    from pinnace_agent.session.store.message_repair import whole_message

    wording = values.record(0, "wording")
    names = ("previousSummary", "instructions")
    given = Values("summary_request", [wording.get(name) for name in names])
    previous, instructions = (given.text_or_none(place, name) for place, name in enumerate(names))
    messages = [whole for each in values.records(1, "messages") if (whole := whole_message(each, None)) is not None]
    conversation = paragraphs(messages)
    if wording.get("replaces") is True and instructions:
        return {"systemPrompt": SYSTEM_PROMPT, "text": request_text_as_wanted(conversation, instructions)}
    part: Part = "turn_prefix" if wording.get("part") == "turn_prefix" else "history"
    return {"systemPrompt": SYSTEM_PROMPT, "text": request_text(part, conversation, previous, instructions)}


def _with_turn_prefix(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.compaction.prompts import with_turn_prefix

    return with_turn_prefix(values.text_or_none(0, "history"), values.text(1, "prefix"))


def _with_files(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return a summary with the files that were read and changed, and both lists."""
    from pinnace_agent.compaction.file_operations import FileOperations, with_file_blocks

    read, modified = (set(values.texts(place, name)) for place, name in ((1, "read"), (2, "modified")))
    files = FileOperations(tuple(sorted(read - modified)), tuple(sorted(modified)))
    return {"summary": with_file_blocks(values.text(0, "summary"), files), "details": files.details()}


NOW: Final[Mapping[str, Now]] = {
    "summary_request": _summary_request,
    "with_turn_prefix": _with_turn_prefix,
    "with_files": _with_files,
}

ASK: Final[Mapping[str, Ask]] = {}
