"""Irregular files: each tool rejects them with a text that a model can act on, and changes nothing.

The path of a call is `x`, or `x/f` where `x` should be a folder; for bash `x` is the working folder. In the texts `{}`
is the folder of `x`.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_agent.tools import builtin_tools
from pinnace_agent.tools.base import ToolContext, ToolError
from pinnace_agent.tools.validation import validate_arguments

NOBODY = 65534
TIMEOUT_S = 60.0

ARGUMENTS: dict[str, dict[str, object]] = {
    "read": {},
    "write": {"content": "new"},
    "edit": {"edits": [{"oldText": "old", "newText": "new"}]},
    "grep": {"pattern": "old"},
    "find": {"pattern": "*"},
    "ls": {},
    "bash": {"command": "echo ran"},
}
NO_CONTENT = "Not a file with content, but a pipe, socket or device: {}/x"
NO_FOLDER = "Not a directory: {}/x"
NO_PATH = "Path not found: {}/x"
NO_CWD = "Working directory does not exist: {}/x\nCannot execute bash commands."
OF_NO_CONTENT = {
    "read": NO_CONTENT,
    "edit": "Could not edit file: x. Error code: EINVAL. It is not a file with content, but a pipe, socket or device.",
    "grep": NO_CONTENT,
    "find": NO_FOLDER,
    "ls": NO_FOLDER,
    "bash": NO_CWD,
}
NO_READER = "ENXIO: no such device or address, open '{}/x'. It is a pipe without a reader, or a socket"
OF_A_FILE = {"find": NO_FOLDER, "ls": NO_FOLDER, "bash": NO_CWD}
OF_NOTHING = {"grep": NO_PATH, "find": NO_PATH, "ls": NO_PATH, "bash": NO_CWD}
OF_A_LOOP = "ELOOP: too many symbolic links encountered, {} '{{}}/x'"

OUTCOMES: dict[str, dict[str, str]] = {
    "missing": {
        **OF_NOTHING,
        "read": "ENOENT: no such file or directory, access '{}/x'",
        "write": "Successfully wrote to x",
        "edit": "Could not edit file: x. Error code: ENOENT.",
    },
    "a link to nothing": {
        **OF_NOTHING,
        "read": "ENOENT: no such file or directory, access '{}/x'",
        "write": "ENOENT: no such file or directory, open '{}/x'",
        "edit": "Could not edit file: x. Error code: ENOENT.",
    },
    "a link to itself": {
        **OF_NOTHING,
        "read": OF_A_LOOP.format("access"),
        "write": OF_A_LOOP.format("realpath"),
        "edit": OF_A_LOOP.format("realpath"),
    },
    "a folder": {
        "read": "EISDIR: illegal operation on a directory, read",
        "write": "EISDIR: illegal operation on a directory, open '{}/x'",
        "edit": "EISDIR: illegal operation on a directory, read",
        "grep": "No matches found",
        "find": "No files found matching pattern",
        "ls": "(empty directory)",
        "bash": "ran\n",
    },
    "below a file": {
        **OF_A_FILE,
        "read": "ENOTDIR: not a directory, access '{}/x/f'",
        "write": "EEXIST: file already exists, mkdir '{}/x'",
        "edit": "Could not edit file: x/f. Error code: ENOTDIR.",
        "grep": "Path not found: {}/x/f",
        "find": "Path not found: {}/x/f",
        "ls": "Path not found: {}/x/f",
    },
    "a pipe": {**OF_NO_CONTENT, "write": NO_READER},
    "a socket": {**OF_NO_CONTENT, "write": NO_READER},
    "a device": {**OF_NO_CONTENT, "write": "Successfully wrote to x"},
    "binary": {
        **OF_A_FILE,
        "read": (
            "[Binary file: unknown kind, 11B. Its bytes are not shown. Use bash to look into it, e.g. file or strings.]"
        ),
        "write": "Successfully wrote to x",
        "edit": "Successfully replaced 1 block(s) in x.",
        "grep": "x:1: ␀␁old",
    },
    "no UTF-8": {
        **OF_A_FILE,
        "read": "caf\ufffd old\n",
        "write": "Successfully wrote to x",
        "edit": "Successfully replaced 1 block(s) in x.",
        "grep": "x:1: caf\ufffd old",
    },
}
# What only a user without all rights meets.
REFUSALS: dict[str, dict[str, str]] = {
    "unreadable": {
        **OF_A_FILE,
        "read": "EACCES: permission denied, access '{}/x'",
        "write": "EACCES: permission denied, open '{}/x'",
        "edit": "Could not edit file: x. Error code: EACCES.",
        "grep": "{}/x: Permission denied (os error 13)",
    },
    "read-only": {
        **OF_A_FILE,
        "read": "old\n",
        "write": "EACCES: permission denied, open '{}/x'",
        "edit": "Could not edit file: x. Error code: EACCES.",
        "grep": "x:1: old",
    },
    "in a closed folder": {
        "read": "EACCES: permission denied, access '{}/x/f'",
        "write": "EACCES: permission denied, realpath '{}/x/f'",
        "edit": "EACCES: permission denied, realpath '{}/x/f'",
        "grep": "Path not found: {}/x/f",
        "find": "Path not found: {}/x/f",
        "ls": "Path not found: {}/x/f",
        "bash": "Cannot start /bin/bash: [Errno 13] Permission denied: '{}/x'",
    },
}


def make(kind: str, path: Path) -> None:
    match kind:
        case "missing":
            pass
        case "a link to nothing":
            path.symlink_to("gone/away")
        case "a link to itself":
            path.symlink_to("x")
        case "a folder":
            path.mkdir()
        case "below a file":
            path.touch()
        case "a pipe":
            os.mkfifo(path)
        case "a socket":
            # By a relative name: absolute ones may be too long for a socket.
            here = os.open(".", os.O_RDONLY)
            os.chdir(path.parent)
            try:
                with socket.socket(socket.AF_UNIX) as made:
                    made.bind(path.name)
            finally:
                os.fchdir(here)
                os.close(here)
        case "a device":
            path.symlink_to("/dev/null")
        case "binary":
            path.write_bytes(b"\0\1old\n\x7fELF\n")
        case "no UTF-8":
            path.write_bytes(b"caf\xe9 old\n")
        case "unreadable" | "read-only":
            path.write_text("old\n")
            path.chmod(0 if kind == "unreadable" else 0o444)
        case "in a closed folder":
            path.mkdir()
            (path / "f").write_text("old\n")
            path.chmod(0)
        case _:
            raise ValueError(kind)


async def outcome(tool_name: str, kind: str, folder: Path) -> str:
    """Return the text of a call, whether it succeeds or is refused."""
    make(kind, folder / "x")
    tool = builtin_tools()[tool_name]
    context = ToolContext(str(folder / "x" if tool_name == "bash" else folder), "c1", lambda _: None, dict(os.environ))
    path = "x/f" if kind in ("below a file", "in a closed folder") else "x"
    try:
        arguments = validate_arguments(tool, {"path": path, **ARGUMENTS[tool_name]})
        (block,) = (await tool.execute(arguments, context)).content
    except ToolError as error:
        return str(error).replace(str(folder), "{}")
    assert block["type"] == "text"
    return block["text"]


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("kind", OUTCOMES)
async def test_irregular_files_are_rejected_by_each_tool(kind: str, tool: str, tmp_path: Path) -> None:
    expected = OUTCOMES[kind][tool]
    with trio.fail_after(30):
        assert await outcome(tool, kind, tmp_path) == expected
    is_changed = expected.startswith("Successfully") and kind != "a device"
    assert os.listdir(tmp_path) == (["x"] if kind != "missing" or is_changed else [])
    if is_changed and tool == "edit":
        assert (tmp_path / "x").read_bytes() == {
            "binary": b"\0\1new\n\x7fELF\n",
            "no UTF-8": b"caf\xe9 new\n",
        }[kind]


async def outcomes_for_others() -> dict[str, str]:
    """Return what each tool says of each kind of `REFUSALS`, in folders of its own."""
    found: dict[str, str] = {}
    for kind in REFUSALS:
        for tool in ARGUMENTS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found[f"{kind}: {tool}"] = await outcome(tool, kind, Path(folder))
                finally:
                    (Path(folder) / "x").chmod(0o700)
    return found


def main() -> None:
    """Print the outcomes for a user without rights; what is imported on the way may be readable for root alone."""
    if os.geteuid() == 0:
        trio.run(outcomes_for_others)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    print(json.dumps(trio.run(outcomes_for_others)))


def test_missing_permissions_are_reported() -> None:
    if shutil.which("rg") is None:
        pytest.skip("there is no ripgrep that every user may run")
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{PYTHONPATH}", "TMPDIR": "/tmp"},
        cwd="/",
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=True,
    )

    expected = {f"{kind}: {tool}": text for kind, texts in REFUSALS.items() for tool, text in texts.items()}
    assert json.loads(done.stdout) == expected


if __name__ == "__main__":
    main()
