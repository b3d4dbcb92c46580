"""Edits a text in the user's own editor, which has the terminal meanwhile. Must not know widgets."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def editor_program() -> str:
    """Return the command line of the user's own editor."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "nano"


def edited(program: str, content: str) -> tuple[str, str]:
    """Return a text as a program has changed it, and what has failed; the text is then as it was.

    Raises nothing: what lends the terminal to the program does not take it back after an exception.
    """
    try:
        return _edited(program, content), ""
    except subprocess.CalledProcessError as error:
        return content, f"it has ended with exit code {error.returncode}"
    except (OSError, ValueError) as error:  # not started, or no text in UTF-8 is left
        return content, str(error)


def _edited(program: str, content: str) -> str:
    with tempfile.TemporaryDirectory(prefix="pinnace-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(content, "utf-8")
        subprocess.run([*shlex.split(program), str(path)], check=True)
        return path.read_text("utf-8").removesuffix("\n")
