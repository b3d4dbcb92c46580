"""Which key does what: the actions of pi's `keybindings.json` that this client has, by their names there.

Reads the user's file. A wrong entry is reported and leaves the default keys of its action, and no other. Must not know
widgets.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, cast

DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "tui.input.submit": ("enter",),
    "tui.input.newLine": ("shift+enter", "ctrl+j"),
    "tui.input.tab": ("tab",),
    "tui.editor.historyPrevious": (),
    "tui.editor.historyNext": (),
    "tui.altScreen.pageUp": ("pageUp",),
    "tui.altScreen.pageDown": ("pageDown",),
    "tui.altScreen.halfPageUp": (),
    "tui.altScreen.halfPageDown": (),
    "tui.altScreen.lineUp": (),
    "tui.altScreen.lineDown": (),
    "tui.altScreen.previousPrompt": ("ctrl+shift+up",),
    "tui.altScreen.nextPrompt": ("ctrl+shift+down",),
    "tui.altScreen.search": ("ctrl+shift+f", "f3"),
    "tui.altScreen.top": ("ctrl+home",),
    "tui.altScreen.bottom": ("ctrl+end",),
    "app.interrupt": ("escape",),
    "app.clear": ("ctrl+c",),
    "app.exit": ("ctrl+d",),
    "app.suspend": ("ctrl+z",),
    "app.editor.external": ("ctrl+g",),
    "app.session.new": (),
    "app.session.tree": (),
    "app.session.fork": (),
    "app.session.resume": (),
    "app.model.select": ("ctrl+l",),
    "app.model.cycleForward": ("ctrl+p",),
    "app.thinking.cycle": ("shift+tab",),
    "app.thinking.toggle": ("ctrl+t",),
    "app.tools.expand": ("ctrl+o",),
    "app.message.copy": ("ctrl+x",),
    "app.clipboard.pasteImage": ("ctrl+v",),
    "app.message.followUp": ("alt+enter", "ctrl+q"),
    "app.message.dequeue": ("alt+up",),
    "app.message.queue": ("alt+q",),
}
"""The default keys of each action, as pi's reference names them; `app.message.queue` is of this client alone."""

MEANINGS: Final[Mapping[str, str]] = {
    "tui.input.submit": "send the message; while the agent works, steer it",
    "tui.input.newLine": "a new line",
    "tui.input.tab": "complete a command or a file",
    "tui.editor.historyPrevious": "the message before in the history",
    "tui.editor.historyNext": "the next message of the history",
    "tui.altScreen.pageUp": "scroll a page up",
    "tui.altScreen.pageDown": "scroll a page down",
    "tui.altScreen.halfPageUp": "scroll half a page up",
    "tui.altScreen.halfPageDown": "scroll half a page down",
    "tui.altScreen.lineUp": "scroll a line up",
    "tui.altScreen.lineDown": "scroll a line down",
    "tui.altScreen.previousPrompt": "the previous message of yours",
    "tui.altScreen.nextPrompt": "the next message of yours",
    "tui.altScreen.search": "search the conversation",
    "tui.altScreen.top": "scroll to the beginning",
    "tui.altScreen.bottom": "scroll to the end, and follow it",
    "app.interrupt": "abort; queued messages go back into the editor",
    "app.clear": "copy the selection, else clear the editor; twice: leave",
    "app.exit": "leave, when the editor is empty",
    "app.suspend": "suspend",
    "app.editor.external": "write in $VISUAL or $EDITOR",
    "app.session.new": "start a new session",
    "app.session.tree": "continue from another place of the session",
    "app.session.fork": "start a session from before a message",
    "app.session.resume": "open another session",
    "app.model.select": "select a model",
    "app.model.cycleForward": "the next model",
    "app.thinking.cycle": "the next thinking level",
    "app.thinking.toggle": "unfold or fold all thoughts",
    "app.tools.expand": "unfold or fold all outputs of tools",
    "app.message.copy": "copy the last answer",
    "app.clipboard.pasteImage": "insert the path of the clipboard's picture",
    "app.message.followUp": "send the message for when the agent would stop",
    "app.message.dequeue": "take queued messages back into the editor",
    "app.message.queue": "edit, move or remove one queued message",
}
"""What each action does."""

