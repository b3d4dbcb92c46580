"""Takes pictures from the clipboard, and paths of files that a terminal pastes when they are dragged into it.

Programs of the desktop read the clipboard; over a connection to another machine there are none. Must not know widgets.
"""

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_READERS: Final = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
_READ_S: Final = 5.0
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MOST_PASTED_CHARS: Final = 4096


def read_picture() -> str | None:
    """Return the path of a new file with the picture of the clipboard; None: there is none, or no program to read it.

    The file is for this user alone, in the folder of temporary files; it stays, since the agent reads it later.
    """
    for command in _READERS:
        if shutil.which(command[0]) is None:
            continue
        try:
            read = subprocess.run(command, capture_output=True, timeout=_READ_S, check=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError):
            continue
        if read.stdout.startswith(_PNG):
            with tempfile.NamedTemporaryFile(prefix="pinnace-clipboard-", suffix=".png", delete=False) as file:
                file.write(read.stdout)
            return file.name
    return None


def as_files(pasted: str, folder: str) -> str | None:
    """Return pasted paths of files that exist as `@` files, relative to a folder if they are in it; None: other text.

    Terminals quote or escape the paths of files that are dragged into them, or paste `file:` URLs.
    """
    if len(pasted) > _MOST_PASTED_CHARS or not pasted.lstrip().startswith(("/", "'/", '"/', "file:///")):
        return None
    try:
        words = shlex.split(pasted)
        paths = [Path(unquote(urlsplit(word).path) if word.startswith("file:///") else word) for word in words]
        if not all(path.is_absolute() and path.exists() for path in paths):
            return None
    except (OSError, ValueError):
        return None
    return "".join(f"{_word(path, Path(folder))} " for path in paths)


def _word(path: Path, folder: Path) -> str:
    shown = str(path.relative_to(folder) if path.is_relative_to(folder) else path)
    return f"@{shown}" if not any(map(str.isspace, shown)) else f'@"{shown}"'
