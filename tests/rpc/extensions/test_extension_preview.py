"""What extensions add to `--help` and `--list-models`, where no session is made."""

from pathlib import Path

import pytest

from pinnace_campaigns.trials.one_shot import OneShotStarter

SOURCE = """
print("hello from the extension")

def extension(pi):
    pi.flag("plan", type=bool, description="Only plan")
    pi.flag("ssh", type=str)
    pi.register_provider(
        "box", base_url="http://127.0.0.1:1/v1", api_key="k", api="openai-completions", models=[{"id": "m9"}]
    )
    pi.register_provider("odd", models=7)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "brings.py"
    path.write_text(SOURCE)
    return str(path)


def test_help_lists_the_options_of_extensions(print_agent: OneShotStarter, file: str) -> None:
    ended = print_agent(["--help", "--extension", file]).end()

    assert 0 == ended.code
    assert ended.out.endswith("Options of extensions:\n  --plan      Only plan\n  --ssh TEXT\n")
    assert "hello from the extension" not in ended.out


def test_help_without_extensions_is_as_ever(print_agent: OneShotStarter, file: str) -> None:
    assert "Options of extensions" not in print_agent(["--help", "-ne"]).end().out


def test_models_of_extensions_are_listed(print_agent: OneShotStarter, file: str) -> None:
    ended = print_agent(["--list-models", "-e", file]).end()

    assert 0 == ended.code
    assert [["box", "m9"]] == [line.split()[:2] for line in ended.out.splitlines() if line.startswith("box")]
    assert "odd: " in ended.err
    assert "hello from the extension" not in ended.out


def test_one_that_fails_does_not_keep_the_rest_from_being_listed(print_agent: OneShotStarter, file: str) -> None:
    ended = print_agent(["--list-models", "-e", f"{file}.not", "-e", file]).end()

    assert 0 == ended.code
    assert "does not exist" in ended.err
    assert any(line.startswith("box") for line in ended.out.splitlines())
