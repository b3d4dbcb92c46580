"""The session as extensions read it: `ctx.session_manager`.

Every returned value is an immutable snapshot. A reader belongs to one session instance, as contexts do.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from pinnace_agent.core.frozen import FrozenDict, Snapshots, frozen
from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.ports.host_view import SessionView
from pinnace_agent.extensions.registration.registrations import Generation

_NO_ENTRY: Final = "there is no entry with the id {!r} in this session"


@usable_from_any_thread()
class SessionReader:
    """Reads the current session. Entries are mappings in the spelling of the session file, oldest first."""

    __slots__ = ("_generation", "_snapshots", "_view")

    def __init__(self, generation: Generation, view: Callable[[], SessionView]) -> None:
        """Read the session that `view` returns, at each call."""
        self._generation = generation
        self._view = view
        self._snapshots = Snapshots()

    def get_cwd(self) -> str:
        """Return the working folder of tools."""
        return self._session.cwd

    def get_session_dir(self) -> str | None:
        """Return the folder of the session files; None when nothing is saved."""
        return self._session.folder

    def get_session_id(self) -> str:
        """Return the session's id."""
        return self._session.id

    def get_session_file(self) -> str | None:
        """Return the session's file; None in memory."""
        return self._session.path

    def get_session_name(self) -> str | None:
        """Return the display name."""
        return self._session.name

    def get_header(self) -> FrozenDict:
        """Return the first line of the file."""
        return FrozenDict({key: frozen(value) for key, value in self._session.header.items()})

    def get_entries(self) -> tuple[FrozenDict, ...]:
        """Return all entries of all branches. For state that belongs to a branch, take `get_branch`."""
        return self._snapshots.all(self._session.entries())

    def get_entry(self, entry_id: str) -> FrozenDict | None:
        """Return one entry."""
        entry = self._session.find(entry_id)
        return None if entry is None else self._snapshots.of(entry)

    def get_branch(self, leaf_id: str | None = None) -> tuple[FrozenDict, ...]:
        """Return the entries from the root to an entry, by default to the leaf.

        Raises:
            KeyError: There is no such entry.
        """
        session = self._session
        if leaf_id is not None and session.find(leaf_id) is None:
            raise KeyError(_NO_ENTRY.format(leaf_id))
        return self._snapshots.all(session.branch(leaf_id))

    def get_tree(self) -> tuple[Mapping[str, object], ...]:
        """Return the roots: `entry`, `children`, and `label` where there is one. May nest thousands of levels."""
        made: list[object] = []
        left: list[tuple[Mapping[str, object], list[object]]] = [(root, made) for root in self._session.tree()]
        # In a loop: a long session nests thousands of levels.
        for node, siblings in left:
            children: list[object] = []
            siblings.append({**node, "entry": self._snapshots.of(_mapping(node["entry"])), "children": children})
            left += [(_mapping(child), children) for child in cast("Sequence[object]", node["children"])]
        return tuple(_mapping(each) for each in made)

    def get_leaf_id(self) -> str | None:
        """Return the id of the leaf, the entry that the session continues from."""
        return self._session.leaf_id

    def get_leaf_entry(self) -> FrozenDict | None:
        """Return the leaf."""
        leaf_id = self._session.leaf_id
        return None if leaf_id is None else self.get_entry(leaf_id)

    def get_label(self, entry_id: str) -> str | None:
        """Return the bookmark of an entry."""
        return self._session.label(entry_id)

    def build_session_context(self) -> Mapping[str, object]:
        """Return the messages of this branch that a model would receive, as `messages`."""
        return {"messages": tuple(frozen(message) for message in self._session.messages())}

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._generation.thread

    @property
    def _session(self) -> SessionView:
        self._generation.check()
        return self._view()


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value)  # cast: a node of a tree, or an entry
