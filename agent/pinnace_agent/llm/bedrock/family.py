"""What a model behind Amazon Bedrock is, and what it accepts.

Pure. Bedrock serves the models of many makers by one API, and refuses fields that the model does not know. What a model
is follows from its id and its name: an application inference profile has an id that says nothing, so that its name in
models.json decides.
"""

import re
from typing import Final, NamedTuple

from pinnace_spec.records.messages import Model

_SEPARATORS: Final = re.compile(r"[\s_.:]+")
# Claude that decides itself how long it thinks.
_ADAPTIVE: Final = "opus-4-6 opus-4-7 opus-4-8 opus-5 sonnet-4-6 sonnet-5 haiku-5 fable-5".split()
# Of these, those that also know the effort `xhigh`, and bind their thoughts to what came before.
_BINDING: Final = "opus-4-7 opus-4-8 opus-5 sonnet-5 haiku-5 fable-5".split()
_CACHING: Final = "fable-5 opus-5 sonnet-5 haiku-5 -4- claude-3-7-sonnet claude-3-5-haiku".split()


class Family(NamedTuple):
    """The kind of a model."""

    is_claude: bool
    """Signs its thoughts, and takes Anthropic's own fields."""
    is_adaptive: bool
    """Takes an effort for thinking instead of a budget."""
    binds_thoughts: bool
    """Refuses thoughts after another history than theirs, unless it is asked to drop them."""
    caches: bool
    """Takes cache points."""
    is_gpt: bool
    is_gpt_oss: bool


def family_of(model: Model) -> Family:
    """Return what a model is."""
    names = [name.lower() for name in (model["id"], model["name"])]
    spelt = [*names, *(_SEPARATORS.sub("-", name) for name in names)]

    def has(*words: str) -> bool:
        return any(word in name for name in spelt for word in words)

    is_claude = any(each in names[0] for each in ("anthropic.claude", "anthropic/claude")) or "claude" in names[1]
    return Family(
        is_claude=is_claude,
        is_adaptive=is_claude and has(*_ADAPTIVE),
        binds_thoughts=is_claude and has(*_BINDING),
        caches=has("claude") and has(*_CACHING),
        is_gpt=not is_claude and has("gpt-"),
        is_gpt_oss=not is_claude and has("gpt-oss"),
    )
