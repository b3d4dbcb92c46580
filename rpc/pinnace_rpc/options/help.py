"""The text of `--help`: the options in groups and an introduction, or the page of a subcommand.

Layout and wording only; the options themselves are in `table`, those of a subcommand in its module.
"""

import os
from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import fill, shorten, wrap
from typing import Final

from pinnace_rpc.options.parser import HELP_OPTION, Option, Subcommand
from pinnace_rpc.options.table import GROUPS

SUMMARY: Final = "A headless coding agent for programs that exchange JSON lines with it, and for single questions."
# Longer lines are hard to read, shorter ones leave no room beside the names.
_WIDEST_PAGE, _WIDEST_MANUAL, _NARROWEST = 78, 98, 50
_INDENT: Final = "  "

_USAGE: Final = """\
Usage: pinnace [OPTIONS] [TEXT ...]
                            open the terminal client (extra tui)
       pinnace -p [OPTIONS] [@FILE ...] [TEXT ...]
       pinnace --mode rpc [OPTIONS]
       pinnace acp          serve an editor (Agent Client Protocol)
       pinnace attach NAME  as --mode rpc; the agent outlives its client
       pinnace agents       list these agents; stop, restart or remove one
       pinnace host         keep these agents running; status, stop
       pinnace batch TASKS  run an agent for each task of a file
       pinnace auth         store, remove or list keys of providers
       pinnace trust [DIR]  let a project's .pi configure the agent; untrust
       pinnace mcp          list, test, add, remove MCP servers, sign in to them
       pinnace install SRC  add a package of extensions and skills: npm:NAME,
                            git:HOST/PATH, a folder; also remove, list, update
       pinnace sessions     list the sessions of this folder
       pinnace doctor       check files, keys, extensions, MCP servers
       pinnace completion SHELL
                            print the completion script of a shell
       pinnace explain NAME explain a rule of the protocol or a transition
       pinnace spec [NAME]  print the protocol: reference, schema, statechart
       pinnace demo         show a short conversation without a network
       pinnace shim DIR     write `pi` and `cli.js` that start pinnace, for
                            clients that look for these names
"""

# Kept as they are, too; a test runs them.
_EXAMPLES: Final = """\
Examples:
  pinnace -p "What does this project do?"
  git diff | pinnace -p "Review this change"
  pinnace -p @README.md "What is missing here?" "And what is too long?"
  pinnace -p --max-turns 50 --max-cost 2 --max-run-seconds 900 "Fix the tests"
  pinnace --mode json "Hello" > records.jsonl
  source <(pinnace completion bash)
"""

# Kept as they are, line by line.
NOTES: Final = """\
Models:
  Those of Anthropic, OpenAI, Google, OpenRouter and others are built in. Other
  servers are described in models.json, which may have comments:

    {"providers": {"local": {
      "baseUrl": "http://127.0.0.1:8080/v1",
      "api": "openai-completions",
      "apiKey": "none",
      "models": [{"id": "qwen3", "contextWindow": 32768, "maxTokens": 4096}]
    }}}

  Select it with --model local/qwen3. Without --model and --provider, pinnace
  takes the first of --models, else defaultProvider and defaultModel of
  settings.json, else the default model of the first provider that has a key.
  Without any the process starts, and prompts fail with an error that names
  what is missing.

Keys, in order of precedence:
  1. --api-key, --api-key-file or --api-key-fd
  2. auth.json: {"local": {"type": "api_key", "key": "..."}}
  3. apiKey in models.json
  4. the provider's variable, such as OPENAI_API_KEY

  In files a key may be the text itself, $NAME or ${NAME} for a variable, or
  !command for what a command prints. `pinnace auth login PROVIDER` reads a
  key from stdin and stores it in auth.json. Commands of tools do not get the
  variables of providers unless shellProviderKeys in settings.json is true.

Files:
  models.json, auth.json and settings.json are in ~/.pi/agent. They are read
  at start; none is required. Sessions are in ~/.pi/agent/sessions, a folder
  for each working folder. The .pi/settings.json of a trusted project takes
  precedence over the user's.

Variables:
  PI_CODING_AGENT_DIR     Another folder than ~/.pi/agent.
  PI_CODING_AGENT_SESSION_DIR
                          The default of --session-dir.
  PI_OFFLINE=1            The same as --offline.
  PINNACE_PROTOCOL        The default of --protocol.
  PINNACE_LOG             The default of --log-file.
  PINNACE_OFFLINE_SCRIPT, PINNACE_OFFLINE_DELAY_MS
                          The script and the delay of the offline model.

Single questions (-p, --mode json, or stdin that is not a terminal):
  The first prompt is the text of stdin, the files, and the first TEXT, one
  after the other; each further TEXT is a prompt of its own. Images are
  attached. Questions of extensions take their defaults.

Exit codes:
  0         Success. In mode json also if the model failed.
  1         The model, a key, a file or a session is missing; a limit was
            reached; in mode text, the model failed or its answer was cut.
  2         Usage error, or a feature of pi that pinnace does not support.
  70        A defect of pinnace: every command is answered with internal_error,
            the session is saved. The log on stderr has the traceback.
  129, 143  SIGHUP, SIGTERM. After SIGINT it ends by that signal.
"""


