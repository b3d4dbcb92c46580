"""The databases of examples that runs share (`--examples URL`): what one worker has found, others play first.

    PATH                        a folder, of one machine or shared: DirectoryBasedExampleDatabase
    redis://HOST:PORT/NUMBER    RedisExampleDatabase; also rediss:// and unix://
    github:OWNER/REPOSITORY     GitHubArtifactDatabase, which is never written; the artifact is `hypothesis-example-db`
    readonly:URL                one of these, which is not written

Several are one: all are read, and all that can be are written. They share examples; they do not divide the work.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    GitHubArtifactDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)

_REDIS: Final = ("redis", "rediss", "unix")
_READ_ONLY: Final = "readonly:"
_CONNECT_S: Final = 5.0


class ExamplesError(Exception):
    """A URL is none, or its database can't be used. The text is for the user."""


def open_examples(urls: Sequence[str]) -> ExampleDatabase:
    """Return the database of some URLs, of which there is at least one.

    Raises:
        ExamplesError: One is invalid, or does not answer.
    """
    found = [_open(url, re.sub(r"//[^/@]*@", "//", url)) for url in urls]
    return found[0] if len(found) == 1 else MultiplexedDatabase(*found)


def examples_of(purpose: str, database: ExampleDatabase) -> ExampleDatabase:
    """Return the examples of one purpose: those of others are neither seen nor removed."""
    return _Examples(database, purpose)


def _open(url: str, shown: str) -> ExampleDatabase:
    if url.startswith(_READ_ONLY):
        return ReadOnlyDatabase(_open(url.removeprefix(_READ_ONLY), shown))
    kind, _, rest = url.partition(":")
    if kind in _REDIS:
        return _redis(url, shown)
    if kind == "github":
        if (found := re.fullmatch(r"([\w.-]+)/([\w.-]+)", rest)) is None:
            raise ExamplesError(f"--examples {shown}: expected github:OWNER/REPOSITORY")
        return ReadOnlyDatabase(GitHubArtifactDatabase(found[1], found[2]))
    if "://" in url or not url:
        raise ExamplesError(
            f"--examples {shown}: expected a folder, redis://…, github:OWNER/REPOSITORY or readonly:URL"
        )
    return _directory(url, shown)


def _directory(url: str, shown: str) -> ExampleDatabase:
    folder = Path(url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExamplesError(f"--examples {shown}: the folder can't be made: {error.strerror or error}") from None
    return DirectoryBasedExampleDatabase(folder)


def _redis(url: str, shown: str) -> ExampleDatabase:
    try:
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis, RedisError
    except ImportError as error:
        text = f"--examples {shown} needs a package ({error}): install pinnace-conform with the extra `redis`"
        raise ExamplesError(text) from None
    try:
        made: Any = Redis  # whose types are partial
        client = made.from_url(url, socket_connect_timeout=_CONNECT_S)
        client.ping()
    except (RedisError, ValueError, OSError) as error:
        raise ExamplesError(f"--examples {shown}: no Redis answers: {error}") from None
    return RedisExampleDatabase(client)


class _Examples(ExampleDatabase):
    """The examples of one purpose in a database that has others, too."""

    def __init__(self, database: ExampleDatabase, purpose: str) -> None:
        super().__init__()
        self._database = database
        self._prefix = f"pinnace-conform {purpose} ".encode()

    def save(self, key: bytes, value: bytes) -> None:
        self._database.save(self._prefix + key, value)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return self._database.fetch(self._prefix + key)

    def delete(self, key: bytes, value: bytes) -> None:
        self._database.delete(self._prefix + key, value)

    def move(self, src: bytes, dest: bytes, value: bytes) -> None:
        self._database.move(self._prefix + src, self._prefix + dest, value)
