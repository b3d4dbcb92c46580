"""Where Vertex AI answers: the variables that name the user's project and its location.

Pure. Loaded to decide whether the provider can be used at all, so it imports no provider.
"""

from collections.abc import Mapping
from typing import Final

PROJECT_VARIABLES: Final = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
"""The first that is set counts."""
LOCATION_VARIABLE: Final = "GOOGLE_CLOUD_LOCATION"


def missing_variables(env: Mapping[str, str]) -> list[str]:
    """Return the variables that must be set, one name for each; empty if requests to a project can be addressed."""
    project = [] if any(env.get(name) for name in PROJECT_VARIABLES) else [PROJECT_VARIABLES[0]]
    return project if env.get(LOCATION_VARIABLE) else [*project, LOCATION_VARIABLE]
