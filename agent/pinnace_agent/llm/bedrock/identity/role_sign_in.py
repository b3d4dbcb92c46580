"""Keys of roles that need the code of a device (`mfa_serial`), for a user who has entered one.

During a request no user can be asked. So a role is taken on at a login of this program, or by AWS's command line, and
both keep the keys in the cache of the latter (`~/.aws/cli/cache`, in a file named by the digest of what was asked for).
Decides the names and the form of these files. Source: botocore 1.44, `AssumeRoleCredentialFetcher`.
"""

import json
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha1
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.files.json_file import edit_object
from pinnace_agent.files.paths import home_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object
from pinnace_agent.llm.bedrock.identity.asking import Expiring, read_keys
from pinnace_agent.llm.bedrock.identity.security_tokens import keys_of_role
from pinnace_agent.llm.bedrock.identity.sources import AssumedRole, Unusable
from pinnace_agent.llm.bedrock.identity.stored_tokens import PRIVATE_FORM
from pinnace_agent.llm.bedrock.signature import SigningKeys

_CODE: Final = re.compile(r"[0-9]{6}")
_SIGN_IN: Final = "enter the code of its device by `pinnace auth login amazon-bedrock` at a terminal"


async def stored_keys_of_role(source: AssumedRole, env: Mapping[str, str]) -> Expiring:
    """Return the keys that a login has kept.

    Raises:
        Unusable: There are none that are good.
    """
    path = _path(source, env)
    try:
        stored = await trio.to_thread.run_sync(_read, path, abandon_on_cancel=True)
    except ConfigurationFileError as error:
        raise Unusable(f"{source.place}: {path}: {error}") from None
    if stored is None:
        raise Unusable(f"{source.place}: mfa_serial is set: {_SIGN_IN}")
    keys = read_keys(stored, f"{source.place}: {path}", "SessionToken")
    if keys.until_s <= time.time():
        raise Unusable(f"{source.place}: its keys have expired: {_SIGN_IN}")
    return keys


async def has_stored_keys(source: AssumedRole, env: Mapping[str, str]) -> bool:
    """Return whether a login has kept keys that are good."""
    try:
        await stored_keys_of_role(source, env)
    except Unusable:
        return False
    return True


async def take_on(source: AssumedRole, keys: SigningKeys, code: str, env: Mapping[str, str]) -> Expiring:
    """Take on a role with a code, and keep its keys.

    Args:
        source: The role.
        keys: Of its own source.
        code: Of its device.
        env: The environment.

    Raises:
        Unusable: It is no code, STS does not allow it or does not answer, or the keys can't be kept.
    """
    if not _CODE.fullmatch(code):
        raise Unusable(f"{source.place}: the code of a device must be six digits; nothing was asked for")
    given, arn = await keys_of_role(source, keys, code)
    end = datetime.fromtimestamp(given.until_s, UTC).strftime("%Y-%m-%dT%H:%M:%SUTC")
    pairs = zip(("AccessKeyId", "SecretAccessKey", "SessionToken"), given.keys, strict=True)
    kept: JsonObject = {"Credentials": {**dict(pairs), "Expiration": end}, "AssumedRoleUser": {"Arn": arn}}
    path = _path(source, env)

    def change(_old: JsonObject) -> JsonObject:
        return kept

    try:
        await trio.to_thread.run_sync(edit_object, path, change, PRIVATE_FORM)
    except (ConfigurationFileError, OSError) as error:
        raise Unusable(f"{source.place}: {path}: {error}") from None
    return given


def _read(path: Path) -> Mapping[str, object] | None:
    """Return the keys in a file; None: there are none. Blocking."""
    content = read_object(path, is_relaxed=False)
    return None if content is None else as_object(content.get("Credentials")) or {}


def _path(source: AssumedRole, env: Mapping[str, str]) -> Path:
    """Return the file of a role, as AWS's command line names it."""
    asked: dict[str, object] = {"RoleArn": source.arn, "SerialNumber": source.mfa_serial}
    more: dict[str, object] = {"RoleSessionName": source.session_name, "ExternalId": source.external_id}
    more |= {"DurationSeconds": source.duration_s}
    asked |= {name: value for name, value in more.items() if value is not None}
    digest = sha1(json.dumps(asked, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
    return home_dir(env) / ".aws" / "cli" / "cache" / f"{digest}.json"
