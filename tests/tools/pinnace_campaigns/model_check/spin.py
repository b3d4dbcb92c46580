"""Runs Spin: searches a model, follows a trail, walks at random. Knows nothing of the chart.

Programs are those of `.tools/bin` in a checkout, else those of PATH. Everything is made in a folder of the caller's.
"""

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TOOLS = Path(__file__).resolve().parents[4] / ".tools" / "bin"
# The deepest search so far needed a fortieth of it.
MAX_DEPTH = 2_000_000
# A walk needs no analysis of the model, which takes ten times as long as all else in it. The program of a search can't
# be compiled without any; it has as many states where statements aren't merged, and its trail is followed in a fifth of
# the time then.
_UNANALYSED = ("-o1", "-o3")
_UNMERGED = ("-o3",)
# One more than the variables of any model need.
VECTOR_BYTES = 2048
NICENESS = 10


class SpinMissing(Exception):
    """There is no Spin, or no C compiler, which it needs."""


class ModelBroken(Exception):
    """Spin or the compiler refuses the model: a defect of the generator. The text is theirs."""


class Limits(NamedTuple):
    """When a search gives up; 0: never. `is_hashed`: a hash is kept of each state: small, not quite a proof."""

    memory_mib: int = 0
    seconds: int = 0
    is_hashed: bool = False


NO_LIMITS = Limits()


class Verdict(NamedTuple):
    """How a search ended."""

    errors: int
    property: str
    """What does not hold: the name of a property, `deadlock`, or `claim`; empty if all holds."""
    states: int
    depth: int
    seconds: float
    memory_mib: float
    is_complete: bool
    """Whether every state was looked at: no error, no limit reached."""
    path: tuple[str, ...] = ()
    """The output of the model up to the error."""


def find_program(name: str) -> str | None:
    """Return the path of a program, if it is installed."""
    beside = TOOLS / name
    return str(beside) if beside.exists() else shutil.which(name)


def program(name: str) -> str:
    """Return the path of a program.

    Raises:
        SpinMissing: It is not installed.
    """
    if (found := find_program(name)) is None:
        raise SpinMissing(f"{name} is not installed (scripts/peers, or the package of your system)")
    return found


def definitions(values: Mapping[str, int]) -> list[str]:
    """Return macros as arguments of the preprocessor."""
    return [f"-D{name}={value}" for name, value in values.items()]


