"""Provider: Amazon Bedrock's ConverseStream.

Combines the other modules: where the request goes (`endpoint`), what signs it (`identity`, `signature`), what it holds
(`request`), its exchange (`transport.exchange`), and how frames are read (`stream`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

import trio

from pinnace_agent.core.surroundings import environment
from pinnace_agent.llm.bedrock.endpoint import SERVICE, RegionInvalid, endpoint_of
from pinnace_agent.llm.bedrock.failures import BedrockTexts
from pinnace_agent.llm.bedrock.identity.aws_files import (
    PROFILE_VARIABLE,
    AddressMissing,
    environment_of,
    profile_name,
    read_aws_files,
)
from pinnace_agent.llm.bedrock.identity.keys import find_keys, forget_keys
from pinnace_agent.llm.bedrock.identity.sources import NoKeys
from pinnace_agent.llm.bedrock.request import http_request, tool_names
from pinnace_agent.llm.bedrock.signature import Scope, SigningKeys, Unsigned, signed_headers
from pinnace_agent.llm.bedrock.stream import EventFrames, EventReader
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import RefusalForm
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange
from pinnace_agent.redaction.secrets import Secrets

_FORM: Final = RefusalForm(is_whole=True)
_SIGNED_SERVICE: Final = "bedrock"
_UNSIGNED: Final = "AWS_BEDROCK_SKIP_AUTH"


class BedrockConverseStreamProvider:
    """Speaks `bedrock-converse-stream`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        env = environment_of(environment(), request.variables)
        files = await trio.to_thread.run_sync(read_aws_files, env, abandon_on_cancel=True)
        try:
            # Without a chosen profile the address of the model decides, which its id belongs to.
            region = (files.profile(profile_name(env)) or {}).get("region") if env.get(PROFILE_VARIABLE) else None
            endpoint = endpoint_of(request.model, env, region, files.endpoint_url(profile_name(env), SERVICE))
            keys = await find_keys(env, files, endpoint.region) if _needs_signature(request, env) else None
        except (RegionInvalid, AddressMissing) as problem:
            builder.refuse("bad_address", str(problem))
            return
        except NoKeys as problem:
            builder.refuse("no_credentials", str(problem))
            return
        sign = None if keys is None else partial(_signed, keys, Scope(endpoint.region, _SIGNED_SERVICE))
        # The client, its proxy and what a server has refused go by the address.
        request = request._replace(model={**request.model, "baseUrl": endpoint.base_url})
        texts = BedrockTexts(_secrets(request, keys), _FORM)
        reader = EventReader(builder, tool_names(request), texts)
        await exchange(request, builder, partial(http_request, request, endpoint, sign), reader, texts, EventFrames)
        if keys is not None and builder.signs.status == 403:
            forget_keys()  # they may have been withdrawn


def _needs_signature(request: LlmRequest, env: Mapping[str, str]) -> bool:
    """Return whether a request has no other credentials, and needs some."""
    has_header = any(name.lower() == "authorization" for name in request.headers)
    return not request.api_key and not has_header and env.get(_UNSIGNED) != "1"


def _signed(keys: SigningKeys, scope: Scope, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
    return signed_headers(Unsigned("POST", url, headers, body), keys, scope, datetime.now(UTC))


def _secrets(request: LlmRequest, keys: SigningKeys | None) -> Secrets:
    secrets_of(request)
    more = {} if keys is None else {"X-Amz-Security-Token": keys.session_token or ""}
    key = request.api_key if keys is None else keys.secret_access_key
    return Secrets(key, {**request.headers, **more}, request.model["baseUrl"])
