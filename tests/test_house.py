"""The rooms of the code: what each says of itself, and the words of the field.

Circles of imports: `test_layout`.
"""

import ast
import re
from typing import Final

import pytest
from tests.test_layout import MODULES, ROOT, imported, module_name

BY_NAME: Final = {module_name(module): module for module in MODULES}


def test_an_import_for_type_checkers_alone_is_none_at_run_time() -> None:
    source = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pinnace_spec import data\nelse:\n    import x"
    )

    assert {"typing", "typing.TYPE_CHECKING", "x"} == imported(source)


def test_every_folder_says_what_is_inside() -> None:
    """A short text in its `__init__`, at least one sentence."""
    texts = {
        name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for name, path in BY_NAME.items()
        if path.name == "__init__.py"
    }

    assert [] == [name for name, text in texts.items() if not re.match(r"\S.{15,}\.", text, re.DOTALL)]


def test_no_entry_of_sys_modules_is_replaced() -> None:
    """But for the modules of extensions, which have names of their own, and in an interpreter that has none of ours."""
    assert [] == [
        name
        for name, path in BY_NAME.items()
        if re.search(r"sys\.modules\[[^\]]+\]\s*=", path.read_text(encoding="utf-8"))
        and not name.startswith(("pinnace_agent.extensions.loading", "pinnace_agent.shell.own_programs"))
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