def _run(arguments: Sequence[str], folder: Path) -> str:
    ended = subprocess.run(
        arguments,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if ended.returncode != 0 or "Error:" in ended.stdout or "syntax error" in ended.stdout:
        raise ModelBroken(f"{' '.join(arguments)}\n{ended.stdout[:4000]}")
    return ended.stdout


def spin_command() -> list[str]:
    """Return Spin's command, with the C compiler as its preprocessor."""
    return [program("spin"), f"-P{shlex.quote(program('cc'))} -std=gnu99 -E -x c"]


class Search:
    """One model, compiled for one search; may be run for several claims."""

    def __init__(
        self,
        text: str,
        folder: Path,
        values: Mapping[str, int],
        *,
        has_claims: bool = False,
        optimise: int = 1,
        limits: Limits = NO_LIMITS,
    ) -> None:
        """Generate and compile.

        Args:
            text: The model.
            folder: An empty one.
            values: Macros: N, SET and the like.
            has_claims: For formulas, which need twice the states; else for assertions and deadlocks.
            optimise: How hard the compiler tries; 0 for small searches, which take less time than their compilation.
            limits: When to give up, and whether to keep hashes. Time is rounded up to minutes.
        """
        self._folder = folder
        self._limits = limits
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.pml").write_text(text, encoding="utf-8")
        claims = ["-DCLAIMS"] if has_claims else []
        self._macros = [*claims, *definitions(values)]
        _run([*spin_command(), *_UNMERGED, "-a", *self._macros, "model.pml"], folder)
        safety = [] if has_claims else ["-DSAFETY"]
        stored = ["-DHC4" if limits.is_hashed else "-DCOLLAPSE", "-DNOFAIR", f"-DVECTORSZ={VECTOR_BYTES}"]
        compiler = program("cc")
        if optimise == 0:  # in a hundredth of the time, and the search takes hardly longer
            compiler = find_program("tcc") or compiler
        _run([compiler, f"-O{optimise}", "-w", *safety, *stored, "-o", "pan", "pan.c"], folder)

    def run(self, claim: str = "") -> Verdict:
        """Search every state, or for what contradicts a formula; stop at the first error."""
        memory_mib, seconds, _ = self._limits
        arguments = [str(self._folder / "pan"), f"-m{MAX_DEPTH}", "-n"]
        arguments += ["-a", "-N", claim] if claim else []
        arguments += [f"-Q{-(-seconds // 60)}"] if seconds else []
        begun = time.monotonic()
        with subprocess.Popen(
            [*_limited(memory_mib), *arguments],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            printed = process.stdout.read()
        verdict = read_report(printed, time.monotonic() - begun)
        if verdict.errors:
            path = self._follow()
            verdict = verdict._replace(path=path, property=claim or _broken(path) or verdict.property)
        return verdict

    def _follow(self) -> tuple[str, ...]:
        # Spin, not the search itself, which can't print names.
        command = [*spin_command(), *_UNMERGED, "-T", "-t", *self._macros, "model.pml"]
        printed = subprocess.run(
            command, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        ).stdout
        return outputs_of(printed)


def _limited(memory_mib: int) -> list[str]:
    """Lower the search's priority, and limit its memory."""
    nice = shutil.which("nice")
    command = [nice, f"-n{NICENESS}"] if nice else []
    prlimit = shutil.which("prlimit")
    if memory_mib and prlimit:
        command += [prlimit, f"--as={memory_mib * 1024 * 1024}"]
    return command


def _broken(path: Sequence[str]) -> str:
    names = [line.removeprefix("broken p_") for line in path if line.startswith("broken ")]
    return names[0] if names else ""


def outputs_of(printed: str) -> tuple[str, ...]:
    """Return the output of the model itself among those of the program that ran it."""
    lines = [line.strip() for line in printed.splitlines()]
    return tuple(line for line in lines if _OUTPUT.fullmatch(line))


_OUTPUT = re.compile(r"> t_\w+ \d+ \d+ \d+ \d+|broken \w+|[a-z_]+(?: (?:[a-z]_)?[a-z]\w*)?(?: \d+){0,3}")


def read_report(printed: str, seconds: float) -> Verdict:
    """Read what a search printed at its end."""

    def number(pattern: str) -> float:
        found = re.search(pattern, printed)
        return float(found[1]) if found else 0.0

    errors = int(number(r"errors: (\d+)"))
    kind = ""
    if "invalid end state" in (printed.split("Full statespace", maxsplit=1)[0]):
        kind = "deadlock"
    elif "acceptance cycle" in printed.split("Full statespace", maxsplit=1)[0]:
        kind = "claim"
    elif errors:
        kind = "assertion"
    gave_up = "Search not completed" in printed or "max search depth too small" in printed or "errors:" not in printed
    return Verdict(
        errors,
        kind,
        int(number(r"([\d.e+]+) states, stored")),
        int(number(r"depth reached (\d+)")),
        seconds,
        number(r"([\d.]+)\s+total actual memory usage"),
        not errors and not gave_up,
    )


def walk(text: str, folder: Path, values: Mapping[str, int], seeds: Sequence[int]) -> list[tuple[str, ...]]:
    """Walk through a model at random, once for each seed; return its output on each walk."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.pml").write_text(text, encoding="utf-8")
    walks: list[tuple[str, ...]] = []
    for seed in seeds:
        command = [*spin_command(), *_UNANALYSED, "-T", f"-n{seed}", *definitions(values), "model.pml"]
        walks.append(outputs_of(_run(command, folder)))
    return walks
