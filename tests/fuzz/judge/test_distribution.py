"""The judge is a distribution of its own: it works where there is no agent, from its wheel."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TINY = Path(__file__).parent / "tiny_agent.py"
PROJECT = tomllib.loads((ROOT / "fuzz" / "pyproject.toml").read_text())
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())


def included(project: dict[str, object]) -> dict[str, str]:
    return project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]  # type: ignore[index, no-any-return]


def test_it_ships_the_same_files_of_the_specification() -> None:
    own = {source.removeprefix("../"): target for source, target in included(PROJECT).items()}

    assert {source: own.get(source) for source in included(WHOLE)} == included(WHOLE)
    assert PROJECT["project"]["version"] == WHOLE["project"]["version"]


@pytest.mark.slow
def test_it_judges_without_the_agent(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT / "fuzz", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        assert {"pinnace_fuzz", "pinnace_spec", "pinnace_engines"} == {
            name.partition("/")[0] for name in files.namelist()
        } - {f"pinnace_conform-{PROJECT['project']['version']}.dist-info"}
    home = tmp_path / "venv"
    uv = [sys.executable, "-m", "uv"]
    python = home / "bin" / "python"
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(home)], check=True)
    install = ["pip", "install", "-q", "--offline", "--no-deps", "--python", str(python), str(wheel)]
    subprocess.run([*uv, *install], check=True)
    # What it depends on is the machine's; a line in a .pth file does not bring in what is installed editable there.
    packages = subprocess.check_output([python, "-c", "import site; print(site.getsitepackages()[0])"], text=True)
    (Path(packages.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    has_agent = subprocess.run([python, "-c", "import pinnace_agent"], env=env, capture_output=True, check=False)
    assert has_agent.returncode == 1

    # What the tiny agent of the tests can do: no answer of a model, no session, one read.
    options = ["--adapter", "none", "--only", "FRM/", "--only", "ERR/", "--campaign", "none", "--time", "60s"]
    options += ["--report", "html", "--out", str(tmp_path / "out")]
    judged = subprocess.run(
        [str(home / "bin" / "pinnace-conform"), *options, "--", sys.executable, str(TINY)],
        env=env,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )

    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert " PASS" in judged.stdout
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!DOCTYPE html>")
