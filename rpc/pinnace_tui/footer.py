"""The lines below the editor: where the agent works and how much it has used, as far as the width allows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pinnace_tui.content.drawn_lines import drawn_line
from pinnace_tui.content.rendering import plain_line
from pinnace_tui.content.values import Record, mapping, number, objects, text
from pinnace_tui.input.keys import Keys

HOW_TO_GET_A_MODEL: Final = (
    "/login lists the providers, stores a key or logs in; then /model selects a model. "
    "models.json describes servers of your own, and `pinnace --provider offline` needs neither a key nor a network."
)
_THOUSAND: Final = 1000


@dataclass(slots=True)
class FooterState:
    """What the footer shows."""

    state: Record = field(default_factory=dict[str, object])
    """As `get_state` returns it."""
    stats: Record = field(default_factory=dict[str, object])
    """As `get_session_stats` returns it."""
    statuses: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of extensions."""
    branch: str = ""
    agent: str = ""
    """The name of an agent of the host."""


def footer(shown: FooterState, width: int) -> Text:
    """Return two lines, and a third one if extensions have a status."""
    state, stats = shown.state, shown.stats
    place = _home(text(state, "cwd"))
    place = f"{place} ({shown.branch})" if shown.branch else place
    marks = [shown.agent and f"agent {shown.agent}", text(state, "sessionName")]
    if text(state, "toolApproval") not in ("", "never"):
        marks.append(f"tools: {text(state, 'toolApproval')}")
    if count := len(objects(state, "warnings")):
        marks.append(f"{count} warning{'s' if count > 1 else ''}: /warnings")
    first = _line(place, " · ".join(filter(None, marks)), width)
    model = mapping(state, "model")
    name = text(model, "id") or "no model"
    level = text(state, "thinkingLevel")
    right = f"{name} · {level}" if model.get("reasoning") is True and level else name
    lines = [first, _line(_usage(stats), right, width)]
    if shown.statuses:
        statuses = Text(" · ").join([drawn_line(each) for each in shown.statuses.values()])
        statuses.truncate(width, overflow="ellipsis")
        return Text("\n", no_wrap=True).join([*map(Text, lines), statuses])
    return Text("\n".join(lines), no_wrap=True)


def welcome(state: Record, keys: Keys) -> str:
    """Return what an empty conversation shows: the program, the model or how to get one, and the keys to know."""
    model = mapping(state, "model")
    name = "/".join(filter(None, [text(model, "provider"), text(model, "id")]))
    actions = {
        "tui.input.submit": "send",
        "tui.input.newLine": "a new line",
        "app.interrupt": "abort",
        "app.exit": "leave",
    }
    known = dict(keys.rows())
    # Of several keys the last: it is the one that every terminal sends.
    shown = [f"{known[each].rpartition(', ')[2]}: {meaning}" for each, meaning in actions.items() if each in known]
    lines = [
        f"pinnace {_version()}",
        f"model: {name}  (/model for another)" if name else f"No model is selected. {HOW_TO_GET_A_MODEL}",
        " · ".join(shown),
        "/: commands · @: files · !: a shell command · /hotkeys: all keys",
    ]
    return "\n".join(lines)


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("pinnace")
    except metadata.PackageNotFoundError:
        return ""


def _usage(stats: Record) -> str:
    total = mapping(stats, "session")
    tokens = mapping(total, "tokens") or mapping(stats, "tokens")
    context = mapping(stats, "contextUsage")
    parts: list[str] = []
    if context:
        percent = context.get("percent")
        share = f"{percent:.0f}%" if isinstance(percent, int | float) else "?"
        parts.append(f"{share} of {_short(number(context, 'contextWindow'))}")
    parts.append(f"↑{_short(number(tokens, 'input'))} ↓{_short(number(tokens, 'output'))}")
    if number(tokens, "cacheRead"):
        parts.append(f"R{_short(number(tokens, 'cacheRead'))}")
    cost = number(total, "cost") or number(stats, "cost")
    parts.append(f"${cost:.3f}")
    return "  ".join(parts)


def _short(count: float) -> str:
    if count < _THOUSAND:
        return f"{count:.0f}"
    return f"{count / _THOUSAND:.1f}k" if count < 100 * _THOUSAND else f"{count / _THOUSAND:.0f}k"


def _line(left: str, right: str, width: int) -> str:
    """Put two texts at the ends of a line; the left one gives way."""
    left, right = plain_line(left), _cut(plain_line(right), width)
    room = width - cell_len(right) - (2 if right else 0)
    left = _cut(left, max(room, 0))
    return f"{left}{' ' * max(width - cell_len(left) - cell_len(right), 0)}{right}"


def _cut(content: str, width: int) -> str:
    if cell_len(content) <= width:
        return content
    return f"{set_cell_size(content, width - 1).rstrip()}…" if width > 1 else ""


def _home(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path


def branch_of(folder: str) -> str:
    """Return the branch that is checked out in a folder or above it, or the beginning of a commit; else nothing."""
    for place in (Path(folder), *Path(folder).parents):
        head = place / ".git"
        try:
            if head.is_file():
                head = place / head.read_text("utf-8").removeprefix("gitdir:").strip()
            elif not head.is_dir():
                continue
            content = (head / "HEAD").read_text("utf-8").strip()
        except (OSError, ValueError):
            return ""
        return content.removeprefix("ref: refs/heads/") if content.startswith("ref:") else content[:8]
    return ""
