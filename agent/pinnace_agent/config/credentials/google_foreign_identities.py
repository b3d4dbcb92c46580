"""Tokens of other authorities that Google exchanges: what a program prints, and a signed question to AWS.

`credential_source` of an `external_account` names either, in the fields of Google's own libraries. A program runs as a
command of a key does, without a shell, and only where `GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1` allows it, as those
libraries demand: the file of the credentials may come from elsewhere. Of AWS the token is a request `GetCallerIdentity`
that is signed and not sent: Google sends it, and learns who has signed. No text has a secret.
"""

import json
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import trio

from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.core.json_access import as_amount, as_object, as_text
from pinnace_agent.core.surroundings import environment
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object
from pinnace_agent.redaction.redactor import REDACTOR

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.llm.bedrock.signature import SigningKeys

_ALLOWED: Final = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
_VERSION: Final = 1
_USUAL_WAIT_MS: Final = 30_000.0
_SHORTEST_MS, _LONGEST_MS = 5_000.0, 120_000.0
_TOKEN_MEMBERS: Final[Mapping[str, str]] = {
    "urn:ietf:params:oauth:token-type:jwt": "id_token",
    "urn:ietf:params:oauth:token-type:id_token": "id_token",
    "urn:ietf:params:oauth:token-type:saml2": "saml_response",
}
_AWS: Final = "aws1"
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_METADATA_TOKEN: Final = "X-aws-ec2-metadata-token"
_METADATA_LIFE: Final = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
_NEAR: Final = "the address of EC2's metadata"


async def token_of_program(source: JsonObject, place: str, audience: str, token_type: str, account: str | None) -> str:
    """Run a program that prints a token, unless its output file has one that is still good.

    Args:
        source: `executable` of `credential_source`.
        place: Where it is, for users.
        audience: Of the credentials; the program gets it in its environment.
        token_type: So, too.
        account: The service account that they act as, if there is one; so, too.

    Raises:
        LoginFailed: It may not run, or prints no token.
    """
    from pinnace_agent.shell.value_command import CommandFailed, output_of

    env = environment()
    if env.get(_ALLOWED) != "1":
        raise LoginFailed(f"{place}: a program runs only where {_ALLOWED}=1 allows it")
    command, output_file = as_text(source.get("command")), as_text(source.get("output_file"))
    wait_ms = as_amount(source.get("timeout_millis", _USUAL_WAIT_MS)) or 0.0
    if not command:
        raise LoginFailed(f"{place}.command must be a text")
    if not _SHORTEST_MS <= wait_ms <= _LONGEST_MS:
        raise LoginFailed(f"{place}.timeout_millis must be a number from {_SHORTEST_MS:.0f} to {_LONGEST_MS:.0f}")
    if output_file and (kept := await trio.to_thread.run_sync(_kept, output_file, abandon_on_cancel=True)):
        return kept
    given = {
        "GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE": audience,
        "GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE": token_type,
        "GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE": "0",
        "GOOGLE_EXTERNAL_ACCOUNT_REVOKE": "0",
    }
    if account:
        given |= {"GOOGLE_EXTERNAL_ACCOUNT_ID": account, "GOOGLE_EXTERNAL_ACCOUNT_IMPERSONATED_EMAIL": account}
    if output_file:
        given["GOOGLE_EXTERNAL_ACCOUNT_OUTPUT_FILE"] = output_file
    try:
        words = shlex.join(shlex.split(command))
        output = await output_of(words, {**env, **given}, wait_ms / 1000)
    except (ValueError, CommandFailed) as why:
        raise LoginFailed(f"{place}.command: {why}") from None
    try:
        answer: object = json.loads(output)
    except (ValueError, RecursionError):
        answer = None
    return _token_in(as_object(answer) or {}, f"{place}.command")


def _kept(path: str) -> str | None:
    """Return the token of an output file that says that it is still good. Blocking."""
    try:
        answer = read_object(Path(path), is_relaxed=False) or {}
        return _token_in(answer, path) if "expiration_time" in answer else None
    except (ConfigurationFileError, LoginFailed):
        return None  # the program makes it again


def _token_in(answer: Mapping[str, object], place: str) -> str:
    """Return the token of an answer as Google's libraries read it."""
    if answer.get("version") != _VERSION or not isinstance(answer.get("success"), bool):
        raise LoginFailed(f"{place}: its output must be a JSON object with version {_VERSION} and success")
    if not answer["success"]:
        said = ": ".join(filter(None, (as_text(answer.get("code")), as_text(answer.get("message")))))
        shown = "".join(each if each.isprintable() else " " for each in said)[:300]
        raise LoginFailed(f"{place}: it has no token{f': {shown}' if shown else ''}")
    end_s = as_amount(answer.get("expiration_time"))
    if "expiration_time" in answer and (end_s is None or end_s < time.time()):
        raise LoginFailed(f"{place}: its token has expired")
    kind = answer.get("token_type")
    member = _TOKEN_MEMBERS.get(kind) if isinstance(kind, str) else None
    if member is None:
        raise LoginFailed(f"{place}: token_type must be one of {', '.join(_TOKEN_MEMBERS)}")
    if not (token := as_text(answer.get(member))):
        raise LoginFailed(f"{place}: it has no {member}")
    return token


