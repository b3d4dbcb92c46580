"""Loading extensions: one after another, each whole or not at all."""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest
import trio
from tests.call_count import CallCount

from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.loading import loading
from pinnace_agent.extensions.loading.discovery import Candidate, ExtensionSources, discover, resolve_named
from pinnace_agent.extensions.loading.loading import Inline, Loader, LoadReport
from pinnace_agent.extensions.loading.modules import PREFIX
from pinnace_agent.extensions.loading.watch import LoadLimits, watched
from pinnace_agent.extensions.registration.registrations import ExtensionFailedError, Generation


def own_modules() -> list[str]:
    return sorted(name for name in sys.modules if name.startswith(PREFIX))


class Bench:
    """A loader, and a folder for what it loads."""

    def __init__(self, root: Path, limits: LoadLimits | None = None) -> None:
        self.root = root
        self.lines: list[str] = []
        self.generation = Generation()
        self.loader = Loader(self.generation, cwd=str(root), limits=limits, log=self._log)

    def _log(self, line: str) -> None:
        self.lines.append(line)
        (self.root / f"line {len(self.lines)}").touch()

    def until_line(self, number: int) -> str:
        """Return a statement that blocks until so many lines are logged.

        The thread that watches a load may have its turn at any time behind a limit.
        """
        path = str(self.root / f"line {number}")
        return f"while not __import__('os').path.exists({path!r}): __import__('time').sleep(0.01)"

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        return file

    def candidates(self, *names: str) -> list[Candidate]:
        env = {"HOME": str(self.root)}
        found = discover(ExtensionSources(env, str(self.root), named=resolve_named(names, str(self.root), env)))
        assert [] == found.failures
        return found.candidates

    async def load(self, *names: str) -> LoadReport:
        return await self.loader.load(self.candidates(*names))

    async def fail(self, name: str, text: str | bytes) -> str:
        """Load one that fails, and return why; nothing of it may stay."""
        self.write(name, text)
        before = own_modules()
        report = await self.load(name)
        assert [] == report.loaded
        assert 1 == len(report.failures)
        assert before == own_modules()
        return report.failures[0].error


@pytest.fixture(autouse=True)
def _restored_interpreter() -> Iterator[None]:
    """Loading redirects stdout and adds modules, for the life of a process."""
    stdout = sys.stdout
    yield
    sys.stdout = stdout
    for name in own_modules():
        del sys.modules[name]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# Whole extensions.


async def test_a_file_is_loaded(bench: Bench) -> None:
    file = bench.write(
        "my-gate.py",
        """
        def extension(pi):
            @pi.on("tool_call")
            def gate(ctx, event): ...

            @pi.command("stats")
            def stats(ctx, args): ...

            @pi.tool
            def greet(ctx, name: str) -> str:
                "Greet."
                return name

            pi.flag("strict")
            pi.register_provider("p", base_url="http://x")
        """,
    )
    report = await bench.load("my-gate.py")
    assert [] == report.failures
    loaded = report.loaded[0]
    extension = loaded.extension
    assert ("live", str(file), "temporary") == (extension.state, extension.path, extension.source["scope"])
    assert (["tool_call"], ["stats"], ["greet"], ["strict"]) == (
        list(extension.handlers),
        list(extension.commands),
        list(extension.tools),
        list(extension.flags),
    )
    assert ["p"] == [each.name for each in extension.providers]
    assert loaded.module is not None
    assert loaded.module.startswith("_ext_my_gate_")


async def test_each_load_is_logged_with_path_and_hash(bench: Bench) -> None:
    """Security 4."""
    file = bench.write("gate.py", "def extension(pi): ...\n")
    report = await bench.load("gate.py")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert [f"loading the extension {file} (sha256 {digest})"] == bench.lines
    assert digest == report.loaded[0].fingerprint


async def test_an_async_function_is_awaited_before_the_next_one_is_imported(bench: Bench) -> None:
    bench.write(
        "a.py",
        """
        import sys, trio
        sys.order = ["a imported"]

        async def extension(pi):
            await trio.sleep(0)
            sys.order.append("a done")
        """,
    )
    bench.write("b.py", 'import sys\nsys.order.append("b imported")\ndef extension(pi): ...\n')
    await bench.load("a.py", "b.py")
    assert ["a imported", "a done", "b imported"] == vars(sys).pop("order")


