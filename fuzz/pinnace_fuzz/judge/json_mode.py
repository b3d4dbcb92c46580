"""The adapter `json`: judges what an agent of pi's command line writes in `--mode json`, by the same scenarios.

A process of that mode takes its prompt from the command line, reads no commands, and ends by itself. So a scenario is
played if its client sends one prompt and then only waits and looks, without the response that it begins with; where
another agent comes to rest, this one has to end. It may write records of its own behind the run. Exit codes are not
judged: each program has its own for an answer that failed. Campaigns send commands, so there are none.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pinnace_fuzz.judge.adapter import LaunchOptions, PiAdapter, Prepared
from pinnace_fuzz.judge.scenarios import scenario as s

# Of what is expected: a response at the beginning, and that nothing follows.
_NOT_EXPECTED: Final = re.compile(r"^resp\([^()]*\)(\[[^\]]*\])? *(\.\.\. *)?| *\$$")
_RESPONSE: Final = "resp("
_NOT_WRITTEN: Final = (_RESPONSE, "ui(", "extension_error")
_LOOKS: Final = (s.Wait, s.Answered, s.Reached, s.Open, s.Requests, s.Gone, s.Quiet, s.Files, s.Children)
# Words of a command line, and what it takes from a file.
_NO_MESSAGES: Final = ("-", "@")
# Text on stdin would be a part of the prompt; a pipe that stays open, waited for.
_WITHOUT_STDIN: Final = ("/bin/sh", "-c", 'exec "$0" "$@" < /dev/null')


class JsonModeAdapter(PiAdapter):
    """For agents of pi's command line and files, in the mode that prints the events of one prompt."""

    name = "json"
    is_one_prompt = True

    def not_for(self, scenario: s.Scenario) -> str:
        """Return what the mode has not that the scenario needs."""
        first, *others = scenario.client
        if _message(first) is None:
            return "--mode json takes one prompt, a text, and nothing before it"
        if any(not isinstance(each, _LOOKS) for each in others):
            return "--mode json takes nothing behind its prompt"
        if scenario.state or any(word in _expected(text) for text in scenario.expect for word in _NOT_WRITTEN):
            return "--mode json has no responses, dialogs and reports of extensions"
        return ""

    def as_played(self, scenario: s.Scenario) -> s.Scenario:
        """Return the scenario with its prompt on the command line, and without responses."""
        first, *others = scenario.client
        message = _message(first)
        assert message is not None, "not for this adapter"
        return replace(
            scenario,
            client=tuple(left for step in others if (left := _without_responses(step)) is not None),
            arguments=(*scenario.arguments, message),
            expect=tuple(each for text in scenario.expect if (each := _expected(text))),
            forbid=tuple(each for each in scenario.forbid if _RESPONSE not in each),
            exit=None,
        )

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Lay out a home as for `pi`."""
        prepared = super().prepare(command, root, base_url, launch_options)
        words = list(prepared.command)
        words[words.index("--mode") + 1] = "json"
        return prepared._replace(command=(*_WITHOUT_STDIN, *words))


def _message(step: s.Step) -> str | None:
    """Return the text of a prompt that says nothing else."""
    match step:
        case s.Send([{"type": "prompt", "message": str(message), **others}]) if not others.keys() - {"id"}:
            return None if message.startswith(_NO_MESSAGES) else message
        case _:
            return None


def _expected(text: str) -> str:
    return _NOT_EXPECTED.sub("", text)


def _without_responses(step: s.Step) -> s.Step | None:
    """Return what is left of a step; None: nothing."""
    match step:
        case s.Answered() | s.Quiet():  # it rests when it has ended, which is waited for at the end of each
            return None
        case s.Wait(wanted, keep):
            left = tuple(each for each in wanted if not (isinstance(each, str) and each.startswith(_RESPONSE)))
            return s.Wait(left, keep) if left else None
        case _:
            return step
