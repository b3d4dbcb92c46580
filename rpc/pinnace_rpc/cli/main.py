"""The program's entry: calls what the command line requests and turns every outcome into an exit code.

Exit codes: 0, or the code of the server; 1 for a request that can't be done, 2 for a usage error.
stdout is touched only by `--help`, `--version` and the subcommands. Never a traceback for an interrupt. Must import
nothing slow at module level: an interrupt before `main` would print a traceback.
"""

import os
import signal
import sys
from collections.abc import Sequence

from pinnace_rpc.options.streams import echo, protect_process, redact_streams

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from pinnace_rpc.options.options import Options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the server takes signals over, an interrupt ends the process like any other program.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    redact_streams()
    protect_process()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["attach"]:
        # Before anything else is imported: each client waits for it.
        from pinnace_rpc.cli.commands import attach as attach_command

        return attach_command.main(words[1:])
    from pinnace_rpc.options.parser import COMPLETION_VARIABLE, CommandError, TextRequested

    try:
        if instruction := os.environ.get(COMPLETION_VARIABLE):
            from pinnace_rpc.cli.commands import completion

            return completion.answer(instruction)
        return _run(["--mode", *words] if words[:1] == ["acp"] else words)
    except TextRequested as leaving:
        if leaving.command is not None:
            from pinnace_rpc.options.help import page

            echo(page(leaving.command))
        return 0
    except CommandError as error:
        echo(f"pinnace: {error}", is_error=True)
        from pinnace_rpc.results.usage import report_usage_error

        return report_usage_error(words, str(error), error.exit_code)
    except BrokenPipeError:
        # The output of `--help` or a subcommand has no reader. Python would report it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _run(words: list[str]) -> int:
    if words and not words[0].startswith("-"):
        from pinnace_rpc.options.unsupported import refuse_foreign_command

        refuse_foreign_command(words)
    match words:
        case ["shim", *rest]:
            from pinnace_rpc.cli.commands import shim as shim_command

            return shim_command.main(rest)
        case ["sessions", *rest]:
            from pinnace_rpc.cli.commands import sessions as sessions_command

            return sessions_command.main(rest)
        case ["auth" | "doctor" as name, *rest]:
            return _read_keys(name, rest)
        case [
            "trust" | "untrust" | "mcp" | "install" | "list" | "remove" | "uninstall" | "update" as name,
            *rest,
        ]:
            return _configure(name, rest)
        case ["completion", *rest]:
            from pinnace_rpc.cli.commands import completion as completion_command

            return completion_command.main(rest)
        case ["explain", *rest]:
            from pinnace_rpc.cli.commands import explain as explain_command

            return explain_command.main(rest)
        case ["spec", *rest]:
            from pinnace_rpc.cli.commands import spec as spec_command

            return spec_command.main(rest)
        case ["agents" | "batch" | "host" as name, *rest]:
            return _keep_agents(name, rest)
        case ["demo", *rest]:
            from pinnace_rpc.cli.commands import demo

            return demo.main(rest)
        case _:
            return _serve(words)


def _read_keys(name: str, rest: list[str]) -> int:
    """Change or show keys, or check everything that a start would use."""
    if name == "doctor":
        from pinnace_rpc.cli.commands import doctor as doctor_command

        return doctor_command.main(rest)
    from pinnace_rpc.cli.commands import auth as auth_command

    return auth_command.main(rest)


def _configure(name: str, rest: list[str]) -> int:
    """Change, or show, what the user's files say about projects, MCP servers and packages."""
    if name == "mcp":
        from pinnace_rpc.cli.commands import mcp as mcp_command

        return mcp_command.main(rest)
    if name not in ("trust", "untrust"):
        from pinnace_rpc.cli.commands import packages as packages_command

        return packages_command.main(name, rest)
    from pinnace_rpc.cli.commands import trust as trust_command

    return trust_command.main(rest, decision=name == "trust")


