"""The secrets of one request, taken out of texts about it.

Servers echo requests in their errors. These texts are cut afterwards, so the redactor of what is written would find a
part alone. Independent of what the texts are for.
"""

import re
from collections.abc import Mapping
from typing import Final

from pinnace_agent.redaction.policy import LEAST_CHARS, REDACTED
from pinnace_agent.redaction.redactor import Redactor

_PLAIN: Final = re.compile(r"[^\W\d_]+|[\d\W_]+")


class Secrets:
    """What must not appear in any text about one request."""

    def __init__(self, api_key: str | None = None, headers: Mapping[str, str] | None = None, url: str = "") -> None:
        """Take the key, and what is a key of the headers and of the address."""
        self._redactor = Redactor()
        self._redactor.learn(api_key)
        self._redactor.learn_values(headers or {})
        self._redactor.learn_address(url)
        short = (api_key or "").strip()
        # Too short to be looked for in other texts; a word such as `none`, or a number, is not hidden here either.
        self._short = short if len(short) < LEAST_CHARS and not _PLAIN.fullmatch(short) else ""

    def __repr__(self) -> str:
        """Return the same for all secrets."""
        return "Secrets()"

    def hide(self, text: str) -> str:
        """Take every secret out of a text, also where it is written as JSON."""
        text = self._redactor.text(text)
        if self._short:
            text = re.sub(rf"(?<![\w-]){re.escape(self._short)}(?![\w-])", REDACTED, text)
        return text
