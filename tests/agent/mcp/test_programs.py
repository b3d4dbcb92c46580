"""What programs as servers answer that is odd: it is read as far as it can be, and said in one line."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

pytest.importorskip("mcp")

from tests.source_tree import REPOSITORY

from pinnace_agent.config.server_entries import read_entry
from pinnace_agent.mcp.launching import Environment
from pinnace_agent.mcp.opening import load_library, open_link
from pinnace_agent.mcp.ports import LinkLost, ServerError, ServerHooks, ServerLink
from pinnace_agent.mcp.server import Server
from pinnace_agent.mcp.wire.stdio import telling_line

HOSTILE = str(REPOSITORY / "tests" / "rpc" / "mcp" / "hostile_server.py")


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    load_library()


def drop(_said: object) -> None:
    """Take what a server reports."""


async def served(mode: str, tmp_path: Path, use: Callable[[Server], Awaitable[None]]) -> None:
    """Connect to the server with a mode, and use it."""
    given = Environment({}, {"PI_CODING_AGENT_DIR": str(tmp_path)}, str(tmp_path))

    async def open_it(server: Server, use: Callable[[ServerLink], Awaitable[None]]) -> None:
        await open_link(server.entry, given, ServerHooks(drop, drop, str, None), "1", lambda: 1.0, use)

    server = Server(
        read_entry("odd", {"command": sys.executable, "args": ["-S", HOSTILE, mode], "timeout": 20}, "user", ""),
        open_it,
        drop,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve)
        with trio.fail_after(60):
            await server.settled.wait()
            await use(server)
        nursery.cancel_scope.cancel()


async def test_half_a_character_costs_itself_and_a_tool_says_whether_it_needs_a_task(tmp_path: Path) -> None:
    async def use(server: Server) -> None:
        assert (server.state, server.error) == ("connected", None)
        assert {name: tool.needs_task for name, tool in server.tools.items()} == {
            "slow": True, "echo": False, "bad": False,
        }  # fmt: skip
        assert server.tools["echo"].description == "half \ufffd of it, and a whole \U0001f600"
        result = await server.request("tools/call", {"name": "bad"})
        assert result["content"] == [{"type": "text", "text": "half \ufffd of it, and a whole \U0001f600"}]

    await served("odd-tools", tmp_path, use)


async def test_a_server_that_answers_with_the_code_of_a_closed_connection_has_not_ended(tmp_path: Path) -> None:
    async def use(server: Server) -> None:
        link = server.link
        for _ in range(2):
            with pytest.raises(ServerError, match="the folder is closed") as failed:
                await server.request("tools/call", {"name": "bad"})
            assert failed.value.code == -32000
        assert (server.state, server.link) == ("connected", link)

    await served("refuses-call", tmp_path, use)


async def test_a_failure_is_one_line_and_the_rest_of_stderr_is_beside_it(tmp_path: Path) -> None:
    async def use(server: Server) -> None:
        assert server.error == "it has exited with exit code 1: ValueError: the folder is missing"
        assert server.details.startswith("Traceback (most recent call last):")

    await served("raises-at-once", tmp_path, use)

    async def call(server: Server) -> None:
        with pytest.raises(LinkLost) as failed:
            await server.request("tools/call", {"name": "bad"})
        assert str(failed.value) == "it has exited with exit code 6: the reason is on stderr"

    await served("dies-in-call", tmp_path, call)


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        ("Traceback (most recent call last):\n  File x\nKeyError: 'API_KEY'\n", "KeyError: 'API_KEY'"),
        (
            "  | Traceback\n  | ExceptionGroup: unhandled (1 sub-exception)\n  +-+---- 1 ----\n"
            "    | httpx.ConnectError: no\n"
            "    +------------------------------------\n",
            "httpx.ConnectError: no",
        ),
        ("Error: Cannot find module 'x'\n    at y (node:z)\n\nNode.js v22.1.0\n", "Error: Cannot find module 'x'"),
        ("npm error code E404\nnpm error 404 Not found\n", "npm error 404 Not found"),
        ("starting\nlisting errors: none\nbye\n\n", "bye"),
        ("\n", ""),
    ],
)
def test_the_line_of_a_programs_output_that_says_what_failed_is_found(stderr: str, line: str) -> None:
    assert telling_line(stderr) == line
