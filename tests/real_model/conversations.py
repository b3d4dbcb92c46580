"""Conversations with a real model on a real inference server: `scripts/real-model`, not part of the suite.

The model is too small to answer sensibly: what is proved is the wire, streaming, usage, abort, overflow and retry with
a server that nobody wrote for these tests. Times are told, not judged.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.trials.reading import faults

TOOLS = Path(__file__).parents[2] / ".tools" / "real-model"
SERVER = TOOLS / "venv" / "bin" / "llama-cpp-server"
MODEL = TOOLS / "model"
LOADING_S = 120.0
# A whole answer on two slow cores.
ANSWER_S = 300.0
LONG = "The quick brown fox jumps over the lazy dog. " * 35

pytestmark = pytest.mark.skipif(not (SERVER.exists() and MODEL.exists()), reason="scripts/real-model sets it up")


class Server:
    """The inference server, which can be stopped and started again at the same address."""

    def __init__(self, log: Path, context_tokens: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._log = log
        self._context_tokens = context_tokens
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["-m", MODEL, "--port", self.port, "--ctx-size", self._context_tokens]
        with self._log.open("ab") as log:
            command = [str(SERVER), *map(str, words)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + LOADING_S
        while not self._is_ready():
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, "the server does not get ready"
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # the command is a wrapper, the server its child
            self._process.wait()
            self._process = None

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def conversation(
    folder: Path, *, context_tokens: int = 8192, told_tokens: int = 8192, settings: Mapping[str, object] | None = None
) -> Iterator[tuple[Server, Agent]]:
    """Start a server and an agent that knows it; at the end the agent's trace must keep every invariant."""
    server = Server(folder / "server.log", context_tokens)
    model = {"id": "gemma", "contextWindow": told_tokens, "maxTokens": 200, "input": ["text"]}
    compat = {"supportsDeveloperRole": False, "supportsStore": False, "maxTokensField": "max_tokens"}
    provider = {
        "baseUrl": f"http://127.0.0.1:{server.port}/v1",
        "api": "openai-completions",
        "apiKey": "none",
        "compat": compat,
        "models": [model],
    }
    home = prepare_pi_home(
        folder / "agent", "", models={"providers": {"local": provider}}, settings=settings or {}, has_session=True
    )
    flags = ["--protocol", "1.5", "--model", "local/gemma", "--no-tools", "--system-prompt", "You answer briefly."]
    command = ["pinnace", "--mode", "rpc", "--session-dir", str(home.sessions), *flags]
    try:
        server.start()
        with Agent(command, cwd=home.work, env=home.env) as agent:
            yield server, agent
            agent.close_stdin()
            assert agent.wait_exit() == 0
            assert agent.journal.flaws == []
            assert faults(agent.records) == []
    finally:
        server.stop()


def ask(agent: Agent, text: str) -> int:
    mark = agent.mark()
    assert agent.request({"type": "prompt", "message": text})["success"]
    agent.wait({"type": "agent_settled"}, ANSWER_S, since=mark)
    return mark


def types(agent: Agent, mark: int) -> list[str]:
    return [each.record["type"] for each in agent.records[mark:]]


def test_an_answer_streams_and_its_usage_is_the_servers(tmp_path: Path) -> None:
    with conversation(tmp_path) as (_, agent):
        start = time.monotonic()
        mark = ask(agent, "Write two sentences about the sea.")
        updates = [each for each in types(agent, mark) if each == "message_update"]
        answer = agent.found({"type": "message_end"}, since=mark)[-1]["message"]
        print(f"{len(updates)} updates in {time.monotonic() - start:.1f} s, usage {json.dumps(answer['usage'])}")
        assert len(updates) > 10
        assert answer["stopReason"] in {"stop", "length"}
        assert answer["usage"]["input"] > 0
        assert answer["usage"]["output"] > 0


def test_an_abort_in_mid_answer_ends_it_and_the_next_prompt_is_answered(tmp_path: Path) -> None:
    with conversation(tmp_path) as (_, agent):
        mark = agent.mark()
        agent.request({"type": "prompt", "message": "Count from one to two hundred in words."})
        agent.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}}, ANSWER_S, since=mark)
        start = time.monotonic()
        assert agent.request({"type": "abort"})["success"]
        print(f"abort answered after {(time.monotonic() - start) * 1000:.1f} ms")
        aborted = agent.found({"type": "message_end"}, since=mark)[-1]["message"]
        assert aborted["stopReason"] == "aborted"
        mark = ask(agent, "Say hello.")
        assert agent.found({"type": "message_end"}, since=mark)[-1]["message"]["stopReason"] in {"stop", "length"}


def test_a_context_that_the_server_refuses_is_compacted_and_sent_again(tmp_path: Path) -> None:
    """The server has a quarter of the window that it is said to have, so only its refusal can tell."""
    settings = {"compaction": {"reserveTokens": 600, "keepRecentTokens": 400}}
    with conversation(tmp_path, context_tokens=2048, told_tokens=8192, settings=settings) as (_, agent):
        for number in range(7):
            mark = ask(agent, f"Question {number}: what is this about? {LONG}")
            ends = agent.found({"type": "compaction_end"}, since=mark)
            if ends:
                break
        else:
            pytest.fail("the server has never refused")
        assert ends[0]["reason"] == "overflow"
        assert ends[0]["result"] is not None, ends[0]
        answer = agent.found({"type": "message_end"}, since=mark)[-1]["message"]
        assert answer["stopReason"] in {"stop", "length"}, answer.get("errorMessage")
        print(f"refused at question {number}, {ends[0]['result']['tokensBefore']} tokens before the compaction")


def test_a_request_while_the_server_is_down_is_tried_again_until_it_is_back(tmp_path: Path) -> None:
    with conversation(tmp_path, settings={"retry": {"baseDelayMs": 1000, "maxRetries": 5}}) as (server, agent):
        ask(agent, "Say hello.")
        server.stop()
        mark = agent.mark()
        agent.request({"type": "prompt", "message": "Say it again."})
        told = agent.wait({"type": "auto_retry_start"}, ANSWER_S, since=mark)
        server.start()
        agent.wait({"type": "agent_settled"}, ANSWER_S, since=mark)
        end = agent.wait({"type": "auto_retry_end"}, since=mark)
        print(f"failed with {told['errorMessage']!r}, back after {end['attempt']} attempts")
        assert end["success"]
        assert agent.found({"type": "message_end"}, since=mark)[-1]["message"]["stopReason"] in {"stop", "length"}
