"""What a service account of Google says of itself, signed with its key (RFC 7523; RFC 7515, RS256).

The signature needs `cryptography`, which is in the extra `vertex`.
"""

import time
from typing import Final

from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.core.signed_claims import CryptographyMissing, load_private_key, signed_claims

LIFE_S: Final = 3600.0
"""The longest that Google takes."""


def signed_assertion(email: str, private_key: str, key_id: str | None, url: str, scope: str, place: str) -> str:
    """Return an assertion. Blocking.

    Args:
        email: Of the account.
        private_key: An RSA key in PEM.
        key_id: Of the key, if it has one.
        url: Whom it is for.
        scope: What a token is wanted for.
        place: Where the key is, for users.

    Raises:
        LoginFailed: The key can't sign, or `cryptography` is missing.
    """
    now_s = int(time.time())
    head = {"alg": "RS256", "typ": "JWT", **({"kid": key_id} if key_id is not None else {})}
    claims = {"iss": email, "sub": email, "scope": scope, "aud": url, "iat": now_s, "exp": now_s + int(LIFE_S)}
    return signed_claims(head, claims, lambda data: _signature(private_key, place, data))


def _signature(private_key: str, place: str, data: bytes) -> bytes:
    try:
        key = load_private_key(private_key, "vertex")
    except CryptographyMissing as missing:
        text = "a service account of Google signs with the package cryptography, of the extra `vertex`"
        raise LoginFailed(f"{text}: {missing}") from None
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    if not isinstance(key, RSAPrivateKey):
        raise LoginFailed(f"{place}: private_key must be an RSA key in PEM")
    return key.sign(data, PKCS1v15(), hashes.SHA256())