OTHERS: Final = frozenset(
    "$schema app.model.cycleBackward app.models.clearAll app.models.enableAll app.models.reorderDown "
    "app.models.reorderUp app.models.save app.models.toggleProvider app.session.delete app.session.deleteNoninvasive "
    "app.session.rename app.session.toggleNamedFilter app.session.togglePath app.session.toggleSort app.thinking.save "
    "app.tree.editLabel app.tree.filter.all app.tree.filter.cycleBackward app.tree.filter.cycleForward "
    "app.tree.filter.default app.tree.filter.labeledOnly app.tree.filter.noTools app.tree.filter.userOnly "
    "app.tree.foldOrUp app.tree.toggleLabelTimestamp app.tree.unfoldOrDown tui.altScreen.searchClose "
    "tui.altScreen.searchNext tui.altScreen.searchPrevious tui.editor.cursorDown tui.editor.cursorLeft "
    "tui.editor.cursorLineEnd tui.editor.cursorLineStart tui.editor.cursorRight tui.editor.cursorUp "
    "tui.editor.cursorWordLeft tui.editor.cursorWordRight tui.editor.deleteCharBackward "
    "tui.editor.deleteCharForward tui.editor.deleteToLineEnd tui.editor.deleteToLineStart "
    "tui.editor.deleteWordBackward tui.editor.deleteWordForward tui.editor.jumpBackward tui.editor.jumpForward "
    "tui.editor.pageDown tui.editor.pageUp tui.editor.undo tui.editor.yank tui.editor.yankPop tui.input.copy "
    "tui.select.cancel tui.select.confirm tui.select.down tui.select.pageDown tui.select.pageUp tui.select.up".split()
)
"""What else pi's file may hold: actions of parts that this client does not have."""

RESERVED: Final = frozenset(
    "app.interrupt app.clear app.exit app.suspend app.thinking.cycle app.model.cycleForward app.model.select "
    "app.tools.expand app.thinking.toggle app.editor.external app.message.copy app.message.followUp "
    "tui.input.submit".split()
)
"""Actions whose keys no extension takes, as in pi."""
_RESERVED_KEYS: Final[Mapping[str, str]] = {
    "enter": "tui.select.confirm",
    "escape": "tui.select.cancel",
    "ctrl+c": "tui.input.copy",
    "ctrl+k": "tui.editor.deleteToLineEnd",
}
"""Further ones, of parts of this client whose keys are fixed."""

FILE_NAME: Final = "keybindings.json"
_SPECIAL: Final[Mapping[str, str]] = {"esc": "escape", "return": "enter"}
# Where Textual's name of a key is not that of its character. Here, since `main` reads keys before Textual is imported.
_SHORT_NAMES: Final[Mapping[str, str]] = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
_LABELS: Final[Mapping[str, str]] = {"pageup": "Page Up", "pagedown": "Page Down"}
_MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super"})
_NAMES: Final = frozenset(
    "escape enter tab space backspace delete insert clear home end pageup pagedown up down left right".split()
) | {f"f{number}" for number in range(1, 25)}


class Shortcut(NamedTuple):
    """A key of an extension."""

    key: str
    """As the agent lists it."""
    description: str
    """What it does; empty: unknown."""
    path: str
    """The extension."""


