"""The shape of the repository: packages, docstrings, what no file may say."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = [
    ROOT / "spec" / "pinnace_spec",
    ROOT / "statechart" / "pinnace_statechart",
    ROOT / "agent" / "pinnace_agent",
    ROOT / "rpc" / "pinnace_rpc",
    ROOT / "rpc" / "pinnace",
    ROOT / "fuzz" / "pinnace_fuzz",
]
MODULES = sorted(module for package in PACKAGES for module in package.rglob("*.py"))

# In pieces, since this file is read too. A lock or a script that names one works only where it is reached.
REGISTRY_HOSTS = [
    ".".join(labels)
    for labels in [
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "npmjs", "com"),
        ("registry", "yarnpkg", "com"),
        ("deb", "debian", "org"),
    ]
]
HOMES = r"/(?:home/(?!user/|me/)[a-z][\w.-]*|root|Users/[A-Za-z][\w.-]*)/"  # but made-up ones for examples
FORBIDDEN_TEXT = re.compile(
    "|".join(map(re.escape, REGISTRY_HOSTS)) + rf"|(?<![\w.$}}/-])(?:{HOMES}|{re.escape(str(ROOT))}/)"
)


def tracked_files() -> list[Path]:
    """Files that are, or could be, in the repository: everything that git does not ignore."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def name(module: Path) -> str:
    return str(module.relative_to(ROOT))


def test_there_are_modules_to_look_at() -> None:
    assert all(any(module.is_relative_to(package) for module in MODULES) for package in PACKAGES)


def test_every_module_says_what_it_is() -> None:
    assert [] == [name(module) for module in MODULES if not ast.get_docstring(ast.parse(module.read_text()))]


def test_no_module_lies_beside_a_package() -> None:
    roots = {package.parent for package in PACKAGES}
    assert [] == [name(module) for root in sorted(roots) for module in root.glob("*.py")]


def test_every_package_is_marked_as_typed() -> None:
    assert [] == [name(package) for package in PACKAGES if not (package / "py.typed").is_file()]


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {module.parent for module in MODULES}
    assert [] == sorted(name(folder) for folder in folders if not (folder / "__init__.py").is_file())


def test_no_file_names_a_registry_or_a_place_on_one_machine() -> None:
    found = [
        f"{name(file)}: {match.group()}"
        for file in tracked_files()
        for match in FORBIDDEN_TEXT.finditer(file.read_bytes().decode(errors="replace"))
    ]
    assert [] == found


def test_test_modules_have_names_of_their_own() -> None:
    """They are imported by base name, so a second one of the same name would hide the first in reports."""
    names = [module.name for module in (ROOT / "tests").rglob("test_*.py")]
    assert [] == sorted({each for each in names if names.count(each) > 1})


@pytest.mark.parametrize("host", REGISTRY_HOSTS)
def test_the_forbidden_text_is_recognised(host: str) -> None:
    assert FORBIDDEN_TEXT.search(f"https://{host}/simple")


@pytest.mark.parametrize("parts", [("home", "ann", "x"), ("root", "x"), (*ROOT.parts[1:], "x")])
def test_a_place_on_one_machine_is_recognised(parts: tuple[str, ...]) -> None:
    assert FORBIDDEN_TEXT.search("/" + "/".join(parts))
