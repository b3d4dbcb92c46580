"""The redactor of the process: it knows every key that the process has, and takes them out of what is written.

What holds no key is returned as it is, the very object, after one search. A record stays valid JSON: only strings
change, and what they hold beside a key stays byte for byte. Names of the protocol are never changed, and numbers are
not looked into. Requests to a model are not written by the callers of this room: they hold what they hold.
"""

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Final

from pinnace_agent.redaction.policy import LEAST_CHARS

if TYPE_CHECKING:  # loaded with the first key that is known, or found
    from pinnace_agent.redaction.search import KnownKeys


# DEVIATION D-64: known keys are in no output.
class Redactor:
    """The known keys of one process, and the one place that compares texts with them. For several threads."""

    def __init__(self) -> None:
        """Know no key."""
        self.forget()

    def __repr__(self) -> str:
        """Return the same for every redactor."""
        return "Redactor(...)"

    def forget(self) -> None:
        """Know no key any more."""
        self._seen: dict[str, None] = {}
        self._known: KnownKeys | None = None
        self._has_learnt = False
        self._learning = Lock()
        self.is_active = False
        """Whether there may be a key to look for."""

    def learn(self, *keys: str | None) -> None:
        """Take these out of everything that is written from now on, also after what held them is gone.

        What was read or said with a key is still there then, and so is the key itself.

        Args:
            *keys: Each is a key by its role. None, and what can't be a key (`shapes`), are passed over.
        """
        for key in keys:
            if key and len(key := key.strip()) >= LEAST_CHARS and key not in self._seen:
                with self._learning:
                    self._seen[key] = None
                    self._has_learnt = self.is_active = True

    def known(self) -> "KnownKeys":
        """Return what is looked for; its forms are made when something is written after a key was learnt."""
        known = self._known
        if known is None or self._has_learnt:
            from pinnace_agent.redaction.search import KnownKeys

            with self._learning:
                known = self._known = KnownKeys(self._seen)
                self._has_learnt, self.is_active = False, bool(known.forms)
        return known

    def learn_values(self, values: Mapping[str, str]) -> None:
        """Learn what is a key of headers or variables, by their names and forms."""
        if values:
            from pinnace_agent.redaction.credentials import secrets_of

            for name, value in values.items():
                self.learn(*secrets_of(name, value))

    def learn_address(self, address: str) -> None:
        """Learn the password of an address, and what its query says for a key: `?key=…`."""
        if "@" in address or "?" in address:
            from pinnace_agent.redaction.credentials import secrets_of_address

            self.learn(*secrets_of_address(address))

    def text(self, text: str) -> str:
        """Return a text that is no JSON without the keys in it."""
        if not self.finds(text):
            return text
        from pinnace_agent.redaction.replacing import replace_in_text

        return replace_in_text(text, self.known().forms)

    def finds(self, text: str) -> bool:
        """Return whether a text holds what `text` might take out of it."""
        return self.is_active and self.known().in_text.in_text(text)

    def line(self, line: bytes) -> bytes:
        """Return JSON, such as a record's line, without the keys in its strings."""
        if not self.is_active or not self.known().in_json(line):
            return line
        from pinnace_agent.redaction.replacing import replace_in_json

        known = self.known()
        return replace_in_json(line, known.forms, known.in_json)


REDACTOR: Final = Redactor()
"""The one of this process."""