class Keys:
    """The keys of each action, and those of extensions."""

    def __init__(self, changes: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Take the user's changes to the defaults."""
        changes = changes or {}
        self._keys = {**DEFAULTS, **changes}
        # A key that the user gives to an action is no more the default one of another.
        pairs = [*_pairs({each: keys for each, keys in DEFAULTS.items() if each not in changes}), *_pairs(changes)]
        self._actions = {_normal(key): action for key, action in pairs}
        self._reserved = {_normal(key): action for key, action in _RESERVED_KEYS.items()}
        self._reserved |= {key: action for key, action in self._actions.items() if action in RESERVED}
        self._shortcuts: dict[frozenset[str], Shortcut] = {}

    def action(self, key: str) -> str | None:
        """Return the action of a key, as Textual names it; None: it has none, or an extension has the key."""
        return None if self._shortcuts and _normal(key) in self._shortcuts else self._actions.get(_normal(key))

    def shortcut(self, key: str) -> Shortcut | None:
        """Return what an extension does at a key, as Textual names it."""
        return self._shortcuts.get(_normal(key)) if self._shortcuts else None

    def bind(self, shortcuts: Sequence[Shortcut]) -> list[str]:
        """Give extensions their keys, in place of those that they had; of several with one key, the last has it.

        Returns:
            A line for each that gets no key, and for each that takes a key of an action or of another extension.
        """
        self._shortcuts = {}
        problems: list[str] = []
        for each in shortcuts:
            what = f"{each.path}: the shortcut {each.key}"
            if not _is_key(each.key):
                problems.append(f"{what} has no effect: expected a key such as ctrl+shift+p, alt+x or f5")
                continue
            key = _normal(each.key)
            if (reserved := self._reserved.get(key)) is not None:
                problems.append(f"{what} has no effect: it is the key of {reserved}")
                continue
            former = self._shortcuts.get(key)
            if (taken := self._actions.get(key) if former is None else former.path) is not None:
                problems.append(f"{what} takes the key of {taken}")
            self._shortcuts[key] = each
        return problems

    def rows(self) -> list[tuple[str, str]]:
        """Return actions that have keys, with their keys in words."""
        rows = [(action, [key for key in keys if self.action(key) == action]) for action, keys in self._keys.items()]
        return [(action, ", ".join(map(in_words, keys))) for action, keys in rows if keys]

    def table(self) -> list[str]:
        """Return a line for each action, with its keys, what it does, and its name in the file."""
        keys = dict(self.rows())
        rows = [(keys.get(action, "no key"), meaning, action) for action, meaning in MEANINGS.items()]
        rows.sort(key=lambda row: row[0] == "no key")
        rows += [
            (in_words(each.key), each.description or "of an extension", each.path) for each in self._shortcuts.values()
        ]
        width = max(len(labels) for labels, _, _ in rows)
        return [f"{labels:{width}}  {meaning}  ({action})" for labels, meaning, action in rows]


def in_words(key: str) -> str:
    """Return a key as it is labelled: `Ctrl+J`, `Page Up`."""
    *modifiers, name = _parts(key) or [key]
    label = _LABELS.get(name.lower(), name.upper() if len(name) == 1 else name.capitalize())
    return "+".join([*(each.capitalize() for each in modifiers), label])


def key_name(character: str) -> str:
    """Return the name of the key that writes a character, as Textual names it: the character itself has none."""
    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return _SHORT_NAMES.get(name, name)


def read_keys(path: Path) -> tuple[Keys, list[str]]:
    """Return the keys of a file, and what is wrong with it."""
    try:
        value: object = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Keys(), []
    except (OSError, ValueError) as error:
        return Keys(), [f"{path}: {error}"]
    if not isinstance(value, dict):
        return Keys(), [f"{path}: expected an object of actions and their keys"]
    changes: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for action, given in cast("dict[str, object]", value).items():
        keys = [given] if isinstance(given, str) else given
        if action not in DEFAULTS:
            problems += [] if action in OTHERS else [f"{path}: {_unknown(action)}"]
        elif not isinstance(keys, list) or not all(isinstance(key, str) for key in cast("list[object]", keys)):
            problems.append(f"{path}: {action}: expected a key or a list of keys; its default keys are used")
        else:
            named = cast("list[str]", keys)
            wrong = [key for key in named if not _is_key(key)]
            problems += [
                f"{path}: {action}: expected a key such as ctrl+o, alt+enter or f2, not {key!r}" for key in wrong
            ]
            usable = tuple(key for key in named if key not in wrong)
            if usable or not wrong:
                changes[action] = usable
    keys_of_all = Keys(changes)
    problems += [
        f"{path}: {key} is given to {action} and to {other}, which has it now"
        for key, action in _pairs(changes)
        if (other := keys_of_all.action(key)) != action
    ]
    return keys_of_all, problems


def _unknown(action: str) -> str:
    near = get_close_matches(action, DEFAULTS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{action[:100]}: there is no such action{hint}"


def _pairs(keys: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return each key with its action."""
    return [(key, action) for action, each in keys.items() for key in each]


def _is_key(key: str) -> bool:
    """Return whether this is the name of a key, with or without modifiers."""
    *modifiers, name = _parts(key) or [""]
    is_named = len(name) == 1 or name.lower() in _NAMES or name.lower() in _SPECIAL
    return is_named and all(each.lower() in _MODIFIERS for each in modifiers)


def _parts(key: str) -> list[str]:
    parts = key.split("+")
    if key.endswith("+"):
        parts = [*key[:-1].rstrip("+").split("+"), "+"]
    return [part for part in parts if part]


def _normal(key: str) -> frozenset[str]:
    """Return a key with its modifiers, however they are ordered and whichever of both programs names it."""
    *modifiers, name = _parts(key)
    if len(name) == 1 and name.isalpha() and name.isupper():
        modifiers.append("shift")
    name = (key_name(name) if len(name) == 1 else name).lower()
    return frozenset({*(each.lower() for each in modifiers if each.lower() in _MODIFIERS), _SPECIAL.get(name, name)})
