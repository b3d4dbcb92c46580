"""The system prompt that a client gives a session, as options of the session's agent. Of the unstable schemas."""

from collections.abc import Collection, Sequence
from typing import Final

from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.shown import Json

CAPABILITY: Final[Json] = {"mode": {"override": {}}}
"""Text is appended, which every agent with this capability does, or replaces the built-in instructions."""
MAX_BYTES: Final = 100_000
"""Of the text. An argument of a program can have little more."""
_OPTIONS: Final = {"append": "--client-prompt", "override": "--system-prompt"}


def read_system_prompt(params: Params) -> Sequence[str]:
    """Return the options of the system prompt of a request that opens a session; none: it has none.

    Raises:
        InvalidParams: Its mode or a block is not supported, or it has no text, or too much.
    """
    if params.fields.get("systemPrompt") is None:
        return ()
    given = Params(params.fields["systemPrompt"], f"{params.path}.systemPrompt")
    mode = given.text("mode")
    if mode not in _OPTIONS:
        raise given.invalid("mode", f"must be {' or '.join(_OPTIONS)}")
    texts: list[str] = []
    for block in given.objects("content"):
        if block.text("type") != "text":
            raise block.invalid("type", "must be text")
        texts.append(block.text("text"))
    text = "\n\n".join(texts)
    if not text.strip() or "\0" in text:
        raise given.invalid("content", "must have a text, without NUL")
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise given.invalid("content", f"must have at most {MAX_BYTES} bytes")
    # The option that replaces the instructions takes the name of a file, too: with a line end the text is none.
    return (f"{_OPTIONS[mode]}={text}\n",)


def is_other(options: Collection[str]) -> bool:
    """Return whether the options in which an agent differs from a request are those of a system prompt."""
    return not set(_OPTIONS.values()).isdisjoint(options)
