"""What `--help` says: the options in groups, and what a user needs to know before the first start.

Layout and wording only; the options themselves are in `command`. Must not import anything slow, since every start
loads it.
"""

from collections.abc import Sequence
from textwrap import wrap
from typing import Final, NamedTuple

import click


class Group(NamedTuple):
    """Options under one title."""

    title: str
    options: Sequence[click.Option]
    is_listed: bool = False
    """Whether only the names are shown, one after the other."""


_USAGE: Final = """\
Usage: pinnace -p [OPTIONS] [@FILE ...] [TEXT ...]
       pinnace --mode rpc [OPTIONS]
       pinnace auth         keep the key of a provider, forget it, list all
       pinnace trust [DIR]  let a project's .pi configure the agent; untrust
       pinnace sessions     list the sessions of this folder as JSON lines
       pinnace completion SHELL
                            print what completes these words in a shell
       pinnace explain NAME say what a rule of the protocol means, or a row
       pinnace spec [NAME]  print the protocol: reference, schema, chart
       pinnace demo         hold a short conversation without a network
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
_NOTES: Final = """\
Models:
  Those of Anthropic, OpenAI, Google, OpenRouter and others are built in. Other
  servers are described in models.json, which may have comments:

    {"providers": {"local": {
      "baseUrl": "http://127.0.0.1:8080/v1",
      "api": "openai-completions",
      "apiKey": "none",
      "models": [{"id": "qwen3", "contextWindow": 32768, "maxTokens": 4096}]
    }}}

  It is then --model local/qwen3. Without --model and --provider it is the
  first of --models, else defaultProvider and defaultModel of settings.json,
  else a newer model of the first provider that has a key. Without any the
  process lives, and says what is missing when it gets a prompt.

Keys, the first that is there:
  1. --api-key
  2. auth.json: {"local": {"type": "api_key", "key": "..."}}
  3. apiKey in models.json
  4. the provider's variable, such as OPENAI_API_KEY

  In files a key may be the text itself, $NAME or ${NAME} for a variable, or
  !command for what a command prints. `pinnace auth login PROVIDER` reads a
  key from stdin and keeps it in auth.json. Tools don't get the variables of
  providers unless shellProviderKeys in settings.json is true.

Files:
  models.json, auth.json and settings.json are in ~/.pi/agent. They are read
  at start; none is needed, and only `pinnace auth` and `pinnace trust` write
  there. Sessions are kept in ~/.pi/agent/sessions, a folder for each working
  folder. A project's .pi/settings.json goes before the user's, if the
  project is trusted.

Variables:
  PI_CODING_AGENT_DIR     Another folder than ~/.pi/agent.
  PI_CODING_AGENT_SESSION_DIR
                          The default of --session-dir.
  PINNACE_PROTOCOL        The default of --protocol.
  PINNACE_OFFLINE_SCRIPT  What the offline model plays.

Asking (-p, --mode json, or stdin that is no terminal):
  The first prompt is what stdin says, the files, and the first TEXT, one
  after the other; each further TEXT is a prompt of its own. A picture is
  attached. Nothing is ever asked back.

Exit codes:
  0         Done. In mode json whatever the model said.
  1         Something that was asked for can't be done. In mode text also: the
            model failed or its answer was cut. A limit was reached.
  2         The command line makes no sense, or asks for what is not here.
  129, 143  SIGHUP, SIGTERM. After SIGINT it ends by that signal.
"""


class Manual(click.Command):
    """A command whose help shows its options in groups."""

    def __init__(self, name: str, groups: Sequence[Group], arguments: Sequence[click.Argument], summary: str) -> None:
        """Take the options of all groups, `--help` among them."""
        self._groups = groups
        super().__init__(
            name,
            params=[*(option for group in groups for option in group.options), *arguments],
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            help=summary,
        )

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show each way to start the program."""
        formatter.write(f"{_USAGE}\n{_EXAMPLES}")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the groups in their order, the texts of all options in one column."""
        records = {
            option: record
            for group in self._groups
            for option in group.options
            if (record := option.get_help_record(ctx)) is not None
        }
        column = max(len(name) for name, _ in records.values())
        for group in self._groups:
            formatter.write(f"\n{group.title}:\n")
            if group.is_listed:
                formatter.write(
                    _wrapped(", ".join("/".join(option.opts) for option in group.options), "", 0, formatter.width)
                )
                continue
            for option in group.options:
                name, text = records[option]
                formatter.write(_wrapped(text, name, column, formatter.width))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the notes as they are written."""
        formatter.write(f"\n{_NOTES}")


def _wrapped(text: str, name: str, column: int, width: int) -> str:
    """Lay out a text beside a name. The name of an option is never broken."""
    beside = f"  {name:<{column}}  " if column else "  "
    lines = wrap(text, width, initial_indent=beside, subsequent_indent=" " * len(beside), break_on_hyphens=False)
    return "\n".join([*lines, ""])
