"""Recognises content that is no text, and names it: a model gets its kind and size in the place of its bytes.

By content alone, never by name. Pure. Rule R-TOL-11.
"""

from typing import Final

from pinnace_agent.shell.truncation import format_size

HEAD_BYTES: Final = 4096
"""What is looked at: text has no NUL there."""
_MOST_CONTROLS: Final = 0.1
"""The share of control characters in a text: more is data, also without a NUL, unless there are only a few."""
_FEW_CONTROLS: Final = 16

_KINDS: Final = (
    (b"\x7fELF", "ELF program or library"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive, or a document in one"),
    (b"PK\x05\x06", "empty ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"II*\x00", "TIFF image"),
    (b"MM\x00*", "TIFF image"),
    (b"\x00asm", "WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"PAR1", "Parquet data"),
)
# Kinds whose first bytes could also begin a text: they count only if the rest is no text either.
_AMBIGUOUS: Final = frozenset({b"BZh", b"ID3", b"OggS", b"fLaC", b"wOFF", b"wOF2", b"PAR1", b"%PDF-"})
_WIDE: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_TEXT_BYTES: Final = bytes(code for code in range(0x100) if code >= 0x20 or code in b"\b\t\n\f\r\x1b")


def binary_kind(head: bytes) -> str | None:
    """Return what content is that begins with `head`, if it is no text in an encoding that contains ASCII; else None.

    Text in UTF-16 or UTF-32 is named as such.
    """
    head = head[:HEAD_BYTES]
    controls = len(head.translate(None, _TEXT_BYTES))
    is_data = b"\0" in head or controls > max(_FEW_CONTROLS, _MOST_CONTROLS * len(head))
    for magic, kind in _KINDS:
        if head.startswith(magic) and (magic not in _AMBIGUOUS or is_data or not _is_utf8(head)):
            return kind
    for mark, encoding in _WIDE:
        if is_data and head.startswith(mark):
            return f"text in {encoding}"
    return "unknown kind" if is_data else None


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3  # a character that is cut
    return True


def binary_text(kind: str, size: int, advice: str) -> str:
    """Return the notice that stands in the place of such content."""
    return f"[Binary file: {kind}, {format_size(size)}. Its bytes are not shown{advice}.]"
