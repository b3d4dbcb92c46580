"""What a page shows, as the session file that it came from: JSON lines, packed into an address that downloads them.

gzip, since the page would else hold everything twice; its script unpacks before saving, where scripts run. The same
entries always give the same address.
"""

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pinnace_spec.entries import CURRENT_VERSION, Entry
from pinnace_spec.wire import encode_record

_GZIP: Final = 16 + zlib.MAX_WBITS


def packed(header: Mapping[str, object], entries: Sequence[Entry], check: Callable[[], object]) -> str:
    """Return the base64 of a gzip file: the header and the entries as lines; `check` is called before each."""
    packer = zlib.compressobj(wbits=_GZIP)
    version = header.get("version")
    lines = [{"type": "session", **header, "version": version if isinstance(version, int) else CURRENT_VERSION}]
    pieces: list[bytes] = []
    for line in (*lines, *entries):
        check()
        pieces.append(packer.compress(encode_record(line)))
    pieces.append(packer.flush())
    return base64.b64encode(b"".join(pieces)).decode()
