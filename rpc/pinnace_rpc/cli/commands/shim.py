"""`pinnace shim DIR`: writes `pi` and `cli.js` that start pinnace, for clients that look for these names.

Both start the Python that wrote them, and answer `--version` as pi would (`cli.pi`). Neither lets the folder they are
started in into Python's module path, since an agent is started in folders of other projects. A file that is not a shim
is replaced only with `--force`.
"""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, parse
from pinnace_rpc.options.streams import echo

# In every shim, so that a later run recognises it.
MARK: Final = "Made by `pinnace shim`"

_SH: Final = """\
#!/bin/sh
# {mark}: starts pinnace in the place of pi.
exec {command} "$@"
"""

# `import()` works in CommonJS and in ES modules: the folder of this file decides which of them it is. A terminal sends
# SIGINT and similar signals to every process of the group, so the child gets them by itself.
_JS: Final = """\
#!/usr/bin/env node
// {mark}: starts pinnace in the place of pi, forwards signals and exits as it exits.
const modules = [import("node:child_process"), import("node:tty"), import("node:os")];
Promise.all(modules).then(([children, tty, os]) => {{
  const [program, ...words] = {command};
  const child = children.spawn(program, [...words, ...process.argv.slice(2)], {{ stdio: "inherit" }});
  const shared = tty.isatty(0) ? ["SIGHUP", "SIGINT", "SIGQUIT"] : [];
  const signals = ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"];
  const pass = (name) => {{
    if (!shared.includes(name)) child.kill(name);
  }};
  for (const name of signals) process.on(name, pass);
  child.on("error", (error) => {{
    process.stderr.write(`pinnace: ${{program}} can't be started: ${{error.code}}\\n`);
    process.exit(127);
  }});
  child.on("exit", (code, signal) => {{
    for (const name of signals) process.off(name, pass);
    if (signal === null) process.exit(code);
    process.kill(process.pid, signal);
    // A signal that does not end this process must not leave it behind.
    setTimeout(() => process.exit(128 + os.constants.signals[signal]), 1000);
  }});
}});
"""


COMMAND: Final = Subcommand(
    "pinnace shim",
    "Write `pi` and `cli.js` into DIR: both start pinnace.",
    [Option(("--force",), "is_forced", "Replace files that are not shims.")],
    [Argument("folder", "DIR")],
)


class ForeignFile(Exception):
    """A file of that name exists and is not a shim."""


def main(words: Sequence[str]) -> int:
    """Run `pinnace shim` with these words and return the exit code."""
    given = parse(COMMAND, words)
    folder = Path(given["folder"])
    try:
        paths = write_shims(folder, is_forced=given["is_forced"])
    except ForeignFile as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from None
    for path in paths:
        echo(path)
    return 0


def write_shims(folder: Path, *, is_forced: bool = False) -> list[Path]:
    """Write both files into a folder, which is made if need be, and return their paths.

    Nothing is written unless both can be. Each file is replaced as a whole; a link is replaced, not followed.

    Raises:
        ForeignFile: A file that is not a shim exists and `is_forced` is not set.
        OSError: The folder or a file can't be written.
    """
    command = [sys.executable, "-P", "-m", "pinnace_rpc.cli.pi"]
    contents = {
        folder / "pi": _SH.format(mark=MARK, command=shlex.join(command)),
        folder / "cli.js": _JS.format(mark=MARK, command=json.dumps(command)),
    }
    if not is_forced:
        for path in contents:
            if not _is_ours(path):
                raise ForeignFile(f"{path} exists and is not a shim; --force replaces it")
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        _replace(path, content)
    return list(contents)


def _is_ours(path: Path) -> bool:
    """Return whether there is nothing at a path, or a shim."""
    if path.is_symlink():
        return False
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(1024)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _replace(path: Path, content: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
