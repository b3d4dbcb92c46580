"""What extensions declare that they need, and what is said when it is not there (PEP 723, pyproject.toml)."""

import platform
import sys
from pathlib import Path

import pytest

from pinnace_agent.extensions.loading.dependencies import DependencyError, check_dependencies, inline_declaration

BLOCK = """\
# /// script
# requires-python = ">=3.9"
# dependencies = [
#   "trio>=0.20",
#   'nothing-of-this-name; python_version < "3"',
# ]
#
# [tool.other]
# x = 1
# ///
def extension(pi): ...
"""


def single(tmp_path: Path, source: str) -> Path:
    path = tmp_path / "one.py"
    path.write_text(source)
    return path


def error_of(path: Path, folder: Path | None = None) -> str:
    with pytest.raises(DependencyError) as error:
        check_dependencies(str(path), None if folder is None else str(folder))
    return str(error.value)


def test_a_file_may_need_nothing(tmp_path: Path) -> None:
    check_dependencies(str(single(tmp_path, "def extension(pi): ...\n")), None)


def test_an_installed_dependency_is_accepted(tmp_path: Path) -> None:
    check_dependencies(str(single(tmp_path, BLOCK)), None)


def test_the_metadata_of_a_script_is_read() -> None:
    declaration = inline_declaration(BLOCK)
    assert ">=3.9" == declaration.requires_python
    assert ["trio>=0.20", 'nothing-of-this-name; python_version < "3"'] == declaration.dependencies


def test_a_missing_dependency_is_named_with_the_interpreter(tmp_path: Path) -> None:
    source = '# /// script\n# dependencies = ["not-there>=2", "trio>=9999", "pytest"]\n# ///\n'
    trio_version = __import__("importlib.metadata", fromlist=["version"]).version("trio")
    assert (
        f"needs not-there>=2 (not installed); trio>=9999 ({trio_version} is installed). "
        f"Ask its author where they come from, and install them for {sys.executable}"
    ) == error_of(single(tmp_path, source))


def test_a_folder_declares_in_its_project_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["not-there"]\n')
    entry = tmp_path / "extension.py"
    entry.write_text("def extension(pi): ...\n")
    assert "needs not-there (not installed)" in error_of(entry, tmp_path)
    # A file beside which one happens to lie is none of its business.
    check_dependencies(str(entry), None)


def test_another_python_is_named(tmp_path: Path) -> None:
    path = single(tmp_path, '# /// script\n# requires-python = ">=99"\n# ///\n')
    assert f"needs Python >=99, and this is {platform.python_version()}" == error_of(path)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ("# dependencies = [", "its script metadata is damaged"),
        ('# dependencies = "x"', "dependencies in its script metadata must be a list of strings"),
        ("# dependencies = [1]", "dependencies in its script metadata must be a list of strings"),
        ("# requires-python = 3", "requires-python in its script metadata must be a string"),
        ('# requires-python = "three"', "its requires-python is damaged"),
        ('# dependencies = ["a b c"]', "its dependency 'a b c' can't be understood"),
    ],
)
def test_an_invalid_declaration_is_reported(tmp_path: Path, block: str, text: str) -> None:
    assert text in error_of(single(tmp_path, f"# /// script\n{block}\n# ///\n"))


def test_two_blocks_are_one_too_many(tmp_path: Path) -> None:
    block = "# /// script\n# dependencies = []\n# ///\n"
    assert "has more than one block of script metadata" == error_of(single(tmp_path, f"{block}\n{block}"))


def test_other_comments_are_not_metadata(tmp_path: Path) -> None:
    """Other types, one without an end, one in the middle of a line."""
    other = '# /// other\n# dependencies = ["not-there"]\n# ///\n'
    source = f'{other}x = 1  # /// script\n# /// script\n# dependencies = ["no"]\n'
    check_dependencies(str(single(tmp_path, source)), None)


def test_an_invalid_project_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    entry = tmp_path / "extension.py"
    entry.write_text("")
    assert "pyproject.toml is damaged" in error_of(entry, tmp_path)


def test_nothing_is_imported_to_know_it(tmp_path: Path) -> None:
    path = single(tmp_path, 'raise AssertionError("imported")\n')
    check_dependencies(str(path), None)
