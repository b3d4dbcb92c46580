"""Starts an agent that is asked on its command line, and keeps what it printed.

For the modes without a conversation: arguments and stdin go in, stdout, stderr and an exit code come out.
"""

import json
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack

from pinnace_fuzz.harness.adapters import HomeOptions, PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.process_tree import RUN_VARIABLE, await_end, kill_all
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import LEFT_BEHIND_TIMEOUT_S

# Far above what any start here takes; who is not through by then hangs.
TIMEOUT_S = 60.0
# What takes stdin away from the command that follows.
_SHELLS = {False: (), True: ("/bin/sh", "-c", 'exec "$@" <&-', "sh")}


class Printed(NamedTuple):
    """How it ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[Record]:
        """The lines of stdout as records."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def events(self) -> list[Record]:
        """Those of mode json between the session's header and the result."""
        return self.records[1:-1]

    @property
    def result(self) -> Record:
        """The last record of mode json."""
        record = self.records[-1]
        assert record["type"] == "result"
        return record


class OneShot:
    """One agent that was started with its prompt. Killed at the end of its starter."""

    def __init__(self, process: "subprocess.Popen[bytes]", run_id: str, home: PreparedHome, llm: FakeLlm) -> None:
        """Take over a process that was just started; `run_id` marks everything that it starts."""
        self.process = process
        self._run_id = run_id
        self.home = home
        self.llm = llm

    @property
    def asked(self) -> list[Any]:
        """What users said in the last request to the model: texts, or lists of blocks."""
        messages = self.llm.requests[-1].body["messages"]
        return [message["content"] for message in messages if message["role"] == "user"]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def close_stdin(self) -> None:
        """End stdin; `end` then only waits."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def left_behind(self, timeout_s: float = LEFT_BEHIND_TIMEOUT_S) -> list[int]:
        """Wait until nothing is left of it and what it has started; return the ids of what is left after that time."""
        return await_end(self._run_id, timeout_s)

    def kill(self) -> None:
        """Kill everything, and let go of the pipes."""
        kill_all(self._run_id)
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def end(self, stdin: bytes = b"") -> Printed:
        """Write stdin, end it, and wait until the process has ended."""
        out, err = self.process.communicate(stdin, timeout=TIMEOUT_S)
        return Printed(self.process.returncode, out.decode(), err.decode())


class OneShotStarter:
    """Starts agents with one command; use it as a context manager."""

    def __init__(self, command: Sequence[str], root: Path, env: Mapping[str, str] | None = None) -> None:
        """Prepare to start.

        Args:
            command: The agent's, without any argument.
            root: A folder that homes are made in.
            env: More variables for every agent.
        """
        self._command = tuple(command)
        self._root = root
        self._env = dict(env or {})
        self._homes = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Kill what still runs, and end the LLMs."""
        self._stack.close()

    def __call__(
        self,
        words: Sequence[str],
        script: Iterable[Scripted] = (),
        *,
        prepare: Callable[[Path], None] | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        closed_stdin: bool = False,
        **options: Unpack[HomeOptions],
    ) -> OneShot:
        """Start an agent with these words behind those that choose the model.

        Args:
            words: Mode, flags, messages and files.
            script: What the model answers.
            prepare: Is given the working folder before the start.
            stdin: Where it comes from, if not from a pipe that `end` writes to.
            stdout: Where it goes, if not into a pipe that `end` reads.
            closed_stdin: Start it without any.
            options: Of the home.
        """
        llm = self._stack.enter_context(FakeLlm(script))
        self._homes += 1
        options["env"] = {**self._env, **options.get("env", {})}
        home = prepare_pi_home(self._root / f"one-shot-{self._homes}", llm.base_url, **options)
        if prepare is not None:
            prepare(home.work)
        run_id = uuid.uuid4().hex
        without_mode = home.arguments[2:]
        process = subprocess.Popen(
            [*_SHELLS[closed_stdin], *self._command, *without_mode, *words],
            cwd=home.work,
            env={**home.env, RUN_VARIABLE: run_id},
            stdin=subprocess.PIPE if stdin is None else stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
        )
        one_shot = OneShot(process, run_id, home, llm)
        self._stack.callback(one_shot.kill)
        return one_shot
