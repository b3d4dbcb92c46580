"""Whose certificates are believed.

Decides it from the environment. `SSL_CERT_FILE` and `SSL_CERT_DIR` name authorities in the place of those that come
with the HTTP client, as for other programs; `NODE_EXTRA_CA_CERTS` names more of them, as for pi. Reads files, so it
belongs into a thread. Must not know what the certificates are checked for.
"""

import logging
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

FILE_VARIABLE: Final = "SSL_CERT_FILE"
FOLDER_VARIABLE: Final = "SSL_CERT_DIR"
EXTRA_VARIABLE: Final = "NODE_EXTRA_CA_CERTS"

_log: Final = logging.getLogger("pinnace.certificates")


def believe_more(context: "ssl.SSLContext") -> "ssl.SSLContext":
    """Add to a context what the HTTP client does not look for itself, and return it.

    The client takes the file or, without one, the folder. A file that only adds to the usual ones is passed over if it
    cannot be read, with a warning, as node does.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and os.environ.get(FILE_VARIABLE):
        context.load_verify_locations(capath=folder)
    if extra := os.environ.get(EXTRA_VARIABLE):
        try:
            context.load_verify_locations(cafile=extra)
        except OSError as error:  # also what ssl raises
            _log.warning("The certificates of %s are not used: %s: %s", EXTRA_VARIABLE, extra, error.strerror or error)
    return context
