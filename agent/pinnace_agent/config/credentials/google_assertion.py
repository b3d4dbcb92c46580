"""What a service account of Google says of itself, signed with its key (RFC 7523; RFC 7515, RS256).

The signature needs `cryptography`, which has compiled parts: it is the extra `vertex`, loaded for service accounts
alone. The packages without compiled parts that sign with RSA are no longer maintained, or warn that their timing
reveals the key.
"""

import base64
import json
import time
from typing import Final

from pinnace_agent.config.credentials.logins import LoginFailed

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
    signed = b".".join(_encoded(json.dumps(each, separators=(",", ":")).encode()) for each in (head, claims))
    return b".".join((signed, _encoded(_signature(private_key, place, signed)))).decode()


def _signature(private_key: str, place: str, data: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        from pinnace_agent.core.installing import how_to_install

        text = "a service account of Google signs with the package cryptography, of the extra `vertex`"
        raise LoginFailed(f"{text}: {how_to_install('vertex')}") from None
    try:
        key = load_pem_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError):  # their texts may quote the key
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise LoginFailed(f"{place}: private_key must be an RSA key in PEM") from None
    return key.sign(data, PKCS1v15(), hashes.SHA256())


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
