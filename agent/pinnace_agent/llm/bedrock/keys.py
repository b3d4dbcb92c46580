"""The keys that sign requests to AWS: where they are looked for, and how long they are used.

The sources, in this order: the variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, the profile of AWS's files
(`AWS_PROFILE`, else `default`), the endpoint of a container (ECS, EKS). Keys that expire are kept until shortly before.
An error names every source and what was missing; it holds no secret. Everything secret is registered with the redactor
before it is used. Has no access to the request.
"""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import trio

from pinnace_agent.core.json_access import as_object, as_text
from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.llm.bedrock.aws_files import PROFILE_VARIABLE, Profile, profile_name, read_profile
from pinnace_agent.llm.bedrock.signature import SigningKeys
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_spec.wire.json_text import WireError, decode_line

_ID, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
KEY_VARIABLES: Final = (_ID, _SECRET, _TOKEN)
_RELATIVE: Final = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
_FULL: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_AUTHORIZATION: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
_AUTHORIZATION_FILE: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
_CONTAINER_HOST: Final = "http://169.254.170.2"
# Without TLS keys come from this machine, or from the addresses of ECS and EKS, which lead no further.
_CONTAINER_HOSTS: Final = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost", "::1"})
_LOOPBACK: Final = "127."
_WAIT_S: Final = 5.0
_MAX_REPLY_BYTES: Final = 64 * 1024
# Before they expire, for a request that waits for its connection.
_MARGIN_S: Final = 300.0

_kept: Final[PerAgent[dict[tuple[str, ...], "_Expiring"]]] = PerAgent(dict)


class NoKeys(Exception):
    """There are no keys. The text is for the user and names what was looked for."""


class _Expiring(NamedTuple):
    keys: SigningKeys
    until_s: float
    """Seconds since the epoch."""


class _Missing(Exception):
    """A source has no keys; the text says why."""


async def find_keys(env: Mapping[str, str], profile: Profile) -> SigningKeys:
    """Return the keys of the first source that has some.

    Args:
        env: The environment.
        profile: That of `AWS_PROFILE`, or `default`.

    Raises:
        NoKeys: No source has any, or the first one that is configured is unusable.
    """
    missing: list[str] = []
    for keys in (_of_environment, _of_profile):
        try:
            found = keys(env, profile)
        except _Missing as why:
            missing.append(str(why))
            continue
        _learn(found)
        return found
    try:
        return await _of_container(env)
    except _Missing as why:
        missing.append(str(why))
    raise NoKeys("No AWS credentials were found:\n" + "\n".join(f"- {text}" for text in missing))


def forget_keys() -> None:
    """Forget keys that were kept, for a server that no longer accepts them."""
    _kept.get().clear()


async def profile_in_use(env: Mapping[str, str]) -> Profile:
    """Read the profile in use, in a thread."""
    return await trio.to_thread.run_sync(read_profile, profile_name(env), env, abandon_on_cancel=True)


def _of_environment(env: Mapping[str, str], _: Profile) -> SigningKeys:
    key_id, secret = env.get(_ID), env.get(_SECRET)
    if key_id and secret:
        return SigningKeys(key_id, secret, env.get(_TOKEN) or None)
    if key_id or secret:
        there, absent = (_ID, _SECRET) if key_id else (_SECRET, _ID)
        raise _Missing(f"{there} is set, but {absent} is not")
    raise _Missing(f"{_ID} and {_SECRET} are not set")


def _of_profile(env: Mapping[str, str], profile: Profile) -> SigningKeys:
    settings = profile.settings
    key_id, secret = settings.get("aws_access_key_id"), settings.get("aws_secret_access_key")
    if key_id and secret:
        return SigningKeys(key_id, secret, settings.get("aws_session_token") or None)
    name = f"the profile {profile.name} ({PROFILE_VARIABLE})" if env.get(PROFILE_VARIABLE) else "the profile default"
    where = " and ".join(profile.files)
    if not settings:
        raise _Missing(f"{name} is not in {where}")
    known = [each for each in ("role_arn", "sso_session", "sso_start_url", "credential_process") if each in settings]
    hint = f": {known[0]} is not supported; `aws configure export-credentials` prints keys for the environment"
    raise _Missing(f"{name} in {where} has no aws_access_key_id and aws_secret_access_key{hint if known else ''}")


