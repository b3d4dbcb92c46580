"""AWS's Signature Version 4 of one request.

Pure: the moment and the keys are arguments. Decides the canonical form of a request, what of it is signed, and the
headers that carry the signature. Independent of where keys come from and of what a request asks for. Source: AWS's
documentation, "Create a signed AWS API request"; the tests have its examples.
"""

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SCOPE_END: Final = "aws4_request"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Of a request's own headers these are signed, with those of AWS: a proxy may change, add or remove others.
_SIGNED: Final = frozenset({"host", "content-type"})
_OF_AWS: Final = "x-amz-"
_UNRESERVED: Final = "-_.~"


class SigningKeys(NamedTuple):
    """What signs a request. Shown without its contents."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    """Of keys that expire."""

    def __repr__(self) -> str:
        """Return nothing of what is inside."""
        return "SigningKeys(...)"


class Scope(NamedTuple):
    """What a signature is good for, besides its day."""

    region: str
    service: str


class Unsigned(NamedTuple):
    """A request before it is signed."""

    method: str
    url: str
    """As it is sent: its path is encoded once."""
    headers: Mapping[str, str]
    body: bytes


def signed_headers(request: Unsigned, keys: SigningKeys, scope: Scope, moment: datetime) -> dict[str, str]:
    """Return the headers of a request with those of its signature; a signature that it has already is replaced.

    Args:
        request: `Host` follows from its address.
        keys: Whose signature it is.
        scope: For which service.
        moment: With a time zone. AWS refuses a signature that is five minutes away from its own time.
    """
    own = {name: value for name, value in request.headers.items() if not _is_of_signature(name)}
    added = {"X-Amz-Date": f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"}
    if keys.session_token:
        added["X-Amz-Security-Token"] = keys.session_token
    sent = own | added
    signed = {name.lower(): value for name, value in sent.items() if _is_signed(name)} | {"host": _host(request.url)}
    text = string_to_sign(canonical_request(request, signed), scope, moment)
    signature = hmac.new(signing_key(keys.secret_access_key, scope, moment), text.encode(), sha256).hexdigest()
    credential = f"{keys.access_key_id}/{_scope(scope, moment)}"
    names = ";".join(sorted(signed))
    return sent | {
        "Authorization": f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    }


def canonical_request(request: Unsigned, signed: Mapping[str, str]) -> str:
    """Return the canonical form of a request.

    Args:
        request: Its headers are not looked at.
        signed: The headers that are signed, with names in lower case.
    """
    parts = urlsplit(request.url)
    pairs = sorted((_quoted(name), _quoted(value)) for name, value in parse_qsl(parts.query, keep_blank_values=True))
    names = sorted(signed)
    return "\n".join(
        [
            request.method,
            quote(parts.path or "/", safe=f"/{_UNRESERVED}"),  # a second time, as for all services but the storage
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{' '.join(signed[name].split())}" for name in names),
            "",
            ";".join(names),
            sha256(request.body).hexdigest(),
        ]
    )


def string_to_sign(canonical: str, scope: Scope, moment: datetime) -> str:
    """Return the text that is signed for a request in its canonical form."""
    digest = sha256(canonical.encode()).hexdigest()
    return "\n".join([_ALGORITHM, f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}", _scope(scope, moment), digest])


def signing_key(secret_access_key: str, scope: Scope, moment: datetime) -> bytes:
    """Return the key that signs for one day, region and service."""
    key = f"AWS4{secret_access_key}".encode()
    for part in (f"{moment.astimezone(UTC):%Y%m%d}", scope.region, scope.service, _SCOPE_END):
        key = hmac.digest(key, part.encode(), sha256)
    return key


def _scope(scope: Scope, moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%d}/{scope.region}/{scope.service}/{_SCOPE_END}"


def _host(url: str) -> str:
    """Return the host of an address as HTTP names it: without a port that is its scheme's own."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    return host if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{host}:{parts.port}"


def _is_signed(name: str) -> bool:
    return name.lower() in _SIGNED or name.lower().startswith(_OF_AWS)


def _is_of_signature(name: str) -> bool:
    return name.lower() in {"authorization", "host", "x-amz-date", "x-amz-security-token"}


def _quoted(text: str) -> str:
    return quote(text, safe=_UNRESERVED)
