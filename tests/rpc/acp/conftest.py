"""Agents in mode acp with a scripted model server, each message held to the schema and to the observer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

StartAcp = Callable[..., AcpAgent]
"""Starts `pinnace --mode acp` with these flags; its folder is `work` in the home, which has these options."""


@contextmanager
def acp_agents(
    llm: Callable[[Iterable[Scripted]], FakeLlm], folder: Path, connect: Callable[..., AcpAgent] = AcpAgent
) -> Iterator[StartAcp]:
    """Give what starts agents in mode acp, in one home; `connect` makes the client of one."""
    with ExitStack() as stack:

        def start(
            *flags: str,
            script: Iterable[Scripted] = (),
            server: FakeLlm | None = None,
            answer: Callable[[Message], Mapping[str, object] | None] | None = None,
            **options: Any,  # Any: JSON
        ) -> AcpAgent:
            server = server or llm(script)
            home = prepare_pi_home(folder / "home", server.base_url, env=ENVIRONMENT, has_session=True, **options)
            command = [*COMMAND, "--mode", "acp", "--provider", "fake", "--model", "m1", *flags]
            return stack.enter_context(connect(command, cwd=home.work, env=home.env, answer=answer))

        yield start


@pytest.fixture
def acp(llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Iterator[StartAcp]:
    """Starts agents in mode acp, in one home; they end with the test."""
    with acp_agents(llm, tmp_path) as start:
        yield start


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The working folder of sessions."""
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def opened(agent: AcpAgent, cwd: Path, **capabilities: Any) -> str:  # Any: JSON
    """Initialize an agent and open a session."""
    agent.call("initialize", protocolVersion=1, clientCapabilities=capabilities)
    session: str = agent.call("session/new", cwd=str(cwd), mcpServers=[])["sessionId"]
    return session


def text(said: str) -> list[Mapping[str, object]]:
    """Return a prompt of one text."""
    return [{"type": "text", "text": said}]
