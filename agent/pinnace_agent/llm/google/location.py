"""Where Vertex AI answers, and where the credentials for it are: what the user's variables and folders say.

Credentials are found as Google's own libraries find them: the file that `GOOGLE_APPLICATION_CREDENTIALS` names, else
the one that `gcloud auth application-default login` writes, else the metadata server of a machine in Google's cloud,
which is named by `GCE_METADATA_HOST`, or is there if the machine's maker is Google. Loaded to decide whether the
provider can be used at all, so it imports no provider, reads no credentials and asks no server.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pinnace_agent.files.text_file import TextFileError, read_text_file

PROJECT_VARIABLES: Final = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
"""The first that is set counts."""
LOCATION_VARIABLE: Final = "GOOGLE_CLOUD_LOCATION"
FILE_VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
HOST_VARIABLE: Final = "GCE_METADATA_HOST"
_NO_CHECK: Final = "NO_GCE_CHECK"
_USUAL_HOST: Final = "metadata.google.internal"
PRODUCT_NAME: Final = "/sys/class/dmi/id/product_name"


GoogleSource = Path | str
"""A file, or the address of the metadata server of this machine."""


def usable_source(env: Mapping[str, str]) -> GoogleSource | None:
    """Return where tokens come from, if requests with them can be addressed; None: from nowhere."""
    return None if _missing_variables(env) else _source(env)


def _missing_variables(env: Mapping[str, str]) -> list[str]:
    project = [] if any(env.get(name) for name in PROJECT_VARIABLES) else [PROJECT_VARIABLES[0]]
    return project if env.get(LOCATION_VARIABLE) else [*project, LOCATION_VARIABLE]


def what_is_missing(env: Mapping[str, str]) -> str:
    """Return what a request to Vertex AI lacks without a key, for users; empty if it lacks nothing."""
    variables = _missing_variables(env)
    texts = [f"the variable{'s' if variables[1:] else ''} {' and '.join(variables)}"] if variables else []
    if _source(env) is None:
        named = env.get(FILE_VARIABLE)
        where = f"the file of {FILE_VARIABLE}" if named else "application default credentials"
        texts.append(f"{where} (gcloud auth application-default login)")
    return f"Without a key it also needs {' and '.join(texts)}." if texts else ""


def _source(env: Mapping[str, str]) -> GoogleSource | None:
    """Return where tokens come from. A file that is named, and not there, is no reason to ask the machine."""
    path = _credentials_path(env)
    return path if path is not None or env.get(FILE_VARIABLE) else _metadata_server(env)


def _metadata_server(env: Mapping[str, str]) -> str | None:
    host = env.get(HOST_VARIABLE)
    if not host and (env.get(_NO_CHECK) == "true" or not _is_of_google()):
        return None
    return f"http://{host or _USUAL_HOST}"


def _is_of_google() -> bool:
    """Return whether this is a virtual machine of Google's cloud."""
    try:
        return read_text_file(PRODUCT_NAME).strip().startswith("Google")
    except TextFileError:
        return False


def _credentials_path(env: Mapping[str, str]) -> Path | None:
    named = env.get(FILE_VARIABLE)
    try:
        path = Path(named) if named else _well_known(env)
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # no home, no such name
        return None


def _well_known(env: Mapping[str, str]) -> Path:
    folder = env.get("CLOUDSDK_CONFIG")
    home = env.get("HOME")
    base = Path(folder) if folder else (Path(home) if home else Path.home()) / ".config" / "gcloud"
    return base / "application_default_credentials.json"
