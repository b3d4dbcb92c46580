"""The manual page is that of the tables, and roff reads it as it is meant."""

import shutil
import subprocess

import pytest
from tests.source_tree import REPOSITORY

from pinnace_rpc.options.shown.man import PAGE, manual_page
from pinnace_rpc.options.table import GROUPS, SUBCOMMANDS


def test_the_page_is_the_one_that_the_tables_make() -> None:
    """`python -m pinnace_rpc.options.shown.man` writes it again."""
    assert manual_page() == (REPOSITORY / PAGE).read_text(encoding="utf-8")


def test_it_has_every_option_and_every_subcommand() -> None:
    text = manual_page().replace("\\-", "-").replace("\\&", "")

    assert [] == [name for group in GROUPS for option in group.options for name in option.names if name not in text]
    assert [] == [name for name in SUBCOMMANDS if f".SS pinnace {name}\n" not in text]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_reads_it_without_a_warning() -> None:
    command = ["groff", "-man", "-Tascii", "-ww", str(REPOSITORY / PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "" == done.stderr
    assert "{" in done.stdout  # the examples of files are kept as they are
