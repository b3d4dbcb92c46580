"""The package.json of a package, as npm and pi read it: with or without a byte order mark."""

import os

from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, parse_object
from pinnace_agent.files.text_file import TextFileError, read_text_file


def read_manifest(folder: str) -> JsonObject:
    """Return the content of the package.json in a folder.

    Raises:
        ConfigurationFileError: There is none, it can't be read, or it is no JSON object.
    """
    try:
        text = read_text_file(os.path.join(folder, "package.json"))
    except TextFileError as error:
        raise ConfigurationFileError(str(error)) from None
    return parse_object(text.removeprefix("\ufeff"))


def installed_version(folder: str) -> str | None:
    """Return the version of the package in a folder; None: there is no package, or it has none."""
    try:
        value = read_manifest(folder).get("version")
    except ConfigurationFileError:
        return None
    return value if isinstance(value, str) else None
