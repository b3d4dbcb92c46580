"""The texts that the client and the disk had in common: which of the two counts when they differ.

A command writes the disk, and the client may go on showing what the disk held before. Its text is then nothing that
the user has typed, so the disk counts. A text that the disk never held is the user's, and the client counts. Only
digests are kept. Rule R-FIL-06.
"""

import hashlib
from collections import OrderedDict
from typing import Final

MAX_FILES: Final = 10_000
"""The files that are remembered: about 1 MB. Of more, those are forgotten whose text was taken least recently."""


class CommonTexts:
    """What the client and the disk had in common, of the files of one process."""

    def __init__(self) -> None:
        """Know of no file."""
        self._digests: OrderedDict[str, bytes] = OrderedDict()

    def is_outdated(self, path: str, served: bytes, stored: bytes | None) -> bool:
        """Return whether the client's text is what the disk held before, and the disk has another one or none now.

        Takes notice of a text that both have.

        Args:
            path: The real path of the file.
            served: What the client has.
            stored: What the disk has; None: nothing.
        """
        if served == stored:
            self._take(path, served)
            return False
        return self._digests.get(path) == _digest(served)

    def written(self, path: str, text: bytes, stored: bytes | None) -> None:
        """Take notice that the client has written a text, which the disk may have now.

        Args:
            path: The real path of the file.
            text: What the client has.
            stored: What the disk has; None: it has no such file.
        """
        if stored == text:
            self._take(path, text)
        else:
            self._digests.pop(path, None)  # what the client has was never on the disk

    def _take(self, path: str, text: bytes) -> None:
        self._digests[path] = _digest(text)
        self._digests.move_to_end(path)
        if len(self._digests) > MAX_FILES:
            self._digests.popitem(last=False)


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
