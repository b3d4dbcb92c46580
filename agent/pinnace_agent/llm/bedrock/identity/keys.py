"""The keys that sign requests to AWS: those of the source that counts (`sources`), kept until they are renewed.

Keys that expire are kept for each source. In their last five minutes they are renewed before a request; if that fails
while they are good, they are used once more. All requests of an agent share one renewal. Everything secret is
registered with the redactor before it is used. Has no access to the request.
"""

import shlex
import time
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.llm.bedrock.identity.asking import Expiring, learn, read_keys
from pinnace_agent.llm.bedrock.identity.aws_files import AwsFiles
from pinnace_agent.llm.bedrock.identity.sources import (
    AssumedRole,
    ConsoleLogin,
    Container,
    Machine,
    NoKeys,
    Program,
    SingleSignOn,
    Source,
    StaticKeys,
    Unusable,
    WebIdentity,
    choose_source,
    no_keys,
)
from pinnace_agent.llm.bedrock.signature import SigningKeys
from pinnace_spec.wire.json_text import WireError, decode_line

# Before they expire, for a request that waits for its connection.
_MARGIN_S: Final = 300.0
# As long as a person may need who unlocks a store of passwords.
_PROGRAM_WAIT_S: Final = 60.0
_PROGRAM_VERSION: Final = 1


class _Kept:
    """The keys of one source, as they were last given out."""

    def __init__(self) -> None:
        self.renewal = trio.Lock()
        self.keys: Expiring | None = None

    def good(self, margin_s: float) -> SigningKeys | None:
        """Return the keys if they are good for longer than the margin."""
        return self.keys.keys if self.keys is not None and time.time() < self.keys.until_s - margin_s else None


_kept: Final[PerAgent[dict[Source, _Kept]]] = PerAgent(dict)


async def find_keys(env: Mapping[str, str], files: AwsFiles, region: str) -> SigningKeys:
    """Return the keys of the first source that is configured.

    Args:
        env: The environment.
        files: AWS's own.
        region: The one of the request.

    Raises:
        NoKeys: None is configured, or it has no keys.
    """
    source, missing = choose_source(env, files, region)
    try:
        return await _keys_of(source, env)
    except Unusable as why:
        raise no_keys([*missing, str(why)]) from None


async def roles_to_sign_in(env: Mapping[str, str], files: AwsFiles, region: str) -> list[AssumedRole]:
    """Return the roles on the way to the keys that need a code and have no good keys, in the order of their codes.

    Arguments and errors are those of `find_keys`; no server is asked.
    """
    from pinnace_agent.llm.bedrock.identity.role_sign_in import has_stored_keys

    source, _ = choose_source(env, files, region)
    roles: list[AssumedRole] = []
    while isinstance(source, AssumedRole):
        if source.mfa_serial is not None and not await has_stored_keys(source, env):
            roles.append(source)
        source = source.source
    return roles[::-1]


async def sign_in(role: AssumedRole, code: str, env: Mapping[str, str]) -> float:
    """Take on a role with the code of its device, and keep its keys; return until when they are good, as `Expiring`.

    Raises:
        NoKeys: It is no code, or the role can't be taken on.
    """
    from pinnace_agent.llm.bedrock.identity.role_sign_in import take_on

    try:
        return (await take_on(role, await _keys_of(role.source, env), code, env)).until_s
    except Unusable as why:
        raise NoKeys(str(why)) from None


def forget_keys() -> None:
    """Forget keys that were kept, for a server that no longer accepts them."""
    _kept.get().clear()


async def _keys_of(source: Source, env: Mapping[str, str]) -> SigningKeys:
    if isinstance(source, StaticKeys):
        learn(source.keys)
        return source.keys
    kept = _kept.get().setdefault(source, _Kept())
    if keys := kept.good(_MARGIN_S):
        return keys
    async with kept.renewal:
        if keys := kept.good(_MARGIN_S):  # another request has renewed them
            return keys
        try:
            kept.keys = await _new_keys(source, env)
        except Unusable:
            if keys := kept.good(0):
                return keys
            raise
        return kept.keys.keys


async def _new_keys(source: Source, env: Mapping[str, str]) -> Expiring:
    match source:
        case StaticKeys():
            return Expiring(source.keys, float("inf"))
        case AssumedRole():
            if source.mfa_serial is not None:
                from pinnace_agent.llm.bedrock.identity.role_sign_in import stored_keys_of_role

                return await stored_keys_of_role(source, env)
            from pinnace_agent.llm.bedrock.identity.security_tokens import keys_of_role

            return (await keys_of_role(source, await _keys_of(source.source, env)))[0]
        case WebIdentity():
            from pinnace_agent.llm.bedrock.identity.security_tokens import keys_of_web_identity

            return await keys_of_web_identity(source)
        case SingleSignOn():
            from pinnace_agent.llm.bedrock.identity.single_sign_on import keys_of_sign_on

            return await keys_of_sign_on(source, env)
        case ConsoleLogin():
            from pinnace_agent.llm.bedrock.identity.console_login import keys_of_login

            return await keys_of_login(source, env)
        case Program():
            return await _keys_of_program(source, env)
        case Container():
            from pinnace_agent.llm.bedrock.identity.metadata import keys_of_container

            return await keys_of_container(source, env)
        case Machine():
            from pinnace_agent.llm.bedrock.identity.metadata import keys_of_machine

            return await keys_of_machine(source)


async def _keys_of_program(source: Program, env: Mapping[str, str]) -> Expiring:
    """Run a program as AWS's clients do: its words are taken as they are written, variables are not replaced."""
    from pinnace_agent.shell.value_command import CommandFailed, output_of

    try:
        words = shlex.split(source.command)
    except ValueError as error:
        raise Unusable(f"{source.place}: {error}") from None
    try:
        output = await output_of(shlex.join(words), env, _PROGRAM_WAIT_S)
    except CommandFailed as why:
        raise Unusable(f"{source.place}: {why}") from None
    try:
        members = as_object(decode_line(output.encode())) or {}
    except WireError:
        members = {}
    if members.get("Version") != _PROGRAM_VERSION:
        raise Unusable(f"{source.place}: its output must be a JSON object with Version {_PROGRAM_VERSION}")
    return read_keys(members, source.place, "SessionToken", may_last=True)
