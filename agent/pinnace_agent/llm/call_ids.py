"""Ids of tool calls, which every API makes in its own way and takes in its own.

Pure. Decides how an id of one API is written for another: the same one always the same, and long ones that differ only
where they are cut stay different. Must not know any API.
"""

import re
from hashlib import sha256
from typing import Final

_HASH_CHARS: Final = 8
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")


def plain_id(call_id: str, max_chars: int) -> str:
    """Return an id of plain characters, at most `max_chars` of them; one that is cut ends with a digest of it all."""
    plain = _NOT_IN_IDS.sub("_", call_id)
    if len(plain) <= max_chars:
        return plain
    digest = sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{plain[: max_chars - _HASH_CHARS - 1]}_{digest}"
