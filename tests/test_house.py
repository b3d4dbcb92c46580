"""The rooms of the code: what each says of itself, and the words of the field.

Circles of imports: `test_layout`.
"""

import ast
import io
import re
import tokenize
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


CODE: Final = re.compile(r"(?<![\w-])[A-Z]\d{1,3}\b")
NUMBERED_TEST: Final = re.compile(r"def (test_[a-z]\d{2,3}_\w+)")
KNOWN_CODES: Final = frozenset({"C0", "C1", "F7"})
"""Control characters, as Unicode names them, and a byte of JPEG-LS."""


def codes(source: str) -> list[str]:
    """Return what comments, texts of documentation and names of tests call by a letter and a number."""
    if not CODE.search(source) and not NUMBERED_TEST.search(source):
        return []
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    texts = [token.string for token in tokens if token.type == tokenize.COMMENT and "noqa" not in token.string]
    texts += [token.string for token in tokens if token.type == tokenize.STRING and token.string.startswith('"""')]
    return [
        *(found for text in texts for found in CODE.findall(text) if found not in KNOWN_CODES),
        *NUMBERED_TEST.findall(source),
    ]


def test_a_code_is_found_in_comments_documentation_and_names_of_tests() -> None:
    source = '''# E40\nNAME = "K1"\ndef test_s13_x() -> None:\n    """R-UI-01, D-12; A24."""\n    x()  # noqa: F401'''

    assert ["E40", "A24", "test_s13_x"] == codes(source)


@pytest.mark.parametrize("folder", ["agent", "rpc", "spec", "statechart", "fuzz", "tests", "examples"])
def test_no_code_stands_in_the_place_of_a_sentence(folder: str) -> None:
    """Rules and deviations have pages; the attempts of the sandbox have theirs, docs/sandbox-attempts.md."""
    assert [] == [
        f"{path.relative_to(ROOT)}: {found}"
        for path in (ROOT / folder).rglob("*.py")
        if "sandbox" not in str(path.relative_to(ROOT)) and path.name != "test_house.py"
        for found in codes(path.read_text(encoding="utf-8"))
    ]


def test_no_test_asks_for_a_clock_by_a_mark() -> None:
    """pytest-trio takes the clock from the arguments of the test alone: by a mark it would run in real time."""
    asked = re.compile(r"usefixtures\([^)]*clock")

    assert [] == [
        str(path) for path in (ROOT / "tests").rglob("*.py") if asked.search(path.read_text(encoding="utf-8"))
    ]
