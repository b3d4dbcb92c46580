"""Shards of a run: together they are the run, whatever the seed, and their merged report is its report."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_fuzz.judge.cli import main
from pinnace_fuzz.judge.fleet.sharding import Shard
from pinnace_fuzz.judge.reports.merging import NotOneRun, merged

TINY = [sys.executable, str(Path(__file__).parent / "tiny_agent.py")]
SEEDS = (7, 20261124, 4_000_000_001)


def run(out: Path, seed: int, *words: str) -> dict[str, Any]:
    options = ["--adapter", "none", "--only", "ERR/no-", "--only", "FRM/c", "--patience", "1", "--report", "json"]
    options += ["--seed", str(seed), "--out", str(out), *words]
    code = main([*options, "--", *TINY, "dies-of-null"])
    report: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert code == report["summary"]["exit_code"]
    return report


def essence(report: dict[str, Any]) -> dict[str, Any]:
    """What of a report is not chance: no times, texts with numbers of processes, nor places of files."""
    cases = [
        {
            **{key: case[key] for key in ("id", "kind", "rules", "verdict", "counts", "cells", "reproduced")},
            "findings": [{key: each[key] for key in ("source", "rules", "level")} for each in case["findings"]],
        }
        for case in report["cases"]
    ]
    coverage = {key: value for key, value in report["coverage"].items() if key not in {"records", "armed"}}
    return {"cases": cases, "coverage": coverage, "summary": report["summary"], "rules": report["rules"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_merged_report_of_all_shards_is_that_of_one_run(seed: int, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", seed)
    files = []
    for number in (2, 1):
        run(tmp_path / str(number), seed, "--shard", f"{number}/2")
        files.append(str(tmp_path / str(number) / "report.json"))
    code = main(["merge", *files, "-o", str(tmp_path / "merged.json")])
    found = json.loads((tmp_path / "merged.json").read_text(encoding="utf-8"))

    assert code == whole["summary"]["exit_code"] == 1
    assert essence(whole) == essence(found)
    assert 2 == found["kit"]["shards"]
    assert 0 == main(["page", str(tmp_path / "merged.json"), "-o", str(tmp_path / "page.html")])


def test_an_engine_runs_all_shards_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Dask and Ray do (tests/benchmarks/fleet.py), which need packages of their own."""
    whole = run(tmp_path / "whole", SEEDS[0], "--skip", "FRM/")
    found = run(tmp_path / "out", SEEDS[0], "--skip", "FRM/", "--engine", "processes", "--shards", "2")

    assert essence(whole) == essence(found)
    assert 2 == found["kit"]["shards"]
    (bad,) = [case for case in found["cases"] if case["counts"]]
    assert Path(bad["stored"]).is_relative_to(tmp_path / "out")
    assert Path(bad["stored"]).is_file()
    assert f"{bad['verdict']} {bad['id']}" in capsys.readouterr().out


def test_an_agent_that_does_not_start_ends_the_run_as_without_an_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--only", "ERR/no-", "--engine", "processes", "--shards", "1", "--out", str(tmp_path)]

    assert 4 == main([*words, "--", "no-such-agent"])
    assert "shard 1/1 has no report:\nthe agent does not start: no program no-such-agent" in capsys.readouterr().err


@given(
    items=st.lists(st.integers(), max_size=40),
    count=st.integers(min_value=1, max_value=9),
    seed=st.integers(min_value=0, max_value=2**32),
)
def test_every_item_is_in_exactly_one_shard(items: list[int], count: int, seed: int) -> None:
    parts = [Shard(number, count).part(list(enumerate(items)), seed) for number in range(1, count + 1)]

    assert sorted(each for part in parts for each in part) == list(enumerate(items))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def report(shard: str | None, **kit: object) -> dict[str, Any]:
    agent = dict.fromkeys(("name", "version", "generation", "is_ours", "adapter", "capabilities"), "x")
    given = {
        "version": "1",
        "seed": 1,
        "strict": False,
        "only": [],
        "skip": [],
        "campaigns": None,
        "budget_s": 9,
        **kit,
    }
    return {"agent": agent, "kit": given if shard is None else {**given, "shard": shard}}


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([report("1/2")], "missing: 2/2"),
        ([report("1/2"), report("1/2")], "shard 1/2 is there twice"),
        ([report("1/2"), report("2/3")], "shard 2/3 is not one of 2"),
        ([report("1/2"), report("2/2", seed=2)], "shard 2/2 has another kit.seed: 2"),
        ([report("1/2"), report("2/2", campaigns=["framing"])], r"shard 2/2 has another kit.campaigns: \['framing'\]"),
        ([report("1/2"), report("2/2", budget_s=60)], "shard 2/2 has another kit.budget_s: 60"),
        ([report(None)], "made without --shard"),
    ],
)
def test_what_is_not_one_run_is_refused(reports: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(NotOneRun, match=why):
        merged(reports)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no JSON: "),
        ("\xff", "is no JSON: "),
        ("[" * 100_000, "is no JSON: "),
        ("null", "is no report of this release"),
        ('{"conform": 0}', "is no report of this release"),
        ('{"conform": 1, "kit": {"shard": "x"}}', "is not I/N"),
    ],
)
def test_a_file_that_is_no_report_is_named(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="latin-1")

    assert 3 == main(["merge", str(tmp_path / "bad.json"), "-o", str(tmp_path / "report.json")])
    assert why in (err := capsys.readouterr().err)
    assert "I/N" in err or str(tmp_path / "bad.json") in err
    assert not (tmp_path / "report.json").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--shard", "3/2", "--seed", "1"], "is not I/N"),
        (["--shard", "0/2", "--seed", "1"], "is not I/N"),
        (["--shard", "1/2"], "--shard needs --seed"),
        (["--shards", "2"], "--shards needs --engine"),
        (["--engine", "processes", "--shard", "1/2", "--seed", "1"], "goes with no --shard"),
        (["--engine", "processes", "--report", "md"], "goes with no other --report"),
        (["--engine", "processes", "--reproduce", "x"], "goes with no --reproduce"),
        (["--engine", "processes", "--location", "x"], "goes with no --location"),
        (["--engine", "nothing"], "--engine takes processes"),
    ],
)
def test_a_shard_that_makes_no_sense_exits_with_3(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 3 == main([*words, "--", *TINY])
    assert why in capsys.readouterr().err
