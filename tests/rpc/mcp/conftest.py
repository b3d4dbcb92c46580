"""Real agents with real servers."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

HERE = Path(__file__).parent
TOOLS = HERE.parents[2] / ".tools"
Start = Callable[..., HomedAgent]


def hostile(mode: str) -> Mapping[str, Any]:
    """Return the entry of a server that misbehaves."""
    return {"command": sys.executable, "args": ["-S", str(HERE / "hostile_server.py"), mode]}


@pytest.fixture
def with_servers(agent: AgentStarter) -> Start:
    """Starts an agent with servers, by name."""

    def start(
        servers: Mapping[str, Mapping[str, Any]],
        script: Iterable[Scripted] | FakeLlm = (),
        *flags: str,
        **options: Any,
    ) -> HomedAgent:
        files = {"mcp.json": {"mcpServers": servers}}
        return agent(script, *flags, files=files, **options)

    return start


@pytest.fixture(scope="session")
def mcp_conformance(node_program: str) -> list[str]:
    """The command of the conformance suite of the protocol; its own arguments follow."""
    program = TOOLS / "mcp-conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if not program.exists():
        reason = "the conformance suite is not there: scripts/peers installs it"
        if os.environ.get("CI"):  # which installs it, and must never pass without it
            pytest.fail(reason)
        pytest.skip(reason)
    return [node_program, str(program)]


def status(pi: HomedAgent) -> str:
    """Return what `/mcp` shows."""
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": "/mcp"})["success"]
    shown = pi.wait({"type": "extension_ui_request", "method": "notify", "notifyType": "info"}, since=mark)
    return str(shown["message"])


def memory_mib(pi: HomedAgent) -> float:
    """Return the memory that the agent takes now."""
    return pi.rss_kib() / 1024
