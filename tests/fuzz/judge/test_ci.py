"""The judge in CI: the action, the Containerfile, the hook, and the page that leads a stranger through them.

The stranger's agent is one file. What is installed comes from this checkout; what it depends on is the machine's.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.judge.ci_steps import build, read_yaml, run_action
from tests.source_tree import REPOSITORY

TINY = Path(__file__).parent / "tiny_agent.py"
PAGE = (REPOSITORY / "docs" / "conformance-in-ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
SCENARIOS = ("ERR/no-object-", "FRM/c")
FEW = " ".join(f"--only {each}" for each in SCENARIOS)
"""A part of the scenarios: all of them take minutes."""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return the variables of a machine without a network, whose Python has the judge's dependencies."""
    (tmp_path / "home").mkdir()
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as the value of the option that isolates
        "PINNACE": str(REPOSITORY),
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return the repository of an agent."""
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(TINY, folder / "agent.py")
    return folder


def shell(line: str, work: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=work,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def with_faults(agent: Path, *faults: str) -> None:
    """Write the agent of the tests with faults that no argument names."""
    agent.write_text(f"import sys\n\nsys.argv += {list(faults)}\n{TINY.read_text(encoding='utf-8')}", encoding="utf-8")


def block(name: str) -> Any:
    """Return the content of a file that the page shows."""
    [found] = [text for language, text in BLOCKS if language == "yaml" and text.startswith(f"# {name}\n")]
    return read_yaml(found)


def shortened(line: str) -> str:
    """Return a command of the page for the agent of the tests, which has no model, and for a few scenarios."""
    if "pinnace-conform" not in line:
        return line
    return line.replace(" -- ", f" --adapter none --patience 0.5 {FEW} -- ")


@pytest.mark.slow
def test_the_page_leads_from_an_empty_folder_to_a_judged_repository(work: Path, env: dict[str, str]) -> None:
    section = PAGE[PAGE.index("## Step by step") : PAGE.index("## GitHub")]
    lines = [line for text in re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S) for line in text.splitlines()]
    # An agent with a fault, which is known from now on, so that a command of the page is not the first to find none.
    with_faults(work / "agent.py", "dies-of-null")
    first = [line for line in lines if "--time 60s" in line]
    for line in lines:
        done = shell(shortened(line), work, env)
        assert (1 if line in first else 0) == done.returncode, f"{line}\n{done.stdout}"

    assert ".conform/" in (work / ".gitignore").read_text(encoding="utf-8").split()
    assert "0 new, 3 still there" in done.stdout
    with_faults(work / "agent.py", "dies-of-null", "answers-twice")
    assert 1 == shell(shortened(lines[-1]), work, env).returncode


@pytest.mark.slow
def test_the_action_fails_by_new_findings_alone(work: Path, env: dict[str, str], tmp_path: Path) -> None:
    workflow = block(".github/workflows/conformance.yml")
    [step] = [each for each in workflow["jobs"]["judge"]["steps"] if each.get("uses", "").startswith("OWNER/pinnace@")]
    few = {"options": f"--patience 0.5 {FEW}", "adapter": "none", "time": "60s"}
    (work / "known.json").write_text("")
    broken = run_action(REPOSITORY, {**step["with"], **few}, work=work, temp=tmp_path / "a", env=env)
    assert 3 == broken.code, broken.text
    given = {**few, "agent": "python3 'agent.py' dies-of-null"}

    first = run_action(REPOSITORY, given, work=work, temp=tmp_path / "b", env=env)
    shutil.copy(work / first.outputs["report"], work / "known.json")
    known = run_action(REPOSITORY, {**step["with"], **given, "out": "reports"}, work=work, temp=tmp_path / "c", env=env)

    assert (1, "1") == (first.code, first.outputs["exit-code"]), first.text
    assert "ERR/no-object-null" in first.summary
    assert (0, "0") == (known.code, known.outputs["exit-code"]), known.text
    assert "reports/report.sarif" == known.outputs["sarif"]
    sarif = json.loads((work / "reports" / "report.sarif").read_text(encoding="utf-8"))
    assert "agent.py" in json.dumps(sarif["runs"][0]["results"])


STAND_IN = """\
#!/bin/sh
# In the place of python3: the environment that it makes has a judge which shows its arguments.
mkdir -p "$3/bin"
printf '#!/bin/sh\\n' | tee "$3/bin/pip" > "$3/bin/pinnace-conform"
printf 'printf "<%%s>\\\\n" "$@"; exit "$CODE"\\n' >> "$3/bin/pinnace-conform"
chmod +x "$3/bin/pip" "$3/bin/pinnace-conform"
"""


def arguments(tmp_path: Path, code: int = 0, **given: str) -> tuple[int, list[str]]:
    """Return the exit code of the action, and the arguments that it gives the judge."""
    (tmp_path / "python3").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "python3").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CODE": str(code), "HOME": str(tmp_path)}
    ran = run_action(REPOSITORY, given, work=tmp_path, temp=tmp_path / "temp", env=env)
    assert str(ran.code) == ran.outputs["exit-code"] or ran.code == 3
    return ran.code, re.findall(r"^<(.*)>$", ran.text, re.M)


def test_the_action_gives_the_judge_the_words_of_its_inputs(tmp_path: Path) -> None:
    agent = "python3 'my agent.py' --say \"$(touch made)\" *"
    code, words = arguments(tmp_path, 1, agent=agent, known="a.json b.json", campaigns="framing faults", time="60s")
    at = words.index("--")

    assert 1 == code
    assert ["python3", "my agent.py", "--say", "$(touch made)", "*"] == words[at + 1 :]
    assert "judge" == words[0]
    assert {"--known=a.json", "--known=b.json", "--campaign=framing", "--campaign=faults", "60s"} <= set(words[:at])
    assert not (tmp_path / "made").exists()


def test_the_action_judges_agents_of_the_other_protocol_and_by_a_set(tmp_path: Path) -> None:
    _, words = arguments(tmp_path, agent="agent", protocol="acp", requirements="2026-12", options="--jobs 1")

    assert "acp" == words[0]
    assert ["--requirements", "2026-12", "--jobs", "1", "--", "agent"] == words[-6:]
    assert "json,junit,sarif,pr,badge,shield" in words
    assert not {"--time", "--campaign=none"} & set(words)


def test_the_action_refuses_an_unknown_protocol(tmp_path: Path) -> None:
    assert (3, []) == arguments(tmp_path, agent="agent", protocol="mcp")


def test_the_action_has_the_inputs_that_the_page_shows() -> None:
    inputs = read_yaml((REPOSITORY / "action.yml").read_text(encoding="utf-8"))["inputs"]
    table = PAGE[PAGE.index("| Input |") : PAGE.index("Its outputs are")]
    rows = [line.split("|")[1] for line in table.splitlines()[2:] if line]

    assert sorted(inputs) == sorted(name for row in rows for name in re.findall(r"`(\w+)`", row))
    for name in inputs:
        assert f"${{{{ inputs.{name} }}}}" in (REPOSITORY / "action.yml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_steps_of_the_container_install_a_judge_that_works(work: Path, env: dict[str, str], tmp_path: Path) -> None:
    """And the lines of the GitLab job run in it."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "python")], check=True)
    inside = {**env, "PATH": f"{tmp_path / 'python' / 'bin'}:{os.environ['PATH']}"}
    image = build(REPOSITORY / "Containerfile", tmp_path / "root", inside)
    job = block(".gitlab-ci.yml")["conformance"]
    shell(f"{image.entrypoint[0]} --adapter none --patience 0.5 {FEW} --report json -- python3 agent.py", work, inside)
    shutil.copy(work / ".conform" / "report.json", work / "known.json")

    assert ("pinnace-conform",) == image.entrypoint
    assert "/work" == image.work
    assert f":{image.work}" in PAGE
    assert (tmp_path / "python" / "bin" / image.entrypoint[0]).is_file()
    for line in job["script"]:
        done = shell(shortened(line), work, inside)
        assert 0 == done.returncode, done.stdout
    assert (work / job["artifacts"]["reports"]["junit"]).is_file()


def test_the_hook_is_a_program_of_what_it_installs(work: Path) -> None:
    [hook] = read_yaml((REPOSITORY / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    [repository] = block(".pre-commit-config.yaml")["repos"]
    [used] = repository["hooks"]
    [source] = hook["additional_dependencies"]
    project = tomllib.loads((REPOSITORY / source / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert used["id"] == hook["id"]
    assert hook["entry"] in project["scripts"]
    assert "false" == hook["pass_filenames"]
    assert "--" in used["args"]
