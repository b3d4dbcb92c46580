"""Filters of packages that say nothing clear load nothing: what was to be left out is code."""

from pathlib import Path

import pytest

from pinnace_agent.config.settings import ResourceSettings
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.packages.resolution import Resolved, resolve_settings


def resolved(home: Path, *entries: JsonObject | str) -> Resolved:
    for name in ("one", "other"):
        (home / name / "extensions").mkdir(parents=True, exist_ok=True)
        for file in ("a.ts", "b.ts"):
            (home / name / "extensions" / file).touch()
    settings = ResourceSettings(home / ".pi" / "agent", is_project=False, packages=entries)
    return resolve_settings([settings], {"HOME": str(home)})


def loaded(found: Resolved) -> list[str]:
    return [f"{Path(each.base_dir).name}/{Path(each.path).name}" for each in found.files["extensions"]]


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"extension": []}, "extension is not known; did you mean extensions?"),
        ({"Extensions": ["a.ts"]}, "Extensions is not known; did you mean extensions?"),
        ({"extensions ": ["a.ts"]}, "did you mean extensions?"),
        ({"autolod": False}, "autolod is not known; did you mean autoload?"),
        ({"autoload": "false"}, "autoload must be true or false"),
        ({"autoload": 0}, "autoload must be true or false"),
    ],
)
def test_of_an_entry_with_a_misspelt_member_nothing_is_loaded(
    tmp_path: Path, members: JsonObject, problem: str
) -> None:
    found = resolved(tmp_path, {"source": str(tmp_path / "one"), **members}, str(tmp_path / "other"))

    assert ["other/a.ts", "other/b.ts"] == loaded(found)
    (notice,) = found.notices
    assert problem in notice
    assert str(tmp_path / "one") in notice


@pytest.mark.parametrize("damaged", ["!a[", "!{a", "!**/[z-a]"])
def test_a_damaged_glob_that_leaves_out_leaves_out_everything(tmp_path: Path, damaged: str) -> None:
    found = resolved(tmp_path, {"source": str(tmp_path / "one"), "extensions": ["*.ts", damaged]})

    assert [] == loaded(found)
    (notice,) = found.notices
    assert f"the pattern {damaged} is damaged, so everything of its kind is left out" in notice


def test_members_of_later_releases_are_let_alone(tmp_path: Path) -> None:
    found = resolved(tmp_path, {"source": str(tmp_path / "one"), "checksum": "x", "extensions": ["a.ts"]})

    assert (["one/a.ts"], []) == (loaded(found), list(found.notices))