async def test_a_folder_is_a_package(bench: Bench) -> None:
    """Relative imports, circular ones too; `sys.path` is left alone."""
    bench.write(
        "pack/extension.py", "from .helper import NAME\ndef extension(pi):\n    pi.command(NAME)(lambda ctx, args: 0)\n"
    )
    bench.write("pack/helper.py", "from . import extension\nfrom .deep.more import NAME\n")
    bench.write("pack/deep/more.py", "NAME = __name__.rpartition('.')[2]\n")
    bench.write("whole/__init__.py", "from .helper import NAME\ndef extension(pi):\n    pi.flag(NAME)\n")
    bench.write("whole/helper.py", "NAME = 'from-helper'\n")
    bench.write("both/__init__.py", "NAME = 'from-init'\n")
    bench.write("both/extension.py", "from . import NAME\ndef extension(pi):\n    pi.flag(NAME)\n")
    path = list(sys.path)
    report = await bench.load("pack", "whole", "both")
    assert [] == report.failures
    assert ["more"] == list(report.extensions[0].commands)
    assert [["from-helper"], ["from-init"]] == [list(each.flags) for each in report.extensions[1:]]
    assert path == sys.path
    assert "helper" not in sys.modules


async def test_a_later_import_of_a_handler_is_found(bench: Bench) -> None:
    bench.write(
        "pack/extension.py",
        """
        def extension(pi):
            @pi.command("x")
            def x(ctx, args):
                from .late import A
                return A
        """,
    )
    bench.write("pack/late.py", "A = 5\n")
    report = await bench.load("pack")
    assert 5 == report.extensions[0].commands["x"].function(None, "")


