"""The span of a batch, as the coordinator sees it: a program that exports it, and the variables for the agents.

The program runs beside the batch, and only where a variable of OpenTelemetry is set. Without an export, the agents get
the trace that the coordinator works for, on whichever machine they are. A program that fails costs the span alone.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

TRACE_VARIABLES: Final = ("TRACEPARENT", "TRACESTATE")
END_S: Final = 2.0
"""The longest that a batch waits for collectors at its end."""
_START_S: Final = 20.0


class BatchSpan:
    """The span of one run of a batch."""

    def __init__(self, tasks: int, environ: Mapping[str, str]) -> None:
        """Begin it, if `environ` asks for an export; `tasks` is how many are to be run."""
        self._program: subprocess.Popen[bytes] | None = None
        self._ended: float | None = None
        self.variables = {name: environ[name] for name in TRACE_VARIABLES if environ.get(name)}
        """What the environment of the agents has of the trace."""
        if tasks and any(name.startswith("OTEL_") for name in environ):
            self._begin(tasks)

    def end(self, *, passed: int, failed: int, is_interrupted: bool) -> None:
        """Have the span exported, in the background."""
        self._end(json.dumps({"passed": passed, "failed": failed, "is_interrupted": is_interrupted}) + "\n")

    def close(self) -> None:
        """Wait for the export, for `END_S` at most from `end` on."""
        if self._program is None:
            return
        self._end("")
        try:
            self._program.wait(max(0.0, (self._ended or 0.0) + END_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()

    def _begin(self, tasks: int) -> None:
        command = [sys.executable, "-P", "-m", "pinnace_rpc.batch.span_program", str(tasks)]
        pipe = subprocess.PIPE
        try:
            program = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        except OSError as error:
            sys.stderr.write(f"pinnace: telemetry: the batch has no span: {error}\n")
            return
        self._program = program
        line = b""
        if program.stdout is not None:
            with program.stdout as stdout:
                if select.select([stdout], [], [], _START_S)[0]:
                    line = stdout.readline()
        try:
            self.variables = json.loads(line) or self.variables
        except ValueError:
            sys.stderr.write("pinnace: telemetry: the batch has no span: its program has not begun one\n")
            program.kill()

    def _end(self, line: str) -> None:
        if self._program is None or self._ended is not None:
            return
        self._ended = time.monotonic()
        if self._program.stdin is not None:
            with suppress(BrokenPipeError), self._program.stdin as stdin:
                stdin.write(line.encode())


@contextmanager
def batch_span(tasks: int) -> Generator[BatchSpan]:
    """Begin a span, and end it as interrupted unless it is ended before."""
    span = BatchSpan(tasks, os.environ)
    try:
        yield span
    finally:
        span.close()
