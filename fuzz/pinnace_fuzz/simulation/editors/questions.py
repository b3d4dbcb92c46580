"""Questions of an adapter, and how a seed has the user of an editor answer them: at once, late, or never."""

import random
from collections.abc import Mapping
from typing import Any, Final

_NEVER: Final = 0.2
_TAKES: Final = 0.7
"""How often an answer is none that declines."""
_ANSWERS_S: Final = (0.0, 0.0, 0.3, 3.0, 20.0)
"""How long after a question it is answered."""


def draw_answer(question: Mapping[str, Any], draws: random.Random) -> tuple[float, Mapping[str, Any]] | None:
    """Draw after how many seconds a question is answered, and the response; None: never.

    Args:
        question: A request for a permission or with a form, which the schema allows.
        draws: Decides.
    """
    delay_s, is_never, takes = draws.choice(_ANSWERS_S), draws.random() < _NEVER, draws.random() < _TAKES
    params = question["params"]
    if question["method"] == "session/request_permission":
        option = draws.choice(params["options"])["optionId"]
        outcome = {"outcome": "selected", "optionId": option} if takes else {"outcome": "cancelled"}
        result: Mapping[str, Any] = {"outcome": outcome}
    else:
        content = {
            name: field["oneOf"][0]["const"] if "oneOf" in field else "a"
            for name, field in params["requestedSchema"]["properties"].items()
        }
        result = {"action": "accept", "content": content} if takes else {"action": "decline"}
    return None if is_never else (delay_s, {"jsonrpc": "2.0", "id": question["id"], "result": result})
