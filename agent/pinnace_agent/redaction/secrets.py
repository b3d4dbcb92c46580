"""The secrets of one request, taken out of texts about it.

Decides what of a request is a secret: servers echo requests in their errors. These are cut afterwards, so the redactor
of what is written would find a part alone. Independent of what the texts are for.
"""

import re
from collections.abc import Mapping
from typing import Final

from pinnace_agent.core.json_access import compact_json
from pinnace_agent.redaction.policy import REDACTED

# Shorter ones are words that servers without authentication ask for, such as `none`: hidden only where they
# stand alone, so that they do not riddle the text.
_SHORT_CHARS: Final = 8


class Secrets:
    """What must not appear in any text about one request."""

    def __init__(self, api_key: str | None = None, headers: Mapping[str, str] | None = None, url: str = "") -> None:
        """Take the key, the header values that are or look like credentials, and those of the address."""
        from pinnace_agent.redaction.credentials import secrets_of_address, secrets_of_headers  # not at start

        values = [api_key or "", *secrets_of_address(url), *(word for word, _ in secrets_of_headers(headers or {}))]
        plain = {value.strip() for value in values}
        forms = {form for value in plain for form in (value, compact_json(value)[1:-1])}
        # The longest first: one may be a part of another.
        self._forms = sorted(filter(None, forms), key=len, reverse=True)

    def __repr__(self) -> str:
        """Return the same for all secrets."""
        return "Secrets()"

    def hide(self, text: str) -> str:
        """Take every secret out of a text, also where it is written as JSON."""
        for form in self._forms:
            if len(form) >= _SHORT_CHARS:
                text = text.replace(form, REDACTED)
            else:
                text = re.sub(rf"(?<![\w-]){re.escape(form)}(?![\w-])", REDACTED, text)
        return text
