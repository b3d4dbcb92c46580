"""What the agent writes for people and clients goes through the few places that redact it.

stdout and stderr: `sys.stdout` and `sys.stderr`, which `redact_streams` has replaced, `stdio.write_stderr` and the
outbox. Sessions and exports: `session/store/file`, `session/library`, `session/opening`, `export/exporting`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).parents[1]
ROOTS: Final = ("agent/pinnace_agent", "rpc/pinnace_rpc", "rpc/pinnace", "statechart/pinnace_statechart")
# Programs of their own, which load no key, and the client's side of the protocol.
OTHER_PROGRAMS: Final = ("agent/pinnace_agent/search/program.py", "rpc/pinnace_rpc/client/")
# Who writes bytes to a descriptor, and why it needs no redaction, or where it is done.
DESCRIPTOR_WRITERS: Final = {
    "agent/pinnace_agent/shell/output.py": "the output of a command, byte for byte, in a file of the user's alone",
    "agent/pinnace_agent/sandbox/launcher.py": "a pipe to bubblewrap: the filter of system calls",
    "agent/pinnace_agent/shell/watchdog.py": "a pipe to the watchdog: numbers of processes",
    "agent/pinnace_agent/sandbox/gate.py": "one byte that lets a program go on",
    "agent/pinnace_agent/sandbox/landlock_program.py": "to the agent that it runs, and to stderr as a shell would",
    "agent/pinnace_agent/mcp/relay_program.py": "to the agent that it runs for: what a server of the editor answers",
    "agent/pinnace_agent/mcp/extension.py": "what servers log, redacted",
    "agent/pinnace_agent/node_extensions/blocking.py": "a pipe to extensions, which have all rights of the process",
    "agent/pinnace_agent/node_extensions/process.py": "a pipe to extensions, which have all rights of the process",
    "agent/pinnace_agent/session/store/append_file.py": "lines that session/file has redacted",
    "agent/pinnace_agent/session/store/lease.py": "who has a session open",
    "agent/pinnace_agent/session/store/quarantine.py": "a copy of what was in a session file",
    "agent/pinnace_agent/files/atomic_file.py": "what its importers have redacted, or a copy of a file of the user's",
    "rpc/pinnace_rpc/batch/coordinator.py": "a constant text, in a handler of signals",
    "rpc/pinnace_rpc/attach/pump.py": "what an agent has redacted, byte for byte",
    "rpc/pinnace_rpc/embedded/thread.py": "one byte that wakes the loop of a program",
    "rpc/pinnace_rpc/host/details.py": "what the host keeps about an agent; no key is known to it",
    "rpc/pinnace_rpc/host/agents/process.py": "the stdin of an agent: commands of its clients, byte for byte",
    "rpc/pinnace_rpc/host/sockets.py": "records that the agent has redacted",
    "rpc/pinnace_rpc/host/journal.py": "records that the agent has redacted",
    "rpc/pinnace_rpc/host/table.py": "ids of commands, and responses that the agent has redacted",
    "rpc/pinnace_rpc/host/locations.py": "who is the host of an agent folder",
    "rpc/pinnace_rpc/server/last_resort.py": "a pipe to a thread",
    "rpc/pinnace_rpc/subagents/process.py": "a pipe to a sub-agent: the key of the command line",
    "rpc/pinnace_rpc/server/stdio.py": "stderr, redacted in write_stderr; stdout, redacted by the outbox",
}
# The importers of what writes whole files. Those of sessions and exports redact the bytes; the others write neither.
FILE_MAKERS: Final = {
    "pinnace_agent.files.atomic_file": {
        "agent/pinnace_agent/session/library.py",
        "agent/pinnace_agent/session/archive.py",  # the ids of sessions
        "agent/pinnace_agent/session/opening.py",
        "agent/pinnace_agent/export/exporting.py",
        "agent/pinnace_agent/files/json_file.py",  # settings, logins and decisions of the user
        "agent/pinnace_agent/files/tool_calls.py",  # what the model's tools write
        "rpc/pinnace_rpc/results/collector.py",  # results, which it redacts
    },
}


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    paths = [path for root in ROOTS for path in sorted((REPOSITORY / root).rglob("*.py"))]
    names = {path.relative_to(REPOSITORY).as_posix(): path for path in paths}
    return {name: ast.parse(path.read_text()) for name, path in names.items() if not name.startswith(OTHER_PROGRAMS)}


def called(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with what is called, as it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def around(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield what goes around the writers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name not in FILE_MAKERS.get(node.module or "", {name}):
            yield f"{name}:{node.lineno}: an import of {node.module}"
        if isinstance(node, ast.Attribute) and node.attr in {"__stdout__", "__stderr__"}:
            yield f"{name}:{node.lineno}: the stream of the interpreter itself"
    for function, call in called(tree):
        place = f"{name}:{call.lineno}"
        if function == "print":
            yield f"{place}: print"
        module, _, verb = function.rpartition(".")
        # The system of an agent has the functions of `os` (core/ports/system.py).
        is_descriptor = module == "os" or module.endswith(("_system", "system()"))
        if is_descriptor and verb in {"write", "writev", "pwrite"} and name not in DESCRIPTOR_WRITERS:
            yield f"{place}: {function}"
        if function in {"open", "os.open", "os.fdopen", "io.open"} and call.args:
            target = ast.unparse(call.args[0])
            if (
                target in {"1", "2", "sys.stdout.fileno()", "sys.stderr.fileno()"}
                and name != "rpc/pinnace_rpc/cli/main.py"
            ):
                yield f"{place}: {function}({target})"
        if (
            function.endswith(("StreamHandler", "FileHandler", "basicConfig"))
            and name != "rpc/pinnace_rpc/server/log_file.py"
        ):
            yield f"{place}: {function}"


def test_nothing_is_written_around_the_writers_that_redact(modules: dict[str, ast.Module]) -> None:
    assert [] == [each for name, tree in modules.items() for each in around(name, tree)]


@pytest.mark.parametrize(
    "line",
    [
        "print('x')",
        "os.write(2, b'x')",
        "system().write(2, b'x')",
        "self._system.pwrite(2, b'x', 0)",
        "sys.__stderr__.write('x')",
        "os.fdopen(1, 'w')",
        "logging.StreamHandler()",
        "from pinnace_agent.files.atomic_file import create_file",
    ],
)
def test_what_goes_around_them_is_found(line: str) -> None:
    assert [*around("rpc/pinnace_rpc/other.py", ast.parse(line))]


def test_those_that_make_session_files_and_exports_ask_the_redactor(modules: dict[str, ast.Module]) -> None:
    makers = {"agent/pinnace_agent/session/store/file.py", "agent/pinnace_agent/session/library.py"}
    makers |= {"agent/pinnace_agent/session/opening.py", "agent/pinnace_agent/export/source.py"}
    makers |= {"rpc/pinnace_rpc/results/collector.py"}

    asked = {name for name, tree in modules.items() for function, _ in called(tree) if function == "REDACTOR.line"}
    assert makers | {"rpc/pinnace_rpc/server/outbox.py", "rpc/pinnace_rpc/server/log_file.py"} <= asked


def test_the_streams_are_replaced_before_anything_else_is_done(modules: dict[str, ast.Module]) -> None:
    main = next(each for each in modules["rpc/pinnace_rpc/cli/main.py"].body if getattr(each, "name", "") == "main")
    statements = [ast.unparse(each) for each in main.body]  # type: ignore[attr-defined]  # a function has a body

    assert statements.index("redact_streams()") <= 2
