"""The generations of the protocol that one process can speak: names only.

What a generation writes is decided in `events` and `responses`, and by the projection at the writer. Source: R-PRO-01.
"""

from typing import Final, Literal, get_args

Profile = Literal["pi", "seed", "1.5"]

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
# The published protocol complete, with the additive records and fields of later generations.
DEFAULT_PROFILE: Final[Profile] = "pi"