def manual(words: Sequence[str]) -> str:
    """Return the help of the program, with the options of the extensions that it would load."""
    width = _width(_WIDEST_MANUAL)
    column = max(len(_shown(option)) for group in GROUPS for option in group.options)
    parts = [_USAGE, _EXAMPLES, _paragraph(SUMMARY, width)]
    for group in GROUPS:
        if group.is_listed:
            names = wrap(", ".join("/".join(option.names) for option in group.options), width - len(_INDENT))
            lines = [f"{_INDENT}{line}" for line in names]
        else:
            rows = [_row(_shown(option), option.help or "", column, width) for option in group.options]
            lines = [line for row in rows for line in row]
        parts.append("\n".join([f"{group.title}:", *lines, ""]))
    return "\n".join([*parts, NOTES]).removesuffix("\n") + _options_of_extensions(words)


def _options_of_extensions(words: Sequence[str]) -> str:
    """Return what extensions add to the help; no code is loaded if there are none."""
    from pinnace_rpc.options.extension_hints import may_find_extensions

    is_named = any(word == "-e" or word.startswith("--extension") for word in words)
    if not (is_named or may_find_extensions(os.environ)):
        return ""
    from pinnace_rpc.options.extension_preview import flag_lines, named_in, preview

    named, is_discovering = named_in(words)
    lines = flag_lines(preview(named, is_discovering=is_discovering).flags)
    return f"\n{lines}" if lines else ""


def page(command: Subcommand) -> str:
    """Return the help of a subcommand."""
    width = _width(_WIDEST_PAGE)
    words = ["[OPTIONS]", *(argument.metavar for argument in command.arguments)]
    if command.subcommands:
        words += ["COMMAND", "[ARGS]..."]
    start = f"Usage: {command.name} "
    usage = fill(" ".join(words), width, initial_indent=start, subsequent_indent=" " * len(start))
    options = [(_shown(option), option.help or "") for option in (*command.options, HELP_OPTION)]
    parts = [f"{usage}\n", _paragraph(command.help, width), _section("Options", options, width)]
    if command.subcommands:
        names = [each.name.rpartition(" ")[2] for each in command.subcommands]
        room = width - 3 * len(_INDENT) - max(map(len, names))
        sentences = [each.help.split(". ")[0].rstrip(".") + "." for each in command.subcommands]
        rows = [(name, shorten(text, room, placeholder="...")) for name, text in zip(names, sentences, strict=True)]
        parts.append(_section("Commands", rows, width))
    return "\n".join(parts).rstrip("\n")


def _section(title: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    column = max(len(name) for name, _ in rows)
    lines = [line for name, text in rows for line in _row(name, text, column, width)]
    return "\n".join([f"{title}:", *lines, ""])


def _row(name: str, text: str, column: int, width: int) -> list[str]:
    """Lay out a text beside a name. The name of an option is never broken."""
    beside = f"{_INDENT}{name:<{column}}{_INDENT}"
    return wrap(text, width, initial_indent=beside, subsequent_indent=" " * len(beside), break_on_hyphens=False)


def _shown(option: Option) -> str:
    names = ", ".join(sorted(option.names, key=lambda name: len(name) - len(name.lstrip("-"))))
    return names if option.metavar is None else f"{names} {option.metavar}"


def _paragraph(text: str, width: int) -> str:
    return fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT) + "\n"


def _width(widest: int) -> int:
    return max(min(get_terminal_size().columns - 2, widest), _NARROWEST)
