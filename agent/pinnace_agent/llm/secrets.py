"""Keys, and taking them out of texts.

Decides what of a request is a secret, and in which forms it may come back: servers echo requests in their errors. Pure;
must not know what the texts are for.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.json_edge import compact_json

REDACTED: Final = "[redacted]"
# Shorter ones are words that servers without authentication ask for, such as `none`: hidden only where they
# stand alone, so that they do not riddle the text.
_SHORT_CHARS: Final = 8
_SECRET_HEADER: Final = re.compile(r"auth|key|token|secret|cookie|credential|password", re.IGNORECASE)
# What looks like a key under any name: long, one word, of letters and digits.
_LIKE_A_KEY: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w.+/=~-]{16,}")
_SCHEME: Final = re.compile(r"\A(?:Bearer|Basic|Token)\s+", re.IGNORECASE)


class Secrets:
    """What must not appear in any text about one request."""

    def __init__(self, api_key: str | None = None, headers: Mapping[str, str] | None = None, url: str = "") -> None:
        """Take the key, the header values that are or look like credentials, and the password of the address."""
        values = [api_key or "", _password(url)]
        for name, value in (headers or {}).items():
            word = _SCHEME.sub("", value.strip())
            if _SECRET_HEADER.search(name) or _LIKE_A_KEY.fullmatch(word):
                values.append(word)
        plain = {value.strip() for value in values}
        forms = {form for value in plain for form in (value, compact_json(value)[1:-1])}
        # The longest first: one may be a part of another.
        self._forms = sorted(filter(None, forms), key=len, reverse=True)

    def __repr__(self) -> str:
        """Say nothing."""
        return "Secrets()"

    def hide(self, text: str) -> str:
        """Take every secret out of a text, also where it is written as JSON."""
        for form in self._forms:
            if len(form) >= _SHORT_CHARS:
                text = text.replace(form, REDACTED)
            else:
                text = re.sub(rf"(?<![\w-]){re.escape(form)}(?![\w-])", REDACTED, text)
        return text


def secrets_of(request: LlmRequest) -> Secrets:
    """Return what must not appear in any text about this request."""
    return Secrets(request.api_key, request.headers, request.model["baseUrl"])


def _password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:  # no address at all
        return ""
