"""Agents and the original use one login at the same time; a refresh token that is used twice would revoke it.

Many expiries: at each of them all ask at once, and one of them is killed at another step of the refresh. With
HYPOTHESIS_PROFILE=long 50 agents and 1,000 expiries.
"""

import json
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.agent.config.authorization_server import MARK, AuthorizationServer
from tests.agent.config.shared_login import Asking, Gate, expire, prepare, stored

pytestmark = pytest.mark.peer
PROVIDER = "kimi-coding"
IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
AGENTS, PARTS, EXPIRIES = (50, 20, 50) if IS_LONG else (4, 1, 6)
"""How many agents, how often, how many expiries: all of them in one test would take longer than a test may."""
STEPS = ("before_grant", "before_reply", None)
"""When one process is killed: at a step of the server's, or at once."""


class ModelServer:
    """Refuses each request, and keeps the tokens that they carry."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        tokens = self.tokens

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                tokens.append(self.headers["Authorization"].removeprefix("Bearer "))
                body = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}'
                self.send_response(400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Original:
    """The original, which asks for its token by a prompt."""

    def __init__(self, command: list[str], folder: Path, oauth_url: str) -> None:
        env = {"PATH": os.environ["PATH"], "PI_CODING_AGENT_DIR": str(folder), "KIMI_CODE_OAUTH_HOST": oauth_url}
        self._process = subprocess.Popen(
            [*command, *f"--mode rpc --no-session --offline --model {PROVIDER}/k3".split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**env, "HOME": str(folder)},
        )

    def ask(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"type": "prompt", "message": "Hello"}) + "\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        assert self._process.stdout is not None
        while json.loads(self._process.stdout.readline())["type"] != "agent_settled":
            pass

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def models() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_no_login_is_lost_however_many_use_it_and_are_killed(
    part: int, original_pi: list[str], tmp_path: Path, models: ModelServer
) -> None:
    chance = random.Random(7 + part)
    with AuthorizationServer() as server:
        path = prepare(tmp_path, server, PROVIDER)
        expire(path, PROVIDER)
        (tmp_path / "models.json").write_text(json.dumps({"providers": {PROVIDER: {"baseUrl": models.url}}}))
        original = Original(original_pi, tmp_path, server.url)
        agents = [Asking(tmp_path, PROVIDER) for _ in range(AGENTS)]
        for number in range(EXPIRIES):
            token = f"access{number + 2}-{MARK}"
            expire(path, PROVIDER)
            step = STEPS[number % len(STEPS)]
            victim = chance.randrange(AGENTS)
            gate = None if step is None else Gate(server, step)
            agents[victim].ask()
            assert gate is None or gate.reached.wait(60)  # it is the one that refreshes
            original.ask()
            for each, agent in enumerate(agents):
                if each != victim:
                    agent.ask()
            agents[victim].kill()
            if gate is not None:
                gate.open()
            agents[victim] = Asking(tmp_path, PROVIDER)
            agents[victim].ask()
            assert [agent.answer() for agent in agents] == [[token, None]] * AGENTS
            original.wait()

            assert (models.tokens[-1], stored(path, PROVIDER)["access"]) == (token, token)
            assert (server.refreshes, server.is_revoked) == (number + 1, False)
        for agent in agents:
            agent.kill()
        original.close()
