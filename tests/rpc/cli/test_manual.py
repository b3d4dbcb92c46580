"""`--help` is true: it names every option, and what it says of each is so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.models.builtin import key_variables
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_rpc.options.arguments import parse_arguments
from pinnace_rpc.options.options import Options
from pinnace_rpc.options.parser import CommandError, UsageError
from pinnace_rpc.options.table import NAMES, OPTIONS, SUBCOMMANDS

SERVE = ("--mode", "rpc", "--no-session")


@pytest.fixture(scope="module")
def manual() -> str:
    """What `--help` prints where no terminal says how wide it is."""
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "--help"]
    env = {"PATH": os.defpath, "PYTHONPATH": PYTHONPATH}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout


def section(manual: str, title: str) -> str:
    return manual.partition(f"\n{title}:\n")[2].partition("\n\n")[0]


def listed(manual: str, title: str) -> list[str]:
    """The names under a title; those of one option apart."""
    return [name for names in section(manual, title).split(",") for name in names.strip().split("/")]


def test_it_fits_a_terminal(manual: str) -> None:
    assert [] == [line for line in manual.splitlines() if len(line) > 80 or line != line.rstrip()]


def test_it_names_every_option_once(manual: str) -> None:
    titles = [
        "Mode",
        "Limits of a run, from its prompt until the agent has settled",
        "Model",
        "Prompt and tools",
        "Extensions, which may add further options",
        "Session",
        "Terminal client (`pinnace` in a terminal, without a mode)",
        "Other",
    ]
    described = [
        word.rstrip(",")
        for title in titles
        for line in section(manual, title).splitlines()
        for word in line[: line.find("  ", 3)].split()
        if line.startswith("  -") and word.startswith("-")
    ]
    names = described + listed(manual, "Accepted for clients of pi, and ignored")

    assert sorted(NAMES) == sorted(names)


def words_for(name: str) -> list[str]:
    """A command line that uses an option."""
    [option] = [option for option in OPTIONS if name in option.names]
    return [name] if option.metavar is None else [name, "value"]


def test_what_is_said_to_be_ignored_is_ignored(manual: str) -> None:
    names = listed(manual, "Accepted for clients of pi, and ignored")
    words = [word for name in names for word in words_for(name)]

    assert "--tui-mode" in names
    assert Options(is_persistent=False) == parse_arguments([*SERVE, *words], {})


def test_what_needs_a_terminal_is_refused_without_one(manual: str) -> None:
    assert "--resume" in manual[manual.index("Terminal client") :]
    with pytest.raises(CommandError, match="not supported: a menu of sessions"):
        parse_arguments(["--mode", "rpc", "--resume"], {})
    assert parse_arguments(["--resume"], {}, is_at_terminal=True).opens_sessions


def test_the_model_that_it_describes_is_one(manual: str, tmp_path: Path) -> None:
    text = manual[manual.index('{"providers"') : manual.index("\n\n  Select it")]
    (tmp_path / "models.json").write_text(text)
    catalog = read_catalog(tmp_path / "models.json")

    assert () == catalog.diagnostics
    assert [("local", "qwen3")] == [(model["provider"], model["id"]) for model in catalog.models_of("local")]
    assert "--model local/qwen3" in manual


def test_the_key_that_it_stores_is_one(manual: str, tmp_path: Path) -> None:
    [line] = [line for line in manual.splitlines() if "2. auth.json" in line]
    entry = json.loads(line[line.index("{") :])
    (tmp_path / "auth.json").write_text(json.dumps(entry))

    assert ["local"] == list(read_auth(tmp_path / "auth.json").entries)
    assert "OPENAI_API_KEY" in key_variables("openai")


@pytest.mark.parametrize(
    "line",
    [
        "--api-key sk-marker",
        "--api-key sk-marker --bogus",
        "--api-key sk-marker sk-marker",
        "--api-key sk-marker @sk-marker",
        "--api-key sk-marker --mode sk-marker",
        "--api-key sk-marker --thinking sk-marker",
        "--api-key sk-marker --protocol sk-marker",
        "--api-key sk-marker --on-eof sk-marker",
        "--api-key sk-marker --session-id /sk-marker",
        "--api-key sk-marker --model",
        "--api-kei=sk-marker",
        "--no-tools=sk-marker",
    ],
)
def test_no_answer_to_a_command_line_repeats_a_key(line: str) -> None:
    try:
        shown = repr(parse_arguments([*SERVE, *line.split()], {}))
    except CommandError as error:
        shown = f"{error} {error!r}"

    assert "sk-marker" not in shown


@pytest.mark.parametrize("abbreviation", ["--mod", "--api", "--no-tool"])
def test_an_option_is_written_in_full(abbreviation: str) -> None:
    """Tomorrow two options may begin so."""
    with pytest.raises(UsageError, match=f"No such option '{abbreviation}'"):
        parse_arguments([*SERVE, "-ne", abbreviation, "x"], {})


def test_blanks_around_a_value_mean_nothing() -> None:
    words = [*SERVE, "--name", " N ", "--api-key", " k\n", "--tools", " read , bash "]

    options = Options(name="N", api_key="k", tools=("read", "bash"), is_persistent=False)
    assert options == parse_arguments(words, {})


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_a_page(name: str) -> None:
    """Also without a network, a host or a model, and none runs. `pinnace acp` has the page of the program."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pinnace_rpc", name, "--help"],
        env={"PATH": os.defpath, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("Usage: pinnace [OPTIONS]" if name == "acp" else f"Usage: pinnace {name} ")