async def test_the_current_folder_is_not_imported_from(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Security 4."""
    monkeypatch.chdir(bench.root)
    bench.write("helper_beside.py", "raise AssertionError\n")
    error = await bench.fail("gate.py", "import helper_beside\ndef extension(pi): ...\n")
    assert (
        "helper_beside lies beside it, which a single file can't import: make it a folder, gate/extension.py" in error
    )


async def test_two_of_the_same_name_are_two(bench: Bench) -> None:
    for folder in ("a", "b"):
        bench.write(f"{folder}/gate.py", f"NAME = {folder!r}\ndef extension(pi):\n    pi.flag(NAME)\n")
    report = await bench.load("a/gate.py", "b/gate.py")
    assert [["a"], ["b"]] == [list(each.flags) for each in report.extensions]


async def test_a_change_within_the_same_moment_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same size, same time; and nothing compiled is left behind."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for number in range(3):
        fresh = Bench(bench.root)
        for path in ("gate.py", "pack/extension.py", "pack/helper.py"):
            file = fresh.write(path, "from .helper import N\n" if path == "pack/extension.py" else f"N = 'n{number}'\n")
            if path != "pack/helper.py":
                file.write_text(file.read_text() + "def extension(pi):\n    pi.flag(N)\n")
            os.utime(file, (1_000_000_000, 1_000_000_000))
        report = await fresh.load("gate.py", "pack")
        assert [[f"n{number}"], [f"n{number}"]] == [list(each.flags) for each in report.extensions]
        fresh.loader.unload(report.loaded)
    assert [] == list(bench.root.rglob("__pycache__"))


async def test_unloading_takes_everything_out(bench: Bench) -> None:
    """Modules, registrations, what listens on the bus."""
    code = "def extension(pi):\n    pi.on('agent_end', lambda c, e: 0)\n    pi.events.on('x', print)\n"
    bench.write("pack/extension.py", f"from . import helper\n{code}")
    bench.write("pack/helper.py", "")
    report = await bench.load("pack")
    assert 3 == len(own_modules())
    bench.generation.end("it was reloaded")
    bench.loader.unload(report.loaded)
    assert [] == own_modules()
    assert ("stale", {}) == (report.extensions[0].state, report.extensions[0].handlers)


async def test_without_a_file_there_are_functions(bench: Bench) -> None:
    """Those come last."""
    bench.write("gate.py", "def extension(pi): ...\n")

    def plain(pi: ExtensionAPI) -> None:
        pi.flag("plain")

    async def wrong(pi: ExtensionAPI) -> None:
        raise ValueError("no")

    inline = [Inline("builtin:approval", plain, is_replaceable=True), Inline("<inline:1>", wrong)]
    report = await bench.loader.load(bench.candidates("gate.py"), inline)
    assert ["gate.py", "builtin:approval"] == [os.path.basename(each.path) for each in report.extensions]
    assert report.extensions[1].is_replaceable
    assert "builtin" == report.extensions[1].source["source"]
    assert [("<inline:1>", "ValueError: no")] == [each[:2] for each in report.failures]


async def test_a_second_pass_keeps_the_first(bench: Bench) -> None:
    """In the order of the places, nothing twice, nothing that failed again."""
    bench.write("user.py", "import sys\nsys.loads = vars(sys).get('loads', 0) + 1\ndef extension(pi): ...\n")
    bench.write("bad.py", "import sys\nsys.loads += 1\nraise ValueError('once')\n")
    bench.write("project.py", "def extension(pi): ...\n")
    first = await bench.load("user.py", "bad.py")
    second = await bench.load("project.py", "user.py", "bad.py")
    assert ["project.py", "user.py"] == [os.path.basename(each.path) for each in second.extensions]
    assert first.loaded[0] is second.loaded[1]
    assert first.failures == second.failures
    assert 2 == vars(sys).pop("loads")


async def test_an_installed_package_is_loaded_by_its_own_name(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("site/their_pack/gate.py", "from . import NAME\ndef install(pi):\n    pi.flag(NAME)\n")
    bench.write("site/their_pack/__init__.py", "NAME = 'theirs'\n")
    bench.write("site/their_dist-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: their-dist\nVersion: 1\n")
    bench.write(
        "site/their_dist-1.dist-info/entry_points.txt", "[pinnace.extensions]\ngate = their_pack.gate:install\n"
    )
    monkeypatch.syspath_prepend(str(bench.root / "site"))
    report = await bench.load("python:their-dist")
    assert [] == report.failures
    assert ["theirs"] == list(report.extensions[0].flags)
    assert "package" == report.extensions[0].source["origin"]
    bench.loader.unload(report.loaded)
    assert "their_pack.gate" not in sys.modules


async def test_diagnostics_are_reported_after_loading(bench: Bench) -> None:
    """2.7."""
    file = bench.write("gate.py", "def extension(pi):\n    pi.on('tool_cal', lambda ctx, event: 0)\n")
    report = await bench.load("gate.py")
    assert [] == report.failures
    assert f"{file}: there is no event 'tool_cal'" in report.notices[0]


# Those that fail.

HOSTILE: list[tuple[str, str | bytes, str]] = [
    ("raises", "raise ValueError('broken')\n", "ValueError: broken"),
    ("raises_in_function", "def extension(pi):\n    raise KeyError('k')\n", "KeyError: 'k'"),
    ("raises_later", "async def extension(pi):\n    raise OSError('late')\n", "OSError: late"),
    ("raises_a_group", "def extension(pi):\n    raise ExceptionGroup('g', [ValueError('in')])\n", "ValueError: in"),
    ("exits", "import sys\nsys.exit(3)\n", "tried to exit the process (SystemExit: 3) (exits.py, line 2)"),
    (
        "exits_in_function",
        "def extension(pi):\n    raise SystemExit\n",
        "tried to exit the process (SystemExit: None) (exits_in_function.py, line 2)",
    ),
    ("base", "class B(BaseException): ...\ndef extension(pi):\n    raise B('x')\n", "B: x (base.py, line 3)"),
    ("nothing", "x = 1\n", "defines no function 'extension': write `def extension(pi):`"),
    ("other_name", "def setup(pi): ...\n", "it has setup(): rename it"),
    ("no_function", "extension = 3\n", "TypeError: the extension's function: 3 can't be called"),
    ("no_parameter", "def extension(): ...\n", "is called as extension(pi), but is extension()"),
    ("two_parameters", "def extension(pi, x): ...\n", "is called as extension(pi), but is extension(pi, x)"),
    ("syntax", "def extension(pi:\n", "SyntaxError: '(' was never closed (syntax.py, line 1)"),
    ("not_utf8", b"x = '\xff'\n", "SyntaxError: (unicode error) 'utf-8' codec can't decode"),
    ("zero", b"\0\0", "source code string cannot contain null bytes"),
    ("recursion", "def f(): f()\nf()\n", "RecursionError: it calls itself without end (recursion.py, line 1)"),
    ("nested", "x = " + "(" * 5000 + ")" * 5000 + "\n", "Error: "),
    ("missing", "import not_there_at_all\n", "needs the module 'not_there_at_all', which is not installed"),
    (
        "relative",
        "from . import x\n",
        "a single file can't import relatively: make it a folder, relative/extension.py",
    ),
    (
        "declared",
        '# /// script\n# dependencies = ["not-there"]\n# ///\nimport not_there\n',
        "needs not-there (not installed)",
    ),
    (
        "wrong_order",
        "def extension(pi):\n    @pi.on('tool_call')\n    def gate(event, ctx): ...\n",
        "has its parameters in the wrong order: the context comes first, extension.<locals>.gate(ctx, event)",
    ),
    (
        "acts",
        "def extension(pi):\n    pi.send_message('a', 'b')\n",
        "ExtensionLoadingError: there is no session yet",
    ),
    ("tasks", "def extension(pi):\n    pi.background\n", "there are no background tasks while an extension loads"),
    ("removes_itself", "import sys\ndel sys.modules[__name__]\nraise ValueError('gone')\n", "ValueError: gone"),
    ("bad_message", "class E(Exception):\n    def __str__(self): 1/0\nraise E\n", "E"),
]


@pytest.mark.parametrize(("name", "text", "error"), HOSTILE, ids=[each[0] for each in HOSTILE])
async def test_a_failure_is_reported_and_leaves_nothing(bench: Bench, name: str, text: str | bytes, error: str) -> None:
    assert error in await bench.fail(f"{name}.py", text)


async def test_a_missing_module_of_a_folder_is_named(bench: Bench) -> None:
    error = await bench.fail("pack/extension.py", "from .helper import x\n")
    assert f"there is no module 'helper' in {bench.root / 'pack'}" == error


@pytest.mark.parametrize("name", ["extension.py", "start.py"])
@pytest.mark.parametrize("line", ["raise SystemExit(3)", "raise KeyboardInterrupt", "raise ValueError", "f()"])
async def test_a_failure_in_a_module_of_a_folder_has_its_file_and_line(bench: Bench, name: str, line: str) -> None:
    """Whatever the entry of the folder is called."""
    bench.write("pack/pyproject.toml", f'[tool.pinnace]\nextensions = ["{name}"]\n')
    bench.write(f"pack/{name}", "from . import helper\n")
    bench.write("pack/helper.py", f"f = lambda: f()\n{line}\n")
    [failure] = (await bench.load("pack")).failures
    assert failure.error.endswith(f"(helper.py, line {1 if line == 'f()' else 2})")


async def test_an_extension_among_failures_is_loaded(bench: Bench) -> None:
    """Others are not affected."""
    bench.write("a.py", "raise ValueError\n")
    bench.write("b.py", "def extension(pi): ...\n")
    bench.write("c.py", "def extension(pi):\n    raise SystemExit(0)\n")
    report = await bench.load("a.py", "b.py", "c.py")
    assert ["b.py"] == [os.path.basename(each.path) for each in report.extensions]
    assert ["ValueError (a.py, line 1)", "tried to exit the process (SystemExit: 0) (c.py, line 2)"] == [
        each.error for each in report.failures
    ]


async def test_the_traceback_is_of_the_extension_alone(bench: Bench) -> None:
    bench.write("gate.py", "def inner():\n    raise ValueError('x')\ndef extension(pi):\n    inner()\n")
    failure = (await bench.load("gate.py")).failures[0]
    assert failure.traceback.count("  File ") == 2
    assert "line 4, in extension" in failure.traceback
    assert "line 2, in inner" in failure.traceback
    assert "loading.py" not in failure.traceback


async def test_a_failed_extension_has_no_registrations(bench: Bench) -> None:
    """Its API can't be used, and its bus subscriptions end."""
    bench.write(
        "gate.py",
        """
        import sys
        def extension(pi):
            sys.kept = pi
            pi.flag("f")
            pi.events.on("news", lambda data: sys.exit("received"))
            raise ValueError("after all")
        """,
    )
    await bench.load("gate.py")
    kept = vars(sys).pop("kept")
    bench.loader.bus.emit("news", 1)
    assert not any("received" in line or "news" in line for line in bench.lines)
    with pytest.raises(ExtensionFailedError):
        kept.flag("g")


@pytest.mark.parametrize("where", ["file", "folder", "helper"])
async def test_a_file_writable_by_everyone_is_not_run(bench: Bench, where: str) -> None:
    """Security 4."""
    bench.write("pack/extension.py", "import sys\nsys.ran = True\ndef extension(pi): ...\n")
    bench.write("pack/helper.py", "")
    place = {"file": "pack/extension.py", "folder": "pack", "helper": "pack/helper.py"}[where]
    (bench.root / place).chmod(0o777)
    report = await bench.load("pack")
    assert "chmod o-w" in report.failures[0].error
    assert not hasattr(sys, "ran")


async def test_an_interrupt_that_an_extension_raises_is_its_failure(bench: Bench) -> None:
    """The agent takes SIGINT itself."""
    bench.write("gate.py", "raise KeyboardInterrupt\n")
    report = await bench.load("gate.py")
    assert ["KeyboardInterrupt (gate.py, line 1)"] == [each.error for each in report.failures]
    assert [] == own_modules()


async def test_cancelling_stops_at_the_one_that_loads(bench: Bench) -> None:
    bench.write("gate.py", "import trio\nasync def extension(pi):\n    await trio.sleep_forever()\n")
    with trio.move_on_after(0.2) as scope:
        await bench.load("gate.py")
    assert scope.cancelled_caught
    assert [] == own_modules()


# Time.

SHORT = LoadLimits(0.05, 0.3)


async def test_one_that_never_ends_has_failed(tmp_path: Path) -> None:
    """The soft limit is logged, the hard one fails the load."""
    bench = Bench(tmp_path, SHORT)
    text = f"import trio\nasync def extension(pi):\n    {bench.until_line(2)}\n    await trio.sleep_forever()\n"
    error = await bench.fail("gate.py", text)
    assert "took more than 0.3 s to load" == error
    assert f"{tmp_path / 'gate.py'}: has been loading for 0.05 s" in bench.lines[1]


@pytest.mark.parametrize(
    "text",
    [
        "BLOCK\ndef extension(pi): ...\n",
        "def extension(pi):\n    BLOCK\n",
        """
        import trio
        async def extension(pi):
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)
                BLOCK
        """,
    ],
    ids=["module", "function", "shielded"],
)
async def test_one_that_blocks_is_named_while_it_does(tmp_path: Path, text: str) -> None:
    """It can't be ended; with where it is, since it may never return."""
    bench = Bench(tmp_path, SHORT)
    text = text.replace("BLOCK", bench.until_line(3))
    assert "took more than 0.3 s to load" == await bench.fail("gate.py", text)
    assert "if it blocks it can't be ended, at:\n" in bench.lines[2]


async def test_one_that_was_named_as_too_slow_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes between the beginning of the watch and that of the load."""

    @contextmanager
    def late(path: str, limits: LoadLimits, log: Callable[[str], None]) -> Generator[None]:
        with watched(path, limits, log):
            time.sleep(SHORT.hard_s / 3)
            yield

    monkeypatch.setattr(loading, "watched", late)
    bench = Bench(tmp_path, SHORT)
    text = f"{bench.until_line(3)}\ndef extension(pi): ...\n"
    assert "took more than 0.3 s to load" == await bench.fail("gate.py", text)


async def test_a_slow_one_is_loaded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LoadLimits(0.05, 3600))
    bench.write("gate.py", f"{bench.until_line(2)}\ndef extension(pi): ...\n")
    report = await bench.load("gate.py")
    assert [] == report.failures
    assert "gate.py" in bench.lines[1]
    assert bench.until_line(2) in bench.lines[1]


async def test_each_of_many_costs_the_same_to_load(bench: Bench) -> None:
    names = [f"x{number}.py" for number in range(50)]
    for name in names:
        bench.write(name, "def extension(pi):\n    pi.on('agent_end', lambda ctx, event: None)\n")
    await bench.load(names.pop())  # what the first one loads is used by all
    with CallCount() as few:
        await bench.load(*names[:9])
    with CallCount() as many:
        report = await bench.load(*names[9:])
    assert 40 == len(report.loaded)
    assert many.calls / 40 <= 1.25 * few.calls / 9
    assert many.calls / 40 <= 4_000  # counted: 1,600 alone, 2,621 beside tests that add import hooks


# Output.


async def test_printed_output_goes_to_stderr(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """From the first import on."""
    bench.write(
        "gate.py",
        """
        import sys
        print("while importing")
        def extension(pi):
            print("while loading")
            sys.stdout.write("directly\\n")
            sys.stdout.flush()
            pi.command("x")(lambda ctx, args: print("later"))
        """,
    )
    report = await bench.load("gate.py")
    report.extensions[0].commands["x"].function(None, "")
    out, err = capfd.readouterr()
    assert "" == out
    assert "while importing\nwhile loading\ndirectly\nlater\n" == err
