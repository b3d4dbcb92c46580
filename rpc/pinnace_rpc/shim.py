"""`pinnace shim DIR`: writes `pi` and `cli.js` that start pinnace, for clients that look for these names.

Both start the Python that wrote them. Neither lets the folder they are started in into Python's module path,
since an agent is started in other people's folders. A file that is no shim is never replaced unless told to.
"""

import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Final

# In every shim, so that a later run knows its own.
MARK: Final = "Made by `pinnace shim`"

_SH: Final = """\
#!/bin/sh
# {mark}: starts pinnace in the place of pi.
exec {command} "$@"
"""

# `import()` works in CommonJS and in modules alike: which of them this file is depends on the folder it is
# put in. A terminal sends SIGINT and its kin to every process of the group, so there the child has them
# already.
_JS: Final = """\
#!/usr/bin/env node
// {mark}: starts pinnace in the place of pi, passes signals on and leaves as it leaves.
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


class ForeignFile(Exception):
    """A file of that name is there and was not made here."""


def write_shims(folder: Path, *, is_forced: bool = False) -> list[Path]:
    """Write both files into a folder, which is made if need be, and return their paths.

    Nothing is written unless both can be. Each file is replaced as a whole; a link is replaced, not followed.

    Raises:
        ForeignFile: A file is in the way and `is_forced` is not set.
        OSError: The folder or a file can't be written.
    """
    command = [sys.executable, "-P", "-m", "pinnace_rpc"]
    contents = {
        folder / "pi": _SH.format(mark=MARK, command=shlex.join(command)),
        folder / "cli.js": _JS.format(mark=MARK, command=json.dumps(command)),
    }
    if not is_forced:
        for path in contents:
            if not _is_ours(path):
                raise ForeignFile(f"{path} is there and is no shim; --force replaces it")
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        _replace(path, content)
    return list(contents)


def _is_ours(path: Path) -> bool:
    """Tell whether there is nothing at a path, or a shim."""
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
