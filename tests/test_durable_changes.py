"""What a host and a session keep is changed through the port of the system, where a simulated disk sees it.

Reads are not in the port, nor are locks (`core/ports/system.py`).
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).parents[1]
# Where durable state is kept: the host, the sessions, and what an adapter deletes of both.
DURABLE: Final = (
    "agent/pinnace_agent/session/**/*.py",
    "rpc/pinnace_rpc/host/*.py",
    "rpc/pinnace_rpc/acp/hosted.py",
    "rpc/pinnace_rpc/acp/library.py",
)
# What is no state of agents and sessions, by what is called.
EXCEPTIONS: Final = {
    "agent/pinnace_agent/session/store/lease.py": {"os.pwrite", "os.ftruncate"},  # what a lease says to people
    "rpc/pinnace_rpc/host/locations.py": {"os.pwrite", "os.ftruncate"},  # who holds the lock of a host
    "rpc/pinnace_rpc/host/sockets.py": {"os.unlink"},  # the socket's file
}
CHANGES: Final = frozenset(
    {
        *("write", "pwrite", "truncate", "ftruncate", "fsync", "fdatasync"),
        *("rename", "renames", "replace", "link", "symlink", "unlink", "remove", "removedirs"),
        *("mkdir", "makedirs", "rmdir"),
    }
)
OF_PATHS: Final = frozenset({"write_text", "write_bytes", "touch", "hardlink_to", "symlink_to"})


def changes(source: str) -> Iterator[str]:
    """Yield the calls that change what is on a disk and don't go through the port."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            above, name = ast.unparse(node.func.value), node.func.attr
            # A path's methods have names of their own, or no argument where `str.replace` has two.
            is_of_path = name in OF_PATHS or above.startswith(("Path(", "pathlib.Path("))
            if (above == "os" and name in CHANGES) or above == "shutil" or (is_of_path and name in CHANGES | OF_PATHS):
                yield f"{above}.{name}"


def durable() -> dict[str, set[str]]:
    paths = [path for pattern in DURABLE for path in REPOSITORY.glob(pattern)]
    return {path.relative_to(REPOSITORY).as_posix(): set(changes(path.read_text())) for path in paths}


def test_durable_state_is_changed_through_the_port_alone() -> None:
    found = durable()
    assert len(found) > len(DURABLE)
    assert EXCEPTIONS == {name: calls for name, calls in found.items() if calls}


@pytest.mark.parametrize(
    "call", ["os.unlink(p)", "shutil.rmtree(p)", "Path(p).unlink()", "p.write_text('')", "os.replace(p, q)"]
)
def test_a_change_beside_the_port_is_recognised(call: str) -> None:
    assert list(changes(call))


@pytest.mark.parametrize("call", ["system.unlink(p)", "text.replace('a', 'b')", "os.open(p, f)", "file.write(b'')"])
def test_what_changes_nothing_or_goes_through_it_is_not_taken_for_one(call: str) -> None:
    assert not list(changes(call))
