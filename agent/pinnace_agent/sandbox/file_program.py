"""The file helper: a program that runs inside the sandbox and performs the calls of the file tools, one at a time.

Reads calls from stdin, answers on stdout, and ends with its stdin. What it may do is decided by the kernel, at the
moment of each system call; it checks no path for the sandbox. Started as `python -I -S`: imports the standard library
and `files` alone.
"""

import sys
from typing import BinaryIO

from pinnace_agent.files.tool_calls import Answer, CallRefused, perform
from pinnace_agent.sandbox.file_frames import Frame, call_of, failure_frame, read_frame, write_frame


def serve(calls: BinaryIO, answers: BinaryIO) -> None:
    """Perform calls until there are no more."""
    write_frame(answers, Frame({"ready": True}))
    while (frame := read_frame(calls)) is not None:
        try:
            answer = perform(
                call_of(frame), lambda piece: write_frame(answers, Frame({"piece": True}, piece)), lambda: None
            )
        except (OSError, ValueError, CallRefused) as error:
            write_frame(answers, failure_frame(error))
        else:
            write_frame(answers, _answer_frame(answer))


def _answer_frame(answer: Answer) -> Frame:
    return Frame({"bytes": True}, answer) if isinstance(answer, bytes) else Frame({"answer": answer})


def main() -> None:
    """Serve the agent."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
