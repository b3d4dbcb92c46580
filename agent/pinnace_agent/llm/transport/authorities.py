"""The certificate authorities that the environment names, beside those of the HTTP library.

Decides which files are read, and what is wrong with them. `NODE_EXTRA_CA_CERTS` names more authorities, as for pi; a
file that can't be read is passed over, as node does, and a start says so. Reads files, so it belongs into a thread.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # for annotations alone
    import ssl

EXTRA_VARIABLE: Final = "NODE_EXTRA_CA_CERTS"

_FILE_VARIABLE: Final = "SSL_CERT_FILE"
_FOLDER_VARIABLE: Final = "SSL_CERT_DIR"


def add_ca_certificates(context: "ssl.SSLContext") -> "ssl.SSLContext":
    """Add the authorities of the environment that httpx does not read itself to a context, and return it.

    httpx takes the file of `SSL_CERT_FILE` or, without one, the folder of `SSL_CERT_DIR` in the place of those that
    come with it.
    """
    folder = os.environ.get(_FOLDER_VARIABLE)
    if folder and os.environ.get(_FILE_VARIABLE):
        context.load_verify_locations(capath=folder)
    _add_extra(context, os.environ)
    return context


def authorities_problem(env: Mapping[str, str]) -> str | None:
    """Return why the file of `NODE_EXTRA_CA_CERTS` is not used, for the user; None: it is, or there is none."""
    import ssl

    return _add_extra(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), env)


def _add_extra(context: "ssl.SSLContext", env: Mapping[str, str]) -> str | None:
    extra = env.get(EXTRA_VARIABLE)
    if not extra:
        return None
    try:
        context.load_verify_locations(cafile=extra)
    except OSError as error:  # also what ssl raises
        return f"{EXTRA_VARIABLE}: the certificates of {extra} are not used: {error.strerror or error}"
    return None
