"""The program's entry: hands the command line to what it names and turns every outcome into an exit code.

Exit codes: 0, or what the server returns; 1 for what can't be done, 2 for a command line that makes no sense.
stdout is touched only by `--help`, `--version` and the subcommands. Never a traceback for an interrupt. Must
import nothing slow at module level: an interrupt before `main` would show one.
"""

import os
import signal
import sys
from collections.abc import Sequence

from pinnace_rpc.redacted_streams import redact_streams

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from pinnace_rpc.options import Options

# What trio and the standard library import and look into only for TLS, DTLS, names of hosts that are not ASCII,
# addresses in brackets, and the encoding of pipes of text.
LATE_MODULES = ("ssl", "hmac", "idna", "ipaddress", "locale")
# Set by the scripts of `pinnace completion`.
COMPLETION_VARIABLE = "_PINNACE_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the server takes signals over, an interrupt ends the process like any other program.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    redact_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    from pinnace_rpc.plain_options import plain_options

    if COMPLETION_VARIABLE not in os.environ and None not in (sys.stdin, sys.stdout, sys.stderr):
        options = plain_options(words, os.environ)
        if options is not None:
            return _start(options)
    import click

    try:
        if instruction := os.environ.get(COMPLETION_VARIABLE):
            from pinnace_rpc import completion

            return completion.answer(instruction)
        return _run(words)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        click.echo(f"pinnace: {error.format_message()}", err=True)
        return error.exit_code
    except BrokenPipeError:
        # Nobody reads what `--help` or a subcommand says. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _run(words: list[str]) -> int:
    from pinnace_rpc.not_here import refuse_foreign_command

    refuse_foreign_command(words)
    match words:
        case ["shim", *rest]:
            return _shim(rest)
        case ["sessions", *rest]:
            return _sessions(rest)
        case ["auth", *rest]:
            from pinnace_rpc import auth_command

            _protect()
            return auth_command.main(rest)
        case ["trust" | "untrust" as name, *rest]:
            from pinnace_rpc import trust_command

            return trust_command.main(rest, decision=name == "trust")
        case ["completion", *rest]:
            return _completion(rest)
        case ["explain", *rest]:
            from pinnace_rpc import explain_command

            return explain_command.main(rest)
        case ["spec", *rest]:
            from pinnace_rpc import spec_command

            return spec_command.main(rest)
        case ["demo"]:
            from pinnace_rpc import demo

            return demo.main()
        case _:
            return _serve(words)


def _serve(words: list[str]) -> int:

    from pinnace_rpc.arguments import parse_arguments
    from pinnace_rpc.command import SUBCOMMANDS
    from pinnace_rpc.not_here import FOREIGN_COMMANDS
    from pinnace_rpc.option_words import refuse_misspelt_subcommand

    refuse_misspelt_subcommand(words, SUBCOMMANDS, FOREIGN_COMMANDS)
    options = parse_arguments(words, os.environ, is_at_terminal=_is_at_terminal())
    if options.extension_flags and not options.extensions:
        from pinnace_rpc.command import COMMAND
        from pinnace_rpc.extension_hints import may_find_extensions
        from pinnace_rpc.option_words import no_such_option

        if not may_find_extensions(os.environ):
            raise no_such_option(options.extension_flags[0][0], COMMAND.params)
    if options.list_models is not None:
        from pinnace_rpc import model_list

        return model_list.main(options.list_models, options)
    if options.export is not None:
        from pinnace_rpc import export_command

        return export_command.main(options.export)
    _check_streams(needs_stdin=options.mode == "rpc")
    return _start(options)


def _start(options: "Options") -> int:
    """Serve, or ask once, as a command line says that is known to be good."""
    import gc

    from pinnace_rpc.late_modules import defer
    from pinnace_rpc.options import StartupError

    _protect()
    # Starting makes many objects and hardly any garbage: searching them for some is a tenth of the start. The server
    # collects as usual once it runs.
    gc.disable()
    defer(*LATE_MODULES)
    try:
        if options.api_key_file is not None or options.api_key_fd is not None:
            from pinnace_rpc.key_input import with_key

            options = with_key(options)
        # This loads the whole agent.
        if options.mode == "rpc":
            from pinnace_rpc import serve

            return serve.run(options)
        from pinnace_rpc import print_mode

        return print_mode.run(options)
    except StartupError as error:
        sys.stderr.write(f"pinnace: {error}\n")
        if (journal := sys.modules.get("pinnace_rpc.journal")) is not None:
            journal.log_refusal(str(error), error.exit_code)
        return error.exit_code
    finally:
        gc.enable()


def _protect() -> None:
    """Close this process to others of the same user, before a key is read or a program is started."""
    from pinnace_agent.processes.protection import protect

    if (problem := protect()) is not None:
        sys.stderr.write(f"pinnace: warning: {problem}\n")


def _is_at_terminal() -> bool:
    """Tell whether somebody sits in front of both ends."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _check_streams(*, needs_stdin: bool) -> None:
    """Refuse to serve without stdin and stdout, and make up for others that are closed: Python has None for each."""
    import click

    if sys.stdout is None or (needs_stdin and sys.stdin is None):
        streams = "stdin and stdout" if needs_stdin else "stdout"
        raise click.ClickException(f"{streams} must be open, since the protocol is spoken there")
    if sys.stdin is None:
        # The first file that is opened becomes descriptor 0.
        os.open(os.devnull, os.O_RDONLY)
    if sys.stderr is None:
        # Or the next file that is opened becomes descriptor 2, and gets what is meant for people.
        null = os.open(os.devnull, os.O_WRONLY)
        if null != 2:
            os.dup2(null, 2)
            os.close(null)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        redact_streams()


def _completion(words: list[str]) -> int:
    import click

    from pinnace_rpc import completion

    command = click.Command(
        "pinnace completion",
        params=[click.Argument(["shell"], type=click.Choice(completion.SHELLS))],
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Print what completes command lines of pinnace in SHELL, for its start-up file.",
    )
    with command.make_context("pinnace completion", words) as context:
        click.echo(completion.script(context.params["shell"]))
    return 0


def _sessions(words: list[str]) -> int:
    import click

    command = click.Command(
        "pinnace sessions",
        params=[
            click.Option(["--all"], is_flag=True, help="Of all working folders, not only of this one."),
            click.Option(["--session-dir"], metavar="FOLDER", help="Where session files are kept."),
        ],
        context_settings={"help_option_names": ["-h", "--help"]},
        help="List the sessions, newest first: one JSON object a line.",
    )
    with command.make_context("pinnace sessions", words) as context:
        is_all, session_dir = context.params["all"], context.params["session_dir"]
    from pinnace_rpc import session_list

    return session_list.main(session_dir, is_all=is_all)


def _shim(words: list[str]) -> int:
    from pathlib import Path

    import click

    from pinnace_rpc.shim import ForeignFile, write_shims

    command = click.Command(
        "pinnace shim",
        params=[
            click.Argument(["folder"], type=click.Path(file_okay=False), metavar="DIR"),
            click.Option(["--force"], is_flag=True, help="Replace files that are no shims."),
        ],
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Write `pi` and `cli.js` into DIR: both start pinnace.",
    )
    with command.make_context("pinnace shim", words) as context:
        folder, is_forced = Path(context.params["folder"]), context.params["force"]
    try:
        paths = write_shims(folder, is_forced=is_forced)
    except ForeignFile as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from None
    for path in paths:
        click.echo(path)
    return 0
