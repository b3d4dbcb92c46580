"""`pinnace attach`: the protocol on standard streams, spoken by an agent of the host.

Turns words, a host that can't be reached and the pump's outcome into texts and exit codes: 0 detached, or the agent
ended cleanly; 1 refused or failed; 2 usage error; 69 no host; 75 attach again. What a plain attach does not need is
imported where it is needed.
"""

import os
import signal
import sys
from contextlib import suppress

from pinnace_rpc.attach.finding import NoHost, connect
from pinnace_rpc.attach.pump import Outcome, Pump, die_by, message
from pinnace_rpc.options.release import installed_release
from pinnace_rpc.options.streams import echo
from pinnace_rpc.options.words import WrongWords, read_words

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pinnace_rpc.options.words import AttachWords

EXIT_FAILED = 1
EXIT_USAGE = 2


def main(words: "Sequence[str]") -> int:
    """Run `pinnace attach` with these words and return the exit code. Does not return after SIGINT."""
    try:
        asked = read_words(words)
    except WrongWords as error:
        return _refuse(str(error), EXIT_USAGE)
    if asked.request is not None:
        return _answer(asked.request)
    if asked.is_terminal:
        return _open_terminal(asked.agent or asked.session, asked.flags)
    if sys.stdin is None or sys.stdout is None:
        return _refuse("stdin and stdout must be open, since the protocol is spoken there", EXIT_USAGE)
    umask = os.umask(0o077)  # for the files of a host that is started
    try:
        first = message(asked.record(os.getcwd(), os.environ, umask, installed_release()))
        connection = connect(os.environ, starts=not asked.starts_no_host)
    except NoHost as error:
        return _refuse(str(error), error.exit_code)
    except ValueError as error:
        return _refuse(str(error), EXIT_FAILED)
    except OSError as error:
        return _refuse(f"the current folder can't be used: {error.strerror}", EXIT_FAILED)
    with connection:
        outcome = Pump(connection, first, asked.on_eof or "end").run()
    if outcome.subagent is not None:
        outcome = _view(asked, outcome.subagent, umask)
    if outcome.error is not None:
        _refuse(outcome.error, outcome.exit_code)
    if outcome.signal_number == signal.SIGINT:
        die_by(signal.SIGINT)
    return outcome.exit_code


def _view(asked: "AttachWords", subagent: "Mapping[str, object]", umask: int) -> "Outcome":
    """Attach to the agent of a sub-agent, and show the sub-agent alone."""
    from pinnace_rpc.attach.child_view import ChildView, why_not_viewed

    if (problem := why_not_viewed(asked, subagent)) is not None:
        return Outcome(EXIT_USAGE, problem)
    asked.agent, asked.session = str(subagent["agent"]), None
    try:
        first = message(asked.record(os.getcwd(), os.environ, umask, installed_release()))
        connection = connect(os.environ, starts=False)
    except NoHost as error:
        return Outcome(error.exit_code, str(error))
    with connection:
        return Pump(connection, first, "detach", ChildView(subagent)).run()


def _open_terminal(name: "str | None", flags: "Sequence[str]") -> int:
    """Open the terminal client on an agent."""
    from pinnace_rpc.cli.terminal import open_attached
    from pinnace_rpc.options.parser import CommandError

    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return _refuse("--tui needs a terminal on stdin and stdout", EXIT_USAGE)
    try:
        return open_attached(name, flags)
    except CommandError as error:
        return _refuse(str(error), error.exit_code)


def _refuse(text: str, exit_code: int) -> int:
    with suppress(OSError):  # stderr is closed
        echo(f"pinnace: {text}", is_error=True)
    return exit_code


def _answer(request: str) -> int:
    """Print the help or the version."""
    if request == "version":
        from pinnace_rpc.options.shown.version import shown_version

        echo(shown_version())
    else:
        from pinnace_rpc.options.help import page
        from pinnace_rpc.options.table import attach_command

        echo(page(attach_command()))
    return 0
