"""What of an address, or of headers, is a credential. Loaded for an address or a header that may hold one."""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

_SECRET_NAME: Final = re.compile(r"auth|key|token|secret|cookie|credential|password|passwd|signature", re.IGNORECASE)
# What looks like a key under any name: long, one word, of letters and digits.
_LIKE_A_KEY: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w.+/=~-]{16,}")
# Headers that name a program or a version of an interface.
_PUBLIC_HEADERS: Final = frozenset(
    "accept anthropic-beta anthropic-version content-type http-referer openai-beta referer user-agent x-title".split()
)
_SCHEME: Final = re.compile(r"\A(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_SECRET_PARAMETER: Final = re.compile(
    r"(?:.*[_-])?(?:key|apikey|token|secret|password|passwd|sig|signature|auth|credential)", re.IGNORECASE
)


def secrets_of_address(address: str) -> list[str]:
    """Return what of an address is a credential: its password, and parameters of its query that are named like one."""
    try:
        parts = urlsplit(address)
        found = [unquote(parts.password or ""), parts.password or ""]
        query = parse_qsl(parts.query)
    except ValueError:  # no address at all
        return []
    found += [value for name, value in query if _SECRET_PARAMETER.fullmatch(name)]
    return [each for each in found if each]


def secrets_of_headers(headers: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield the values of headers that are or look like credentials, and whether their names say so."""
    for name, value in headers.items():
        word = _SCHEME.sub("", value.strip())
        is_named = _SECRET_NAME.search(name) is not None
        if is_named or (name.lower() not in _PUBLIC_HEADERS and _LIKE_A_KEY.fullmatch(word)):
            yield word, is_named
