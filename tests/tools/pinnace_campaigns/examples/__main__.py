"""Records the conversations of the reference: `python -P -m pinnace_campaigns.examples FOLDER -- COMMAND…`.

`… spec/examples commands/ -- pinnace` records those of the commands alone.
What differs from machine to machine and from time to time is replaced: folders, ids, times, ports, the version.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pinnace_campaigns.examples.commands import COMMAND_EXAMPLES
from pinnace_campaigns.examples.conversations import CONVERSATIONS, Conversation, Player
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

_FIRST_MS: Final = 1_760_000_000_000
_TIMES: Final = frozenset({"timestamp"})


def record(conversation: Conversation, command: Sequence[str], root: Path, env: Mapping[str, str] | None = None) -> str:
    """Play a conversation with an agent and return the text of its file.

    Args:
        conversation: What to play.
        command: The agent's.
        root: A folder for its home.
        env: More variables for it.
    """
    with AgentStarter(command, root, env, is_specified=True) as starter:
        agent = starter(
            conversation.script,
            *conversation.flags,
            settings=conversation.settings,
            has_session=conversation.has_session,
            is_checked=conversation.is_checked,
        )
        player = Player(agent)
        conversation.play(player)
        last = agent.mark()
        lines = [*_lines(player, last if agent.alive else len(agent.records))]
        tidy = _Tidy(agent)
    head = {"example": conversation.title, "about": conversation.about, "rules": conversation.rules.split()}
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in (head, *map(tidy.line, lines)))


def _lines(player: Player, end: int) -> Iterable[dict[str, Any]]:
    """Merge what was sent into what came, from where the player began; what was asked between is left out."""
    begin = max((place for place, what in player.sent if what is None), default=0)
    sent = [(place, what) for place, what in player.sent if what is not None and place >= begin]
    for received in player.agent.records[begin:end]:
        while sent and sent[0][0] <= received.number:
            yield {"dir": "in", "record": sent.pop(0)[1]}
        if not str(received.record.get("id", "")).startswith("driver-"):
            yield {"dir": "out", "record": received.record}
    yield from ({"dir": "in", "record": what} for _, what in sent)


class _Tidy:
    """Replaces what differs between recordings, the same by the same."""

    def __init__(self, agent: HomedAgent) -> None:
        home = agent.home
        self._folders = [
            (str(home.work), "/srv/project"),
            (str(home.agent_dir), "/srv/.pi/agent"),
            (str(home.sessions), "/srv/.pi/agent/sessions"),
            (str(home.root), "/srv"),
        ]
        self._known: dict[str, str] = {}

    def line(self, line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "record": self._value(line["record"], "")}

    def _value(self, value: object, key: str) -> object:
        if isinstance(value, dict):
            return {name: self._value(each, name) for name, each in cast("dict[str, object]", value).items()}
        if isinstance(value, list):
            return [self._value(each, key) for each in cast("list[object]", value)]
        if key in _TIMES and isinstance(value, int):
            return _FIRST_MS
        if key in {"pid", "durationMs"}:
            return 42
        if key == "version":
            return "0.0.0"
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        for found, stands in self._folders:
            text = text.replace(found, stands)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.-]+Z", "2026-01-01T00-00-00-000Z", text)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", self._id, text)
        return re.sub(r"\b[0-9a-f]{8}\b", self._id, text)

    def _id(self, found: re.Match[str]) -> str:
        text = found[0]
        number = len(self._known) + 1
        return self._known.setdefault(text, f"{'0' * 8}{text[8:-4].translate(_ZEROS)}{number:04}"[-len(text) :])


_ZEROS: Final = str.maketrans("123456789abcdef", "0" * 15)


def main(arguments: list[str]) -> int:
    """Record all of them, or those whose names begin with a word in front of `--`; return the exit code."""
    if "--" not in arguments or not arguments[: arguments.index("--")]:
        sys.stderr.write("usage: python -P -m pinnace_campaigns.examples FOLDER [NAME…] -- COMMAND…\n")
        return 2
    at = arguments.index("--")
    folder, names = Path(arguments[0]), tuple(arguments[1:at])
    for conversation in (*CONVERSATIONS, *COMMAND_EXAMPLES):
        if names and not conversation.name.startswith(names):
            continue
        with tempfile.TemporaryDirectory() as root:
            text = record(conversation, arguments[at + 1 :], Path(root))
        path = folder / f"{conversation.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"recorded {conversation.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
