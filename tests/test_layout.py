"""The shape of the repository: packages, docstrings, what no file may say."""

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = [
    ROOT / "spec" / "pinnace_spec",
    ROOT / "spec" / "pinnace_engines",
    ROOT / "statechart" / "pinnace_statechart",
    ROOT / "agent" / "pinnace_agent",
    ROOT / "rpc" / "pinnace_rpc",
    ROOT / "rpc" / "pinnace",
    ROOT / "rpc" / "pinnace_tui",
    ROOT / "fuzz" / "pinnace_fuzz",
    ROOT / "tests" / "tools" / "pinnace_campaigns",
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


@cache
def parsed(source: str) -> ast.Module:
    """Parse a source, which several tests look at, once."""
    return ast.parse(source)


def test_there_are_modules_to_look_at() -> None:
    assert all(any(module.is_relative_to(package) for module in MODULES) for package in PACKAGES)


def test_every_module_says_what_it_is() -> None:
    assert [] == [name(module) for module in MODULES if not ast.get_docstring(parsed(module.read_text()))]


def test_no_module_lies_beside_a_package() -> None:
    roots = {package.parent for package in PACKAGES}
    assert [] == [name(module) for root in sorted(roots) for module in root.glob("*.py")]


def test_every_package_is_marked_as_typed() -> None:
    assert [] == [name(package) for package in PACKAGES if not (package / "py.typed").is_file()]


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {module.parent for module in MODULES}
    assert [] == sorted(name(folder) for folder in folders if not (folder / "__init__.py").is_file())


def module_name(module: Path) -> str:
    """Return the name by which a module is imported."""
    parts = module.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str) -> set[str]:
    """Return the names that a source imports at run time, anywhere in it: modules, and what is in them."""
    found: set[str] = set()
    left: list[ast.AST] = [parsed(source)]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            left += node.orelse
            continue
        left += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


@cache
def imports() -> dict[str, set[str]]:
    """Return which of our modules each module imports."""
    names = {module_name(module) for module in MODULES}
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        own = module_name(module)
        found = imported(module.read_text()) & names
        # A package is loaded before the modules in it: that is no arrow of theirs.
        graph[own] = {each for each in found if not f"{own}.".startswith(f"{each}.")}
    return graph


def test_core_imports_no_other_room_at_run_time() -> None:
    """Its protocols name types of higher rooms in annotations, which the contract of the rooms leaves out for it."""
    core = "pinnace_agent.core."
    found = {own: arrows for own, arrows in imports().items() if own.startswith(core)}
    assert found
    others = {own: [each for each in arrows if each.startswith("pinnace_agent.")] for own, arrows in found.items()}
    assert [] == [(own, each) for own, arrows in others.items() for each in arrows if not each.startswith(core)]


@pytest.mark.parametrize("root", ["agent/pinnace_agent", "rpc/pinnace_rpc"])
def test_the_page_lists_rooms_in_the_order_of_their_contract(root: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each.get("containers") == [root.partition("/")[2]]]
    rooms = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Rooms\n")[2].partition("\n### ")[0]
    rows = re.findall(rf"^\| `{root}/(.+?)` \|", rooms, re.M)

    listed = [room for row in rows for room in re.split(r"`, `", row)]
    assert [each for each in layers[::-1] if each != "__main__"] == listed


