"""Writes the summary of a compaction with its own prompt, of the whole conversation.

    pinnace --mode rpc -e examples/extensions/custom_compaction.py

If the model request fails, the handler returns None, and the built-in summary is written.
"""

from collections.abc import Sequence
from typing import cast

from pinnace.extensions import (
    Cancel,
    Compaction,
    Context,
    ExtensionAPI,
    Message,
    ModelError,
    complete,
    message_text,
    serialize_conversation,
)
from pinnace.extensions import events as ev

ASK = """Summarise this conversation so that the work can go on without it: the goal, what was decided and why, what was
done in which files, and what is next."""


def extension(pi: ExtensionAPI) -> None:
    @pi.on("session_before_compact")
    async def summarise(ctx: Context, event: ev.SessionBeforeCompact) -> Compaction | Cancel | None:
        prepared = event.preparation
        parts = [prepared.get("messagesToSummarize"), prepared.get("turnPrefixMessages")]
        messages = [message for part in parts for message in cast("Sequence[Message]", part or ())]
        if event.custom_instructions == "dry run":
            ctx.ui.notify(f"A compaction would summarise {len(messages)} messages")
            return Cancel()
        former = prepared.get("previousSummary")
        question = "\n\n".join(filter(None, [ASK, event.custom_instructions, cast("str | None", former)]))
        try:
            # Runs in the cancel scope of the compaction: an abort cancels the model request as well.
            answer = await complete(ctx, f"{question}\n\n{serialize_conversation(messages)}")
        except ModelError as error:
            ctx.ui.notify(f"The built-in summary is written instead: {error}", "warning")
            return None
        return Compaction(
            summary=message_text(answer),
            first_kept_entry_id=str(prepared["firstKeptEntryId"]),
            tokens_before=cast("int", prepared["tokensBefore"]),
            details={"by": "custom_compaction"},
            usage=answer["usage"],
        )

    @pi.on("session_compact")
    def tell(ctx: Context, event: ev.SessionCompact) -> None:
        ctx.ui.notify("Summarised by the extension" if event.from_extension else "Summarised as always")