async def token_of_aws(source: JsonObject, place: str, audience: str) -> str:
    """Sign the question to AWS who asks, for Google.

    Args:
        source: `credential_source`, with an `environment_id`.
        place: Where it is, for users.
        audience: Of the credentials, which the question is for.

    Raises:
        LoginFailed: There are no keys of AWS, no region, or a field is wrong.
    """
    from pinnace_agent.llm.bedrock.identity.sources import Unusable
    from pinnace_agent.llm.bedrock.signature import Scope, Unsigned, signed_headers

    if source.get("environment_id") != _AWS:
        raise LoginFailed(f'{place}.environment_id must be "{_AWS}"')
    pattern = as_text(source.get("regional_cred_verification_url"))
    if not pattern or not pattern.startswith("https://"):
        raise LoginFailed(f"{place}.regional_cred_verification_url must be an https address")
    machine = _Machine(source, place)
    try:
        region = next((env for name in _REGIONS if (env := environment().get(name))), "") or await machine.region()
        keys = await machine.keys()
    except Unusable as why:
        raise LoginFailed(str(why)) from None
    if not region.replace("-", "").isalnum() or not region.isascii():  # it becomes a part of the address
        raise LoginFailed(f"{place}: {' or '.join(_REGIONS)} must be a region such as us-east-1")
    url = pattern.replace("{region}", region)
    moment = datetime.now(UTC)
    signed = signed_headers(Unsigned("POST", url, {}, b""), keys, Scope(region, "sts"), moment)
    headers = {name if name == "Authorization" else name.lower(): value for name, value in signed.items()}
    headers |= {"host": urlsplit(url).netloc, "x-goog-cloud-target-resource": audience}
    asked = {
        "headers": [{"key": name, "value": value} for name, value in headers.items()],
        "method": "POST",
        "url": url,
    }
    return quote(json.dumps(asked, separators=(",", ":"), sort_keys=True))


class _Machine:
    """The keys and the region of AWS: of the environment, else of the metadata that the credentials name."""

    def __init__(self, source: JsonObject, place: str) -> None:
        self._source = source
        self._place = place
        self._token: str | None = None

    async def region(self) -> str:
        return (await self._asked("region_url"))[:-1]  # it names a zone in the region: us-east-1b

    async def keys(self) -> "SigningKeys":
        from pinnace_agent.llm.bedrock.identity.asking import learn, read_keys
        from pinnace_agent.llm.bedrock.signature import SigningKeys

        env = environment()
        if (key_id := env.get("AWS_ACCESS_KEY_ID")) and (secret := env.get("AWS_SECRET_ACCESS_KEY")):
            keys = SigningKeys(key_id, secret, env.get("AWS_SESSION_TOKEN") or None)
            learn(keys)
            return keys
        role = (await self._asked("url")).split("\n")[0].strip()
        text = await self._asked("url", f"/{quote(role, safe='')}")
        try:
            members: object = json.loads(text)
        except (ValueError, RecursionError):
            members = None
        return read_keys(as_object(members) or {}, f"{self._place}.url", may_last=True).keys

    async def _asked(self, field: str, more: str = "") -> str:
        if self._token is None and self._source.get("imdsv2_session_token_url") is not None:
            self._token = ""
            self._token = await self._ask("imdsv2_session_token_url", "", "PUT", _METADATA_LIFE)
            REDACTOR.learn(self._token)
        return await self._ask(field, more, "GET", {_METADATA_TOKEN: self._token} if self._token else {})

    async def _ask(self, field: str, more: str, method: str, headers: Mapping[str, str]) -> str:
        from pinnace_agent.llm.bedrock.identity.asking import Question, ask, check_address, refusal

        name, url = f"{self._place}.{field}", as_text(self._source.get(field))
        if not url:
            lacking = "region" if field == "region_url" else "keys of AWS"
            raise LoginFailed(f"{name} is missing, and the environment has no {lacking}")
        check_address(url, name, _NEAR)
        reply = await ask(Question(name, url.rstrip("/") + more, headers, method, is_direct=True))
        if reply.status != 200:
            raise refusal(name, reply)
        return reply.body.decode("utf-8", "replace").strip()
