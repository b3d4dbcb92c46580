"""Whether it is worth a look if there are extensions, told without loading anything of the agent.

For `--help`, and for options that nobody knows: with none of these signs there can be no extension that knows them.
Errs on the side of looking. Reads no file.
"""

import os
from collections.abc import Mapping

# As the agent's own modules say, which take longer to load than this whole answer.
_FOLDER_VARIABLE = "PI_CODING_AGENT_DIR"
_USUAL_FOLDER = "~/.pi/agent"
_PROJECT_FOLDER = ".pi"


def may_find_extensions(env: Mapping[str, str]) -> bool:
    """Tell whether the user, or the project in the current folder, has anything that may name an extension."""
    folder = os.path.expanduser(env.get(_FOLDER_VARIABLE) or _USUAL_FOLDER)
    places = (os.path.join(folder, "extensions"), os.path.join(folder, "settings.json"), _PROJECT_FOLDER)
    return any(os.path.exists(place) for place in places)
