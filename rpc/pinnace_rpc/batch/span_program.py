"""The span of a batch, exported by a program of its own: nothing of the library is in the memory of the coordinator.

    python -P -m pinnace_rpc.batch.span_program TASKS

Writes the variables of the span as a line of JSON, an empty object if none is exported; ends the span with the counts
of the line that it reads, or, where stdin ends without one, as that of a coordinator that was killed. Signals do not
end it: the coordinator does, which lets running tasks end first.
"""

import json
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from pinnace_agent.telemetry.conventions import BATCH_FAILED, BATCH_PASSED
from pinnace_agent.telemetry.switch import begin_batch
from pinnace_rpc.options.streams import protect_process, redact_streams


class _Warnings(logging.Handler):
    """Writes what can't be exported to stderr, without keys."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        with suppress(OSError):
            sys.stderr.write(f"pinnace: warning: batch: {self.format(record)}\n")


def main(words: Sequence[str]) -> int:
    """Export the span of one batch."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    redact_streams()
    protect_process()
    logging.getLogger("pinnace").handlers[:] = [_Warnings(logging.WARNING)]
    [tasks] = words
    span = begin_batch(int(tasks))
    sys.stdout.write(json.dumps({} if span is None else span.variables) + "\n")
    sys.stdout.flush()
    if span is None:
        return 0
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        span.end({}, is_interrupted=True)
        return 0
    counts = json.loads(line)
    attributes = {BATCH_PASSED: counts["passed"], BATCH_FAILED: counts["failed"]}
    span.end(attributes, is_interrupted=counts["is_interrupted"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
