"""Prompts of servers as slash commands: `/mcp__SERVER__PROMPT`, with arguments as templates have them.

What a server makes of one becomes a message of the user; what it says in the name of the model is marked as such.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pinnace_agent.extensions.events.results import Blocks
from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.mcp import limits
from pinnace_agent.mcp.content import ModelContent, left_out, save_output, shown_result
from pinnace_agent.mcp.definitions import first_line

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.mcp.server import Server

_MOST_DESCRIPTION = 250
_MOST_SHOWN_CHARS = 100


class ServerPrompt(NamedTuple):
    """A prompt that a server offers."""

    name: str
    """What the server calls it."""
    description: str
    arguments: Sequence[str]
    required: frozenset[str]


class WrongPrompt(Exception):
    """A prompt can't be used; the text says why."""


def read_prompt(raw: object) -> ServerPrompt:
    """Read a prompt of `prompts/list`.

    Raises:
        WrongPrompt: It can't be used.
    """
    if not is_object(raw):
        raise WrongPrompt("it is no object")
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        raise WrongPrompt("it has no name")
    if len(name) > limits.NAME_CHARS:
        raise WrongPrompt(f"its name has more than {limits.NAME_CHARS} characters")
    listed = raw.get("arguments")
    given = [each for each in listed if is_object(each)] if is_list(listed) else []
    names = [str(each["name"]) for each in given if isinstance(each.get("name"), str)]
    if len(names) > limits.ARGUMENTS or any(len(each) > limits.NAME_CHARS for each in names):
        most = f"{limits.ARGUMENTS} arguments, or one whose name has more than {limits.NAME_CHARS} characters"
        raise WrongPrompt(f"it has more than {most}")
    required = frozenset(str(each["name"]) for each in given if each.get("required") is True)
    described = raw.get("description") or raw.get("title")
    text = first_line(described, _MOST_DESCRIPTION) if isinstance(described, str) else ""
    return ServerPrompt(name, text, names, required & frozenset(names))


async def prompts_of(server: "Server") -> tuple[dict[str, ServerPrompt], list[str]]:
    """Return the prompts of a server by what it calls them, and why others are left out.

    Raises:
        ServerError: It refuses to list them.
        CallTimedOut: It does not answer.
        LinkLost: There is no connection.
    """
    left_out: list[str] = []
    found: dict[str, ServerPrompt] = {}
    for each in await server.pages(await server.ready(), "prompts/list", "prompts", left_out):
        try:
            prompt = read_prompt(each)
            if len(found) >= limits.PROMPTS:
                raise WrongPrompt(f"there are more than {limits.PROMPTS}")
        except WrongPrompt as error:
            name = each.get("name") if is_object(each) else None
            if len(left_out) < limits.PAGES:
                left_out.append(f"prompt {first_line(str(name), _MOST_SHOWN_CHARS)}: {error}")
        else:
            found[prompt.name] = prompt
    return found, left_out


class WrongArguments(Exception):
    """The arguments of a prompt are wrong; the text says how."""


def read_arguments(prompt: ServerPrompt, text: str) -> dict[str, str]:
    """Return the arguments of a call: `name=value`, or by position.

    Raises:
        WrongArguments: One is missing, or there are too many.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    found: dict[str, str] = {}
    plain: list[str] = []
    for word in words:
        name, is_named, value = word.partition("=")
        if is_named and name in prompt.arguments:
            found[name] = value
        else:
            plain.append(word)
    free = [name for name in prompt.arguments if name not in found]
    if len(free) == 1 and plain:
        plain = [" ".join(plain)]  # the only one may have blanks
    if len(plain) > len(free):
        raise WrongArguments(f"it takes {len(prompt.arguments)} arguments: {', '.join(prompt.arguments) or 'none'}")
    found |= dict(zip(free, plain, strict=False))
    if missing := [name for name in prompt.arguments if name in prompt.required and name not in found]:
        raise WrongArguments(f"missing: {', '.join(missing)}")
    return found


def message_of(server: str, prompt: ServerPrompt, result: Mapping[str, object]) -> Blocks:
    """Return the message of the user that the result of `prompts/get` is."""
    shown = ModelContent()
    listed = result.get("messages")
    messages = listed if is_list(listed) else []
    for each in messages[: limits.BLOCKS]:
        if not is_object(each) or not is_object(content := each.get("content")):
            continue
        made = shown_result(server, prompt.name, {"content": [content]}, save_output, reads_resources=True)
        if each.get("role") == "assistant":
            shown.say("[As the assistant:]")
        shown.blocks += made.blocks
    if len(messages) > limits.BLOCKS:
        shown.say(left_out(messages))
    return list(shown.blocks)
