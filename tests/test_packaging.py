"""What is shipped: the wheel holds the packages and nothing else, the lock what the project needs."""

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_string
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [ROOT / name for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
# Files and folders of the specification that are put inside its package.
PUBLISHED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
PACKAGE_NAMES = [package.name for package in PACKAGES]
# What the program needs; what its tests and tools need as well; for tests that ask the vendors' own clients.
LOCKS = {
    name: (ROOT / name).read_text()
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-engines.lock", "requirements-sdk.lock")
}

# Code, marks of typed packages, and data that code reads; the last three are pages.
# C: what a chaos run compiles for itself where there is a compiler; nothing is compiled when this is installed.
SHIPPED_SUFFIXES = {".py", ".typed", ".toml", ".json", ".md", ".html", ".css", ".js", ".mjs", ".cjs", ".c"}
PUBLISHED_SUFFIXES = {".mmd", ".qnt", ".scxml", ".svg", ".yaml", ".pml", ".ts", ".jsonl", ".txt"}

IMPORT_ALL = """
import importlib, pkgutil, sys
wheel, *packages = sys.argv[1:]
sys.path.insert(0, wheel)
for package in packages:
    root = importlib.import_module(package)
    assert root.__file__.startswith(wheel), root.__file__
    for module in pkgutil.walk_packages(root.__path__, package + "."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as wheel:
        yield wheel


@pytest.fixture(scope="module")
def unpacked(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    wheel.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that has the wheel, and of this one what the lock of the program names."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, symlinks=True, with_pip=False)
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in locked("requirements.lock"):
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for other platforms
            continue
        for file in distribution.files or ():
            # Whole folders, and single files of those beside the packages, as programs are.
            part = PurePosixPath(file) if file.parts[0] == ".." else PurePosixPath(file.parts[0])
            link = Path(os.path.normpath(packages / part))
            if not os.path.lexists(link):
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.path.normpath(str(distribution.locate_file(part))))
    wheel.extractall(packages)
    return home / "bin" / "python"


def run_installed(python: Path, folder: Path, *words: str, path: str = "/nowhere") -> subprocess.CompletedProcess[str]:
    env = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    command = [str(python), "-I", *words]
    return subprocess.run(
        command, cwd=folder, env=env, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )


SEARCH = """
import os, trio
from pinnace_agent.tools.base import ToolContext
from pinnace_agent.tools.find import FindTool
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.local.search_program import find_rg
async def main():
    context = ToolContext(os.getcwd(), "c", lambda _: None, dict(os.environ))
    for tool, pattern in ((GrepTool(), "needle"), (FindTool(), "*.txt")):
        print((await tool.execute({"pattern": pattern}, context)).content[0]["text"])
    print(find_rg(os.environ))
trio.run(main)
"""


def test_an_installation_exports_a_page(installed: Path, tmp_path: Path) -> None:
    asked = run_installed(installed, tmp_path, "-m", "pinnace_rpc", "-p", "--provider", "offline", "Hello")
    assert asked.returncode == 0, asked.stderr
    (session,) = (tmp_path / ".pi" / "agent" / "sessions").rglob("*.jsonl")
    done = run_installed(installed, tmp_path, "-m", "pinnace_rpc", "--export", str(session), "page.html")

    assert done.returncode == 0, done.stderr
    assert "Hello" in (tmp_path / "page.html").read_text()


def test_an_installation_searches_without_programs_of_the_system(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a needle\n")
    done = run_installed(installed, tmp_path, "-c", SEARCH)

    assert done.returncode == 0, done.stderr
    *found, rg = done.stdout.splitlines()
    assert ["a.txt:1: a needle", "a.txt"] == found
    has_wheel = bool(list(installed.parent.parent.rglob("ripgrep-*.dist-info")))
    assert (str(installed.parent / "rg") if has_wheel else "None") == rg


WITHOUT_JUDGE_PACKAGES = (
    f"import runpy, sys; sys.path[:0] = [{str(ROOT / 'fuzz')!r}, {str(ROOT / 'spec')!r}]; "
    "sys.modules |= {'hypothesis': None, 'jsonschema': None}"
)


def test_the_judge_names_the_package_that_is_missing(tmp_path: Path) -> None:
    run = "sys.argv[1:] = ['--', 'true']; runpy.run_module('pinnace_fuzz.judge.cli', run_name='__main__')"
    start = f"{WITHOUT_JUDGE_PACKAGES}; {run}"
    done = run_installed(Path(sys.executable), tmp_path, "-c", start)

    assert 3 == done.returncode
    assert "is not installed" in done.stderr
    assert "pip install hypothesis" in done.stderr
    assert "`pinnace-conform` needs" in done.stderr
    assert "Traceback" not in done.stderr


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for() -> set[str]:
    extras = PROJECT["project"]["optional-dependencies"]
    return names(PROJECT["project"]["dependencies"], *extras.values())


def names(*requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\[<>=!~; ]", one)[0]) for group in requirements for one in group}


def locked(lock: str) -> dict[str, str]:
    """Every requirement in a lock by name, each with its continuation lines."""
    entries = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?(==.*(?:(?<=\\)\n.*)*)", LOCKS[lock], flags=re.MULTILINE)
    return {normal(name): rest for name, rest in entries}


def versions(lock: str) -> dict[str, str]:
    return {name: re.split(r"[ ;\\]", rest)[0] for name, rest in locked(lock).items()}


def test_the_wheel_runs_on_any_machine(wheel: zipfile.ZipFile) -> None:
    assert str(wheel.filename).endswith("-py3-none-any.whl")


def test_the_wheel_holds_code_and_data_of_the_packages_only(wheel: zipfile.ZipFile) -> None:
    strange = [
        name
        for name in map(PurePosixPath, wheel.namelist())
        if not name.parts[0].endswith(".dist-info")
        and not name.match("*.data/data/share/man/man1/pinnace.1")
        and not (name.parts[0] in PACKAGE_NAMES and name.suffix in SHIPPED_SUFFIXES)
        and not (name.parts[:2] == ("pinnace_spec", "published") and name.suffix in PUBLISHED_SUFFIXES)
    ]
    assert [] == strange


def test_the_wheel_holds_every_module_and_every_published_file(wheel: zipfile.ZipFile) -> None:
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name and ".data/" not in name}
    sources = {
        str(file.relative_to(root.parent))
        for root in (ROOT / name for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
        for file in root.rglob("*")
        if file.is_file() and file.suffix in SHIPPED_SUFFIXES
    }
    published = {
        str(PurePosixPath(target, *file.relative_to(ROOT / source).parts))
        for source, target in PUBLISHED.items()
        for file in (ROOT / source, *(ROOT / source).rglob("*"))
        if file.is_file()
    }
    assert sources | published == shipped


def test_the_wheel_has_the_manual_page_where_man_looks(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if ".data/" in name)
    assert name.endswith(".data/data/share/man/man1/pinnace.1")
    assert (ROOT / "docs" / "man" / "pinnace.1").read_bytes() == wheel.read(name)


def test_the_wheel_has_no_judge(wheel: zipfile.ZipFile) -> None:
    assert [] == [name for name in wheel.namelist() if "fuzz" in name]
    assert {"pinnace"} == PROJECT["project"]["scripts"].keys()


def test_the_wheel_says_its_licence_and_its_needs(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_string(wheel.read(name).decode())
    assert ("pinnace", "MIT", ">=3.11") == (
        metadata["Name"],
        metadata["License-Expression"],
        metadata["Requires-Python"],
    )


def test_every_module_of_the_wheel_can_be_imported_without_the_repository(unpacked: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", IMPORT_ALL, str(unpacked), *PACKAGE_NAMES]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(("script", "target"), list(PROJECT["project"]["scripts"].items()))
def test_every_console_script_starts_from_the_wheel(script: str, target: str, unpacked: Path, tmp_path: Path) -> None:
    module, function = target.split(":")
    start = (
        f"import sys; sys.path.insert(0, {str(unpacked)!r}); sys.argv[0] = {script!r}; "
        f"from {module} import {function}; sys.exit({function}())"
    )
    command = [sys.executable, "-I", "-c", start, "--help"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    assert "--mode" in done.stdout or "Usage" in done.stdout


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        ("pinnace_rpc", ["spec", "reference"], "# The protocol: reference"),
        ("pinnace_rpc", ["spec", "schema", "--profile", "seed"], "urn:pinnace:protocol:seed"),
        ("pinnace_rpc", ["explain", "C-9"], "Commands behind a barrier MUST wait"),
        ("pinnace_spec.generate.site", ["SITE"], ""),
    ],
    ids=["reference", "schema", "explain", "site"],
)
def test_the_published_specification_is_part_of_the_wheel(
    module: str, words: list[str], said: str, unpacked: Path, tmp_path: Path
) -> None:
    start = (
        f"import runpy, sys; sys.path.insert(0, {str(unpacked)!r}); sys.argv[1:] = {words!r}; "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=False)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", start], cwd=tmp_path, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    if words == ["SITE"]:
        assert (tmp_path / "SITE" / "index.html").is_file()


def test_the_locks_hold_everything_asked_for() -> None:
    assert asked_for() <= {name for lock in LOCKS for name in locked(lock)}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-engines.lock", "requirements-sdk.lock"])
def test_the_locks_agree(lock: str) -> None:
    first, second = versions("requirements-dev.lock"), versions(lock)
    shared = first.keys() & second.keys()
    assert {name: first[name] for name in shared} == {name: second[name] for name in shared}


def test_the_lock_of_the_program_has_nothing_that_only_tests_and_tools_need() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    program = names(PROJECT["project"]["dependencies"], extras["build"])
    assert program <= locked("requirements.lock").keys() <= locked("requirements-dev.lock").keys()
    assert not locked("requirements.lock").keys() & names(extras["dev"], extras["test"])


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_locked_has_a_hash(lock: str) -> None:
    assert [] == [name for name, rest in locked(lock).items() if "--hash=sha256:" not in rest]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place(lock: str) -> None:
    assert [] == re.findall(r"\S*(?:://|--index|--find-links|--extra-index| @ )\S*", LOCKS[lock])


# An argument that is no option; of a name, without its version and its extras.
ADVICE = re.compile(r"pip3? install(?: -\S+)* '?([\w.{][\w./{}-]*)")


def test_no_text_says_to_install_a_name_that_is_not_locked() -> None:
    """A name that nobody has registered may be anybody's tomorrow: ours is one."""
    texts = subprocess.run(
        ["git", "-C", str(ROOT), "grep", "-hIE", "pip3? install", "--", "*.md", "*.py", "*.toml", ":!newsfragments"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lines = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==", (ROOT / "requirements-dev.lock").read_text(), re.M)
    locked = set(map(normal, lines))
    named = {found for found in ADVICE.findall(texts) if not found.startswith((".", "{"))}
    assert {"hypothesis"} <= named
    assert set() == {each for each in named if normal(each) not in locked}
