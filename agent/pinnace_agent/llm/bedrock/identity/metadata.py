"""Keys that a cloud gives its own machines: the endpoint of a container, and the metadata of EC2 (version 2).

Both are asked past any proxy. A machine that is not in the cloud has nothing at the address of EC2's metadata, so their
answer is waited for a second.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from pinnace_agent.llm.bedrock.identity.asking import (
    Expiring,
    Question,
    Reply,
    ask,
    check_address,
    read_keys,
    refusal,
    secret_in,
)
from pinnace_agent.llm.bedrock.identity.sources import Container, Machine
from pinnace_agent.redaction.redactor import REDACTOR

_AUTHORIZATION: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
_AUTHORIZATION_FILE: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
_MACHINE: Final = "the metadata service of EC2"
_MACHINE_WAIT_S: Final = 1.0
_TOKEN_PATH: Final = "/latest/api/token"
_ROLES_PATH: Final = "/latest/meta-data/iam/security-credentials/"
# The longest that a token of the metadata service lives; it is asked for anew each time.
_TOKEN_LIFE: Final = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
_TOKEN_HEADER: Final = "X-aws-ec2-metadata-token"


async def keys_of_container(source: Container, env: Mapping[str, str]) -> Expiring:
    """Ask the endpoint of a container.

    Raises:
        Unusable: It gives out no keys.
    """
    check_address(source.url, source.variable)
    path = env.get(_AUTHORIZATION_FILE)
    token = await secret_in(path, _AUTHORIZATION_FILE) if path else env.get(_AUTHORIZATION, "")
    REDACTOR.learn(token)
    name = f"the endpoint of {source.variable}"
    headers = {"Authorization": token} if token else {}
    reply = await ask(Question(name, source.url, headers, is_direct=True))
    if reply.status != 200:
        raise refusal(name, reply)
    return read_keys(reply.members(), name)


async def keys_of_machine(source: Machine) -> Expiring:
    """Ask the metadata service of a virtual machine.

    Raises:
        Unusable: It gives out no keys: it does not answer, or the machine has no role.
    """
    check_address(source.url, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "the address of EC2's metadata")
    token = await _metadata(source, "PUT", _TOKEN_PATH, _TOKEN_LIFE)
    REDACTOR.learn(token)
    headers = {_TOKEN_HEADER: token}
    roles = await _metadata(source, "GET", _ROLES_PATH, headers)
    role = roles.split("\n")[0].strip()
    reply = await _ask(source, "GET", f"{_ROLES_PATH}{quote(role, safe='')}", headers)
    return read_keys(reply.members(), f"{_MACHINE}, for the role {role[:100]!r},")


async def _metadata(source: Machine, method: str, path: str, headers: Mapping[str, str]) -> str:
    text = (await _ask(source, method, path, headers)).body.decode("utf-8", "replace").strip()
    if not text.isascii() or not text.replace("\n", "").isprintable():
        raise refusal(_MACHINE, Reply(200, b""), "something that is no text of its own")
    return text


async def _ask(source: Machine, method: str, path: str, headers: Mapping[str, str]) -> Reply:
    question = Question(_MACHINE, f"{source.url}{path}", headers, method, None, _MACHINE_WAIT_S, is_direct=True)
    reply = await ask(question)
    if reply.status != 200:
        raise refusal(_MACHINE, reply, "the machine has no role" if reply.status == 404 else "")
    return reply
