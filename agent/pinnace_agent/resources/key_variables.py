"""Which environment variables hold keys, and so are not for commands that a model runs.

Those of every provider, and those that the user's files name in the place of a key or a header. Pure. A variable that
every program needs is never among them, whoever names it. Must not know what they hold.
"""

import re
from collections.abc import Iterable
from typing import Final

from pinnace_agent.resources.builtin import all_key_variables
from pinnace_agent.resources.values import Secret, is_command

# Keys of providers that have no models here, and of others that are known under a second name.
_KNOWN: Final = frozenset({"AWS_BEARER_TOKEN_BEDROCK", "CLOUDFLARE_API_KEY"})
# A header may say who the user is; without one of these a shell is none.
_NEEDED: Final = frozenset(
    "HOME HOST HOSTNAME LANG LOGNAME PATH PWD SHELL TERM TMPDIR TZ USER".split(),
)
_NAMED: Final = re.compile(r"\$\$|\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_BARE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


def key_variables_of(keys: Iterable[Secret], headers: Iterable[Secret]) -> frozenset[str]:
    """Return the names of all variables that hold keys.

    Args:
        keys: What stands in files in the place of keys; old files may name a variable without a dollar sign.
        headers: And in the place of headers.
    """
    names = set(all_key_variables() | _KNOWN)
    for key in keys:
        names |= _named_in(key)
        if _BARE.fullmatch(key.reveal()):
            names.add(key.reveal())
    for header in headers:
        names |= _named_in(header)
    return frozenset(names - _NEEDED)


def _named_in(value: Secret) -> set[str]:
    if is_command(value):
        return set()
    return {found[1] for found in _NAMED.finditer(value.reveal()) if found[1]}
