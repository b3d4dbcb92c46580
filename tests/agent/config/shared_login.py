"""A login in an auth.json that several processes use at once, against a local authorisation server."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.agent.config.authorization_server import AuthorizationServer
from tests.source_tree import PYTHONPATH

# Asks for the key of a provider once for each line of stdin, as an agent does that has just started.
ASKING = """
import sys, json, trio
from pathlib import Path
from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.credentials.resolver import CredentialResolver
folder = Path(sys.argv[1])
async def main():
    for _ in sys.stdin:
        registry = CredentialResolver(read_catalog(folder / "models.json"), read_auth(folder / "auth.json"), {})
        got = await registry.credentials_of(sys.argv[2], "")
        token = got.api_key or got.headers.get("Authorization", "").removeprefix("Bearer ")
        print(json.dumps([token or None, got.problem]), flush=True)
trio.run(main)
"""


def prepare(folder: Path, server: AuthorizationServer, provider: str = "xai") -> Path:
    """Write an expired login, and settings that name the server."""
    path = folder / "auth.json"
    path.write_text(json.dumps({provider: server.login(), "other": {"type": "api_key", "key": "k"}}))
    path.chmod(0o600)
    (folder / "settings.json").write_text(json.dumps({"logins": {provider: {"url": server.url}}}))
    return path


def stored(path: Path, provider: str = "xai") -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(path.read_text())[provider]
    return entry


def expire(path: Path, provider: str = "xai") -> None:
    content = json.loads(path.read_text())
    content[provider]["expires"] = 1_600_000_000_000
    path.write_text(json.dumps(content))


class Asking:
    """A process that asks for a key when it is told to."""

    def __init__(self, folder: Path, provider: str = "xai") -> None:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", ASKING, str(folder), provider],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> list[str | None]:
        assert self.process.stdout is not None
        answer: list[str | None] = json.loads(self.process.stdout.readline())
        return answer

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class Gate:
    """Stops the exchange of a refresh at a step of the server's."""

    def __init__(self, server: AuthorizationServer, step: str) -> None:
        self._server = server
        self.reached, self._let_go = threading.Event(), threading.Event()
        setattr(server, step, self._stop)

    def _stop(self, _grant: str) -> None:
        self.reached.set()
        self._let_go.wait(60)

    def open(self) -> None:
        self._server.before_grant = self._server.before_reply = lambda _grant: None
        self._let_go.set()
