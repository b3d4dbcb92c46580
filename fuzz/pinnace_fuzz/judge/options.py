"""The values of the options of `pinnace-conform`, as click reads them. Wrong ones name what was expected."""

import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click

from pinnace_fuzz.judge.at_once import MOST
from pinnace_fuzz.judge.fleet.sharding import Shard

FORMATS: Final = ("html", "junit", "json", "md", "pr", "sarif", "badge", "shield")
UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class Seconds(click.ParamType[Any]):
    """A time such as 60s, 10m or 2h, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", str(value))
        if found is None:
            self.fail(f"{value!r} is not a time such as 60s, 10m or 2h", param, ctx)
        return float(found[1]) * UNITS[found[2]]


class Formats(click.ParamType[Any]):
    """Names of report formats, separated by commas."""

    name = "formats"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Read it."""
        names = tuple(each for each in str(value).split(",") if each)
        for each in names:
            if each not in FORMATS:
                self.fail(f"{each!r} is none of {', '.join(FORMATS)}", param, ctx)
        return names


class RepositoryFile(click.ParamType[Any]):
    """A path below the root of a repository."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read it."""
        path = PurePosixPath(str(value))
        if path.is_absolute() or ".." in path.parts:
            self.fail(f"{value!r} is not a path below the root of a repository, such as src/main.py", param, ctx)
        return str(path) if path.parts else ""


class ShardType(click.ParamType[Any]):
    """A part of a run, such as 1/4."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shard:
        """Read it."""
        try:
            return Shard.read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Jobs(click.ParamType[Any]):
    """How many scenarios at once; None: as many as the processors are idle for."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Read it."""
        if value in ("auto", None):
            return None
        if not re.fullmatch(r"[0-9]+", str(value)) or not 1 <= int(value) <= MOST:
            self.fail(f"{value!r} is neither auto nor a number from 1 to {MOST}", param, ctx)
        return int(value)


JOBS_HELP: Final = f"How many scenarios at once, at most {MOST}; auto: as many as the processors are idle for."


REPORT: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