def _keep_agents(name: str, rest: list[str]) -> int:
    """Be the host of agents, or ask it, or run a batch of them."""
    if name == "batch":
        from pinnace_rpc.batch import command as batch_command

        _replace_closed_streams()
        return batch_command.main(rest)
    if name == "host":
        from pinnace_rpc.cli.commands import host as host_command

        return host_command.main(rest)
    from pinnace_rpc.cli.commands import agents as agents_command

    return agents_command.main(rest)


def _serve(words: list[str]) -> int:
    from pinnace_rpc.options.arguments import parse_arguments, refuse_misspelt_subcommand, unknown_option
    from pinnace_rpc.options.options import SERVING_MODES

    refuse_misspelt_subcommand(words)
    options = parse_arguments(words, os.environ, is_at_terminal=_is_at_terminal())
    if options.extension_flags and not options.extensions:
        from pinnace_rpc.options.extension_hints import may_find_extensions

        if not may_find_extensions(os.environ):
            raise unknown_option(options.extension_flags[0][0])
    if options.list_models is not None:
        from pinnace_rpc.cli.commands import models as model_list

        return model_list.main(options.list_models, options)
    if options.login is not None:
        from pinnace_rpc.cli.commands import auth as auth_command

        return auth_command.login(options.login, options.extensions)
    if options.export is not None:
        from pinnace_rpc.cli.commands import export as export_command

        return export_command.main(options.export)
    if options.is_interactive:
        from pinnace_rpc.cli import terminal

        return terminal.open_own(options)
    _check_streams(needs_stdin=options.mode in SERVING_MODES)
    return _start(options, words)


def _start(options: "Options", words: Sequence[str]) -> int:
    """Serve, or ask once, as a valid command line requires."""
    import gc

    from pinnace_rpc.options.options import StartupError

    # A start creates many objects and hardly any garbage: collecting it takes a tenth of the start. The server
    # collects as usual once it runs.
    gc.disable()
    try:
        if options.mode == "acp":
            from pinnace_rpc.acp import serve as acp

            return acp.run(options, words)
        if options.api_key_file is not None or options.api_key_fd is not None:
            from pinnace_rpc.cli.key_input import with_key

            options = with_key(options)
        # This loads the whole agent.
        if options.mode == "rpc":
            from pinnace_rpc.server import serve

            return serve.run(options)
        from pinnace_rpc.print_mode import mode as print_mode

        return print_mode.run(options)
    except StartupError as error:
        echo(f"pinnace: {error}", is_error=True)
        if (journal := sys.modules.get("pinnace_rpc.server.log_file")) is not None:
            journal.log_refusal(str(error), error.exit_code)
        if options.result_file is None and not options.has_detailed_exit_codes:
            return error.exit_code
        from pinnace_rpc.results.collector import report_failed_start

        return report_failed_start(options, error)
    finally:
        gc.enable()


def _is_at_terminal() -> bool:
    """Return whether stdin and stdout are both terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _check_streams(*, needs_stdin: bool) -> None:
    """Refuse to serve without stdin and stdout, and replace other closed streams."""
    from pinnace_rpc.options.parser import CommandError

    if sys.stdout is None or (needs_stdin and sys.stdin is None):
        streams = "stdin and stdout" if needs_stdin else "stdout"
        raise CommandError(f"{streams} must be open: the protocol uses them")
    _replace_closed_streams()


def _replace_closed_streams() -> None:
    """Open what is closed of stdin and stderr: Python has None for each."""
    if sys.stdin is None:
        # The first file that is opened becomes descriptor 0.
        os.open(os.devnull, os.O_RDONLY)
    if sys.stderr is None:
        # Otherwise the next file that is opened becomes descriptor 2, and gets the error texts.
        null = os.open(os.devnull, os.O_WRONLY)
        if null != 2:
            os.dup2(null, 2)
            os.close(null)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        redact_streams()
