"""Signed claims in the compact form of RFC 7515, with a private key in PEM.

Keys are read with `cryptography`, which has compiled parts: it is in extras, and loaded with the first key. The
packages without compiled parts that sign with RSA are no longer maintained, or warn that their timing reveals the key.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for annotations alone
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


class CryptographyMissing(Exception):
    """`cryptography` is not installed; the text says how to install it."""


def load_private_key(pem: str, extra: str) -> "PrivateKeyTypes | None":
    """Return a key; None: the text is no key in PEM, or one of a kind that is not known. Blocking.

    Args:
        pem: The key.
        extra: Of this program, which brings `cryptography`.

    Raises:
        CryptographyMissing: It is not installed.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        from pinnace_agent.core.installing import how_to_install

        raise CryptographyMissing(how_to_install(extra)) from None
    try:
        return serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their texts may quote the key
        return None


def signed_claims(head: Mapping[str, object], claims: Mapping[str, object], sign: Callable[[bytes], bytes]) -> str:
    """Return claims behind their head, with the signature that `sign` makes of both."""
    signed = ".".join(base64url(json.dumps(each, separators=(",", ":")).encode()) for each in (head, claims))
    return f"{signed}.{base64url(sign(signed.encode()))}"


def base64url(data: bytes) -> str:
    """Return bytes in base64 as it is in addresses, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
