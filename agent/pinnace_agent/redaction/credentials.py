"""What of a named value is a key: of a header, a variable, an address, or a JSON text of these.

The name decides together with the form (`shapes`). A name that ends in a word such as `key` or `token` makes a key of
everything that can be one; a name that holds such a word elsewhere (`API_KEY_PROD`) of what is long and mixed; any
other name, also one that ends in what a key has (`KEY_FILE`), of what is evidently a key. Loaded with the first header
or variable.
"""

import json
import re
from binascii import Error, a2b_base64
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from pinnace_agent.redaction.shapes import is_address, is_key, is_strong, looks_like_key

_SECRET_WORDS: Final = frozenset(
    "apikey apikeys auth authorization authtoken bearer cookie credential credentials jwt key keys pass passphrase "
    "passwd password passwords pat pwd secret secrets sig signature token tokens".split()
)
# Written without a border: `accesskey`, `SLACKTOKEN`.
_SECRET_ENDINGS: Final = ("apikey", "accesskey", "authkey", "masterkey", "secretkey", "token", "secret", "password")
# As the last word: what a value is about is a secret, and the value is none.
_OTHER_WORDS: Final = frozenset(
    "algorithm count dir directory expiry file folder format header host id ids length limit method mode name path "
    "policy prefix region scope scopes server size store style timeout ttl type uri url user username version".split()
)
_BETWEEN_WORDS: Final = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=[0-9])")
# Headers that name a program or a version of an interface.
_PUBLIC_HEADERS: Final = frozenset(
    "accept anthropic-beta anthropic-version content-type http-referer openai-beta referer user-agent x-title".split()
)
_SCHEME: Final = re.compile(
    r"\A(?:(?P<known>api-?key|basic|bearer|digest|negotiate|token)\s+(?=\S)|[A-Za-z-]+\s+(?=\S+\Z))", re.I
)
_BASIC: Final = re.compile(r"\ABasic\s+([A-Za-z0-9+/]+={0,2})\Z", re.IGNORECASE)
_PAIR: Final = re.compile(r"\s*([\w.-]+)\s*=\s*([^;]*)")
_MOST_CHARS: Final = 100_000


def secrets_of_address(address: str) -> list[str]:
    """Return what of an address is a credential: its password, and parameters of its query that are named like one.

    So is a user's name that is evidently a key: `https://ghp_…@host`.
    """
    try:
        parts = urlsplit(address)
        passwords = [parts.password or ""]
        users = [parts.username or ""]
        pairs = [*parse_qsl(parts.query), *parse_qsl(parts.fragment)]
    except ValueError:  # no address at all
        return []
    found = [each for each in passwords for each in (unquote(each), each)]
    found += [each for each in users if looks_like_key(unquote(each))]
    found += [value for name, value in pairs if _is_secret(name, value)]
    return [each for each in found if each]


def secrets_of(name: str, value: str) -> Iterator[str]:
    """Yield what of a value with a name is a key."""
    value = value.strip()
    if len(value) > _MOST_CHARS or name.lower() in _PUBLIC_HEADERS:
        return
    if is_address(value):
        yield from secrets_of_address(value)
    elif value[:1] in ("{", "[") and (inner := _json(value)) is not None:
        yield from _secrets_inside(name, inner)
    else:
        yield from _secrets_of_text(name, value)


def _is_secret(name: str, value: str) -> bool:
    match _weight_of(name):
        case "last":
            return is_key(value)
        case "inside":
            return looks_like_key(value) or (is_key(value) and is_strong(value))
        case _:
            return looks_like_key(value)


def _weight_of(name: str) -> str:
    """Return where a name has a word for a secret: last, inside, or nowhere (an empty text)."""
    words = [word.lower() for word in _BETWEEN_WORDS.split(name) if word]
    while words and words[-1].isdigit():  # `TOKEN_2`
        words.pop()
    if not words or words[-1] in _OTHER_WORDS:
        return ""
    if words[-1] in _SECRET_WORDS or words[-1].endswith(_SECRET_ENDINGS):
        return "last"
    return "inside" if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words) else ""


def _secrets_of_text(name: str, value: str) -> Iterator[str]:
    """Yield a value that is a key; behind a scheme (`Bearer …`), or of pairs (`session=…; user=…`), what is one."""
    if found := _BASIC.match(value):
        with suppress(Error, UnicodeDecodeError):
            password = a2b_base64(found[1] + "==").decode().partition(":")[2]
            if is_key(password):
                yield password
    if scheme := _SCHEME.match(value):
        rest = value[scheme.end() :]
        if _is_secret(name, rest):
            yield rest
    if (scheme is None or not scheme["known"]) and _is_secret(name, value):
        yield value
    for pair in _PAIR.finditer(value):
        text = pair[2].strip()
        if _is_secret(pair[1], text) or (text and _weight_of(name) == "last" and looks_like_key(text)):
            yield text


def _json(text: str) -> object:
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _secrets_inside(name: str, value: object) -> Iterator[str]:
    """Yield the keys in a JSON value: what stands under a name of its own is judged by that."""
    waiting = [(name, value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            yield from secrets_of(name, value)
        elif isinstance(value, dict):
            waiting += cast("dict[str, object]", value).items()
        elif isinstance(value, list):
            waiting += [(name, each) for each in cast("list[object]", value)]