async def _of_container(env: Mapping[str, str]) -> SigningKeys:
    relative, full = env.get(_RELATIVE), env.get(_FULL)
    if not relative and not full:
        raise _Missing(f"{_RELATIVE} and {_FULL} are not set")
    url = f"{_CONTAINER_HOST}{relative}" if relative else str(full)
    name = _RELATIVE if relative else _FULL
    _check_address(url, name)
    token = await _authorization(env)
    REDACTOR.learn(token)
    source = (url, token)
    kept = _kept.get().get(source)
    if kept is not None and time.time() < kept.until_s - _MARGIN_S:
        return kept.keys
    expiring = _read_reply(await _ask(url, token, name), name)
    _learn(expiring.keys)
    _kept.get()[source] = expiring
    return expiring.keys


def _check_address(url: str, name: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise _Missing(f"{name} is no address") from None
    is_near = host in _CONTAINER_HOSTS or host.startswith(_LOOPBACK)
    if not host or parts.scheme not in {"http", "https"} or (parts.scheme == "http" and not is_near):
        raise _Missing(f"{name} must begin with https://, or name this machine or the address of ECS or EKS")


async def _authorization(env: Mapping[str, str]) -> str:
    """Return the token for the endpoint; empty if there is none. A file is read each time: it is replaced."""
    path = env.get(_AUTHORIZATION_FILE)
    if not path:
        return env.get(_AUTHORIZATION, "")
    try:
        token = await trio.to_thread.run_sync(read_text_file, path, abandon_on_cancel=True)
    except TextFileError as error:
        raise _Missing(f"{_AUTHORIZATION_FILE}: {path} {error.text}") from None
    if len(token.split()) > 1:
        raise _Missing(f"{_AUTHORIZATION_FILE}: {path} must hold a token, without blanks and line breaks inside")
    return token.strip()


async def _ask(url: str, token: str, name: str) -> bytes:
    import httpx

    from pinnace_agent.llm.transport.client import client_for
    from pinnace_agent.llm.transport.proxies import ProxyUnusable

    headers = {"Accept": "application/json", **({"Authorization": token} if token else {})}
    body = bytearray()
    try:
        client = await client_for(url, is_direct=True)
        async with client.stream("GET", url, headers=headers, timeout=_WAIT_S) as response:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _MAX_REPLY_BYTES:
                    break
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ProxyUnusable) as error:
        # Its text may quote the address, which is configured, or a header, which is secret.
        raise _Missing(f"the endpoint of {name} does not answer ({type(error).__name__})") from None
    if response.status_code != 200:
        raise _Missing(f"the endpoint of {name} answers with the status {response.status_code}")
    return bytes(body)


def _read_reply(body: bytes, name: str) -> _Expiring:
    try:
        members = as_object(decode_line(body)) or {}
        key_id, secret = as_text(members.get("AccessKeyId")), as_text(members.get("SecretAccessKey"))
        until_s = datetime.fromisoformat(as_text(members.get("Expiration")) or "").timestamp()
    except (WireError, ValueError):
        raise _Missing(f"the endpoint of {name} answers without keys that say when they expire") from None
    if not key_id or not secret:
        raise _Missing(f"the endpoint of {name} answers without AccessKeyId and SecretAccessKey")
    return _Expiring(SigningKeys(key_id, secret, as_text(members.get("Token")) or None), until_s)


def _learn(keys: SigningKeys) -> None:
    REDACTOR.learn(keys.secret_access_key, keys.session_token)
