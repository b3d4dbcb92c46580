"""Reads the parameters of a request: each field by its path, with an error that names it and what was expected.

Where a schema has a default for what is malformed, a value of another type counts as absent. Unknown fields are
ignored.
"""

import os
from collections.abc import Iterator

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_rpc.acp.translation.jsonrpc import INVALID_PARAMS, RequestError


class InvalidParams(RequestError):
    """A field is missing or has a wrong value."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(INVALID_PARAMS, f"{path}: {expected}", {"errorCode": "invalid_field", "path": path})


class Params:
    """The fields of one object."""

    def __init__(self, value: object, path: str = "params") -> None:
        """Take an object.

        Raises:
            InvalidParams: It is none. Absent parameters are an object without fields.
        """
        if value is None and path == "params":
            value = {}
        fields = as_object(value)
        if fields is None:
            raise InvalidParams(path, "must be an object")
        self.path = path
        self.fields = fields

    def text(self, name: str) -> str:
        """Return a text that must be there."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise self.invalid(name, "must be a string")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None for anything else."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None

    def nullable_text(self, name: str) -> str | None:
        """Return a text that may be null or absent."""
        return None if self.fields.get(name) is None else self.text(name)

    def nullable_path(self, name: str) -> str | None:
        """Return an absolute path, of what may not exist, that may be null or absent."""
        path = self.nullable_text(name)
        if path is not None and not _is_path(path):
            raise self.invalid(name, "must be an absolute path")
        return path

    def folder(self, name: str) -> str:
        """Return the path of a folder: absolute, and existing."""
        return self._folder(name, self.text(name))

    def folders(self, name: str) -> list[str]:
        """Return an array of such paths that must be there."""
        return [self._folder(f"{name}[{index}]", folder) for index, folder in enumerate(self.texts(name))]

    def _folder(self, name: str, folder: str) -> str:
        if not _is_path(folder):
            raise self.invalid(name, "must be an absolute path")
        if not os.path.isdir(folder):
            raise self.invalid(name, "must be an existing folder")
        return folder

    def integer(self, name: str, least: int, most: int) -> int:
        """Return a whole number that must be there."""
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.invalid(name, f"must be an integer from {least} to {most}")
        return value

    def has(self, *names: str) -> bool:
        """Return whether there is an object under a name, perhaps inside of others."""
        value: object = self.fields
        for name in names:
            value = (as_object(value) or {}).get(name)
        return as_object(value) is not None

    def objects(self, name: str) -> Iterator["Params"]:
        """Yield the objects of an array that must be there."""
        value = as_list(self.fields.get(name))
        if value is None:
            raise self.invalid(name, "must be an array")
        for index, each in enumerate(value):
            yield Params(each, f"{self.path}.{name}[{index}]")

    def texts(self, name: str) -> list[str]:
        """Return an array of texts that must be there."""
        values = as_list(self.fields.get(name))
        if values is None:
            raise self.invalid(name, "must be an array")
        for index, each in enumerate(values):
            if not isinstance(each, str):
                raise self.invalid(f"{name}[{index}]", "must be a string")
        return [str(each) for each in values]

    def invalid(self, name: str, expected: str) -> InvalidParams:
        """Return the error of a field."""
        return InvalidParams(f"{self.path}.{name}", expected)


def _is_path(text: str) -> bool:
    """Return whether a text is an absolute path that the system can have."""
    try:
        return os.path.isabs(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half a character
        return False
