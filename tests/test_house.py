"""The rooms of the code: what each says of itself, modules that belong together, and the words of the field.

Circles of imports and the size of folders: `test_layout`.
"""

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from tests.test_layout import MODULES, ROOT, imported, imports, module_name

SMALL_MODULE: Final = 60
"""Lines. A module below this with one importer, in the same folder, is read together with it."""
BY_NAME: Final = {module_name(module): module for module in MODULES}
ENTRIES: Final = frozenset({"__init__.py", "__main__.py"})


def test_an_import_for_type_checkers_counts() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pinnace_spec import data\n"

    assert "pinnace_spec.data" in imported(source)


def test_every_folder_says_what_is_inside() -> None:
    """A short text in its `__init__`, at least one sentence."""
    texts = {
        name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for name, path in BY_NAME.items()
        if path.name == "__init__.py"
    }

    assert [] == [name for name, text in texts.items() if not re.match(r"\S.{15,}\.", text, re.DOTALL)]


def test_a_small_module_is_not_separate_from_its_only_importer() -> None:
    """The tests of a module count as importers: a subject with tests of its own is one."""
    importers: dict[str, set[str]] = {name: set() for name in BY_NAME}
    for name, targets in imports().items():
        for target in targets:
            importers[target].add(name)
    for path in (ROOT / "tests").rglob("*.py"):
        for target in imported(path.read_text(encoding="utf-8")) & BY_NAME.keys():
            importers[target].add(str(path))

    def is_separate(name: str, path: Path) -> bool:
        if path.name in ENTRIES or len(path.read_text(encoding="utf-8").splitlines()) >= SMALL_MODULE:
            return False
        (importer, *others) = importers[name] or {""}
        return not others and importer.rpartition(".")[0] == name.rpartition(".")[0]

    assert [] == sorted(name for name, path in BY_NAME.items() if is_separate(name, path))


def test_no_entry_of_sys_modules_is_replaced() -> None:
    """But for the modules of extensions, which have names of their own."""
    assert [] == [
        name
        for name, path in BY_NAME.items()
        if re.search(r"sys\.modules\[[^\]]+\]\s*=", path.read_text(encoding="utf-8"))
        and not name.startswith("pinnace_agent.extensions.loading")
    ]


PRIVATE_WORDS: Final = re.compile(
    r"\b_?(tell|told|tells|seat|desk|speech|heard|wish|wishes|wished|nobody|somebody|whoever|spoilt|believe)\b", re.I
)
"""Words that described the program before its vocabulary was that of the field (docs/glossary.md)."""


@pytest.mark.parametrize("folder", ["agent", "rpc", "spec", "statechart", "fuzz"])
def test_code_uses_the_words_of_the_field(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in PRIVATE_WORDS.finditer(line)
    ]

    assert [] == found


@pytest.mark.parametrize("pattern", ["*.md", "docs/*.md", "docs/decisions/*.md", "spec/*.toml"])
def test_pages_and_rules_use_the_words_of_the_field(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in ROOT.glob(pattern)
        # Conversations of the offline model, and records of other agents.
        if path.name not in {"offline.md", "judged.md"}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in PRIVATE_WORDS.finditer(line)
    ]

    assert [] == found
