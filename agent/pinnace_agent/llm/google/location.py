"""Where Vertex AI answers, and where the credentials for it are: what the user's variables and folders say.

Credentials are found as Google's own libraries find them: the file that `GOOGLE_APPLICATION_CREDENTIALS` names, else
the one that `gcloud auth application-default login` writes. Loaded to decide whether the provider can be used at all,
so it imports no provider, and reads no file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

PROJECT_VARIABLES: Final = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
"""The first that is set counts."""
LOCATION_VARIABLE: Final = "GOOGLE_CLOUD_LOCATION"
FILE_VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"


def usable_path(env: Mapping[str, str]) -> Path | None:
    """Return the file of the credentials if requests with its tokens can be addressed; None: there is none."""
    return None if _missing_variables(env) else _credentials_path(env)


def _missing_variables(env: Mapping[str, str]) -> list[str]:
    project = [] if any(env.get(name) for name in PROJECT_VARIABLES) else [PROJECT_VARIABLES[0]]
    return project if env.get(LOCATION_VARIABLE) else [*project, LOCATION_VARIABLE]


def what_is_missing(env: Mapping[str, str]) -> str:
    """Return what a request to Vertex AI lacks without a key, for users; empty if it lacks nothing."""
    variables = _missing_variables(env)
    texts = [f"the variable{'s' if variables[1:] else ''} {' and '.join(variables)}"] if variables else []
    if _credentials_path(env) is None:
        named = env.get(FILE_VARIABLE)
        where = f"the file of {FILE_VARIABLE}" if named else "application default credentials"
        texts.append(f"{where} (gcloud auth application-default login)")
    return f"Without a key it also needs {' and '.join(texts)}." if texts else ""


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