def in_circles(graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that are in a circle, or between two circles."""
    left = {module: set(arrows) for module, arrows in graph.items()}
    while True:
        targets = {target for arrows in left.values() for target in arrows}
        over = {module for module, arrows in left.items() if not arrows or module not in targets}
        if not over:
            return set(left)
        left = {module: arrows - over for module, arrows in left.items() if module not in over}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """At run time: an annotation may name the module that imports this one."""
    assert set() == in_circles(imports())


def test_a_circle_is_recognised() -> None:
    assert {"b", "c"} == in_circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()})
    assert set() == in_circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_no_file_names_a_registry_or_a_place_on_one_machine() -> None:
    found = [
        f"{name(file)}: {match.group()}"
        for file in tracked_files()
        for match in FORBIDDEN_TEXT.finditer(file.read_bytes().decode(errors="replace"))
    ]
    assert [] == found


def test_no_first_line_of_a_program_names_a_place_on_this_machine() -> None:
    """A blank in it would end the name of the interpreter: a program of the shell quotes it instead."""
    found = [name(file) for file in tracked_files() if file.suffix == ".py" and "#!" + "{" in file.read_text()]

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


# What starts a program. The registry does, and beside it: the watchdog, which is to be no child of the agent; the
# client of an agent, the host of agents and the workers of a batch, which are other programs.
STARTS = re.compile(
    r"subprocess\.(?!PIPE|DEVNULL|STDOUT|SubprocessError|TimeoutExpired|CalledProcessError)\w+"
    r"|os\.(fork|forkpty|exec\w+|spawn\w+|posix_spawnp?|popen|system|startfile)|pty\.(fork|spawn)"
    r"|(trio\.)?(lowlevel\.)?(open_process|run_process)|multiprocessing\.\w+|ctypes\.\w+|_posixsubprocess\.\w+"
)
MAY_START = {
    "agent/pinnace_agent/shell/child_processes.py": {"trio.lowlevel.open_process"},
    "agent/pinnace_agent/shell/watchdog.py": {"os.posix_spawn"},
    # For the registry: the sandbox starts what is inside by its own means.
    "agent/pinnace_agent/sandbox/launcher.py": {"subprocess.Popen"},
    "agent/pinnace_agent/sandbox/landlock_supervisor.py": {"subprocess.Popen"},
    "agent/pinnace_agent/sandbox/probe.py": {"subprocess.run"},
    # A program of its own, between the registry and the command.
    "agent/pinnace_agent/sandbox/opened.py": {
        "ctypes.CDLL",
        "ctypes.Structure",
        "ctypes.byref",
        "ctypes.c_uint64",
        "ctypes.get_errno",
        "ctypes.sizeof",
    },
    "agent/pinnace_agent/sandbox/landlock_program.py": {
        *(
            "os.fork",
            "os.execvpe",
            "ctypes.PyDLL",
            "ctypes.CDLL",
            "ctypes.Structure",
            "ctypes.byref",
            "ctypes.c_char_p",
            "ctypes.c_int32",
        ),
        *("ctypes.c_size_t", "ctypes.c_uint32", "ctypes.c_uint64", "ctypes.c_ushort", "ctypes.get_errno"),
    },
    # The exchange of two names, which Python does not have.
    "agent/pinnace_agent/packages/staging.py": {"ctypes.CDLL", "ctypes.get_errno"},
    "rpc/pinnace_rpc/options/closing.py": {"ctypes.CDLL", "ctypes.c_ulong", "ctypes.get_errno"},
    "agent/pinnace_agent/shell/protection.py": {"ctypes.CDLL", "ctypes.c_ulong", "ctypes.get_errno"},
    "rpc/pinnace_rpc/attach/finding.py": {"subprocess.Popen"},
    "rpc/pinnace_rpc/client/connection/process.py": {"subprocess.Popen"},
    "rpc/pinnace_rpc/cli/commands/demo.py": {"subprocess.Popen"},
    "rpc/pinnace_rpc/host/agents/children.py": {"trio.lowlevel.open_process"},
    "rpc/pinnace_rpc/host/agents/zygote_program.py": {"os.fork"},
    "rpc/pinnace_rpc/server/stdio.py": {"ctypes.CDLL"},
    # On workers of batches and of the judge, where there is no agent.
    "spec/pinnace_engines/programs.py": {"subprocess.Popen"},
    # Beside the coordinator of a batch, where there is no agent: ends with it, after an export.
    "rpc/pinnace_rpc/batch/span.py": {"subprocess.Popen"},
    # The terminal client, a program of its own: the user's editor, the clipboard, and git for a list of files.
    "rpc/pinnace_tui/external_editor.py": {"subprocess.run"},
    "rpc/pinnace_tui/clipboard.py": {"subprocess.run"},
}
"""What may go around the registry, and with what. `ctypes` could call anything."""


def starts_in(source: str) -> set[str]:
    """Return what in a module starts programs, by its full name whatever it is imported as."""
    tree = parsed(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                (each.asname or each.name.split(".")[0]): (each.asname and each.name) or each.name.split(".")[0]
                for each in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            names |= {(each.asname or each.name): f"{node.module}.{each.name}" for each in node.names}

    def full(node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return names.get(node.id)
        if isinstance(node, ast.Attribute) and (place := full(node.value)) is not None:
            return f"{place}.{node.attr}"
        return None

    found = {full(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}
    return {each for each in found if each is not None and STARTS.fullmatch(each)}


def test_programs_are_started_by_the_registry_of_child_processes_alone() -> None:
    """What is started elsewhere is not ended with the agent, and nobody counts it."""
    packages = [package for package in PACKAGES if package.name not in ("pinnace_fuzz", "pinnace_campaigns")]
    modules = [module for module in MODULES if any(module.is_relative_to(package) for package in packages)]
    found = {name(module): starts for module in modules if (starts := starts_in(module.read_text()))}

    assert MAY_START == found


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess as s\ns.run(['x'])",
        "from subprocess import Popen as P\nP(['x'])",
        "from os import posix_spawn\nposix_spawn()",
        "import os\nos.system('x')",
        "import trio\nasync def f(): await trio.run_process(['x'])",
        "from trio.lowlevel import open_process\nopen_process",
        "import trio.lowlevel\ntrio.lowlevel.open_process",
        "def f():\n    import multiprocessing\n    multiprocessing.Process()",
    ],
)
def test_a_start_of_a_program_is_recognised(source: str) -> None:
    assert starts_in(source)


_LEAVES_OUT = re.compile(r"^(?:\w+ = )?pytest\.(?:importorskip|skip)\(", re.M)


def left_out_too_late(texts: dict[str, str]) -> list[str]:
    """Return the test modules that import from one that leaves itself out, before they leave themselves out.

    What a module leaves behind that was left out while it was imported has none of its names.

    Args:
        texts: The sources by the names of the modules.
    """
    found: list[str] = []
    for module, text in texts.items():
        for source in re.findall(r"^from (tests\.\S+) import", text, re.M):
            before = text[: text.index(f"from {source} import")]
            if _LEAVES_OUT.search(texts.get(source, "")) and not _LEAVES_OUT.search(before):
                found.append(module)
    return found


def test_a_test_that_needs_another_ones_package_is_left_out_before_it_imports_that() -> None:
    modules = (ROOT / "tests").rglob("*.py")
    texts = {".".join(module.relative_to(ROOT).with_suffix("").parts): module.read_text() for module in modules}
    assert any(_LEAVES_OUT.search(text) for text in texts.values())

    assert left_out_too_late(texts) == []
    skipping, importing = 'mcp = pytest.importorskip("mcp")\nA = 1\n', "from tests.test_a import A\n"
    assert left_out_too_late({"tests.test_a": skipping, "tests.test_b": importing}) == ["tests.test_b"]
    assert left_out_too_late({"tests.test_a": skipping, "tests.test_b": skipping + importing}) == []
