"""Whether one of some short texts is in a long one: the check that every record and every appended line pays for.

Which way is the fastest depends on how much is searched. A start needs nothing that has to be made: it looks for one
text after the other. Short lines are then searched by a pattern. Where much is searched, the regular expressions of
pydantic_core are loaded (3 MiB, 20 ms): they look for all texts at once, at the speed of memory.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pinnace_agent.redaction.forms import anchors_of, forms_of, json_spellings

if TYPE_CHECKING:  # loaded when much is searched
    from pydantic_core import SchemaValidator

# In bytes times texts: what searches without the engine may have taken in all before the engine is loaded, some 30 ms;
# and before a pattern is made, which takes one.
_BUDGET: Final = 40_000_000
_UNPREPARED: Final = 1_500_000
# What looking for one text costs beyond its bytes; in shorter ones a pattern finds it sooner.
_OVERHEAD: Final = 400


class TextSearch:
    """Looks for any of some texts. For several threads."""

    __slots__ = ("_engine", "_left", "_pattern", "_schema", "_texts")

    def __init__(self, texts: Sequence[bytes]) -> None:
        """Look for these; each is UTF-8."""
        self._texts = tuple(texts)
        self._left = 0 if "pydantic_core" in sys.modules else _BUDGET
        self._engine: Callable[[object], bool] | None = None
        self._pattern: re.Pattern[bytes] | None = None
        self._schema: SchemaValidator | None = None

    def __call__(self, data: bytes) -> bool:
        """Return whether one of the texts is in `data`."""
        if self._engine is not None:
            if self._engine(data):
                return True
            return not (data.isascii() or self._is_readable(data)) and any(text in data for text in self._texts)
        self._left -= (len(data) + _OVERHEAD) * len(self._texts)
        if self._left < 0 and self._texts:
            self._load()
            return self(data)
        if len(data) < _OVERHEAD and self._left < _BUDGET - _UNPREPARED:
            if self._pattern is None:
                self._pattern = re.compile(b"|".join(map(re.escape, self._texts)) or b"(?!)")
            return self._pattern.search(data) is not None
        for text in self._texts:  # noqa: SIM110  # a generator costs a call each
            if text in data:
                return True
        return False

    def in_text(self, text: str) -> bool:
        """Return whether one of the texts is in `text`."""
        if self._engine is not None and text.isascii():
            return self._engine(text)
        return self(text.encode("utf-8", "surrogatepass"))

    def _load(self) -> None:
        from pydantic_core import SchemaValidator

        # Of its own kind of pattern only what both kinds mean alike: escaped texts and bars.
        pattern = "|".join(re.escape(text.decode()) for text in self._texts)
        schema = SchemaValidator({"type": "str", "pattern": pattern, "regex_engine": "rust-regex"})
        self._engine, self._schema = schema.isinstance_python, schema

    def _is_readable(self, data: bytes) -> bool:
        """Return whether bytes in which the engine has found nothing are UTF-8: it does not look into others."""
        from pydantic_core import ValidationError

        assert self._schema is not None
        try:
            self._schema.validate_python(data)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            return problems[0]["type"] == "string_pattern_mismatch"
        return False


class KnownKeys:
    """What a redactor looks for; replaced as a whole, so that a thread sees the old or the new one."""

    __slots__ = ("forms", "in_json", "in_text", "longest")

    def __init__(self, keys: Iterable[str]) -> None:
        """Look for these."""
        self.forms = tuple(form for key in keys for form in forms_of(key))
        self.longest = max([len(form.text) for form in self.forms], default=0)
        """Characters of the longest form."""
        anchors = anchors_of(self.forms)
        self.in_text = self.in_json = TextSearch([anchor.encode("utf-8", "replace") for anchor in anchors])
        spelt = [each for anchor in anchors for each in json_spellings(anchor)]
        if spelt != anchors:
            self.in_json = TextSearch([each.encode("utf-8", "replace") for each in dict.fromkeys(spelt)])
