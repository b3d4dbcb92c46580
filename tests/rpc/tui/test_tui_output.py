"""What the terminal client writes to a terminal that is gone."""

import os
import pty
import threading

from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from pinnace_tui.input.driver import TerminalOutput


def test_nobody_waits_for_a_terminal_that_is_gone() -> None:
    """Else the client would hang: the thread that writes ends by an error, and its queue is bounded."""
    terminal, program = pty.openpty()
    os.close(terminal)
    with os.fdopen(program, "w", encoding="utf-8", closefd=True) as file:
        writer = WriterThread(TerminalOutput(file))  # type: ignore[arg-type] # what it needs of a file
        writer.start()

        def write() -> None:
            for _ in range(3 * MAX_QUEUED_WRITES):
                writer.write("x" * 10_000)
            writer.stop()

        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        writing.join(30)
        assert not writing.is_alive()
