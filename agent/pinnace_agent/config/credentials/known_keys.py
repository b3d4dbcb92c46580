"""The keys that the user's files and environment hold: which variables name them, and what the redactor removes.

A key may stand in a file, in a variable that a file or the built-in catalog names, in an address, or in a login. The
output of a command is registered after the command has run (`resolver`), and the headers of a request when the request
is made. Variables that hold keys are left out of the environment of commands that a model runs; a variable that every
program needs is never left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.config.credentials.credentials import AuthFile, read_auth
from pinnace_agent.config.models.builtin import all_key_variables
from pinnace_agent.config.models.catalog import Catalog, HeaderValues, read_catalog
from pinnace_agent.config.values import UnresolvedValue, interpolate, is_command, variables_of
from pinnace_agent.core.surroundings import environment
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.redaction.redactor import REDACTOR, Redactor
from pinnace_agent.shell.environment import shell_environment

if TYPE_CHECKING:  # loaded with the first login
    from pinnace_agent.config.credentials.logins import Login

_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SECRET_FIELDS: Final = (
    "access",
    "refresh",
    "id_token",
    "idToken",
    "token",
    "apiKey",
    "api_key",
    "key",
    "clientSecret",
)
# Keys of providers that have no models here, and of others that are known under a second name: to the vendors' own
# clients and agents, and to gateways.
_KNOWN: Final = frozenset(
    "AI21_API_KEY ANTHROPIC_ADMIN_KEY ANTHROPIC_IDENTITY_TOKEN ARK_API_KEY AWS_BEARER_TOKEN_BEDROCK AZURE_API_KEY "
    "CLAUDE_API_KEY CLAUDE_CODE_OAUTH_TOKEN CLOUDFLARE_API_KEY CODESTRAL_API_KEY CODEX_API_KEY COHERE_API_KEY "
    "CO_API_KEY DASHSCOPE_API_KEY DEEPINFRA_API_KEY GOOGLE_API_KEY GOOGLE_GENAI_ACCESS_TOKEN GOOGLE_GENAI_API_KEY "
    "GOOGLE_GENERATIVE_AI_API_KEY GROK_API_KEY HUGGINGFACEHUB_API_TOKEN HUGGINGFACE_API_KEY HUGGING_FACE_HUB_TOKEN "
    "LITELLM_API_KEY LITELLM_MASTER_KEY LLAMA_API_KEY NVIDIA_NIM_API_KEY OLLAMA_API_KEY OPENAI_ADMIN_KEY "
    "PERPLEXITY_API_KEY PPLX_API_KEY REPLICATE_API_TOKEN SAMBANOVA_API_KEY SILICONFLOW_API_KEY VERTEX_API_KEY "
    "VOYAGE_API_KEY ZHIPUAI_API_KEY".split()
)
# Keys of a cloud: commands keep them, since they are mostly for the work, and not for models.
CLOUD_KEYS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN")
# A header may name one of these to say who the user is; a shell does not work without them.
_NEEDED: Final = frozenset(
    "HOME HOST HOSTNAME LANG LOGNAME PATH PWD SHELL TERM TMPDIR TZ USER".split(),
)
_BARE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


def key_variables_of(keys: Iterable[Secret], headers: Iterable[Secret]) -> frozenset[str]:
    """Return the names of all variables that hold keys.

    Args:
        keys: The values of keys in files; old files may name a variable without a dollar sign.
        headers: The values of headers in files.
    """
    names = set(all_key_variables() | _KNOWN)
    for key in keys:
        names |= variables_of(key)
        if _BARE.fullmatch(key.reveal()):
            names.add(key.reveal())
    for header in headers:
        names |= variables_of(header)
    return frozenset(names - _NEEDED)


def keyless_environment() -> dict[str, str]:
    """Return the environment of commands where the user's files are not read: without the keys of all providers."""
    return shell_environment(environment(), key_variables_of((), ()))


def keys_and_headers(catalog: Catalog, auth: AuthFile) -> tuple[list[Secret], list[HeaderValues]]:
    """Return the values of keys in files, and those of headers."""
    access = [catalog.access_of(provider) for provider in catalog.described()]
    keys = [one.api_key for one in access] + [entry.key for entry in auth.entries.values()]
    of_models = [headers for provider in catalog.described() for headers in catalog.headers_of(provider).values()]
    left_out = catalog.left_out
    return (
        [*(key for key in keys if key is not None), *left_out.keys],
        [*(one.headers for one in access), *of_models, *left_out.headers],
    )


def learn_keys(catalog: Catalog, auth: AuthFile, env: Mapping[str, str], redactor: Redactor = REDACTOR) -> None:
    """Register with the redactor every key that these hold, except for the outputs of commands."""
    keys, headers = keys_and_headers(catalog, auth)
    redactor.learn(*(env.get(name) for name in (*key_variables_of(keys, ()), *CLOUD_KEYS)))
    # What a header names may be a key: a folder or a project, too.
    named = {name for each in headers for value in each.values() for name in variables_of(value)}
    redactor.learn_values({name: value for name in named if (value := env.get(name))})
    for entry in auth.entries.values():
        own = entry.variables()
        redactor.learn_values(own)
        if entry.key is not None:
            redactor.learn(_value(entry.key, {**env, **own}))
        if entry.login is not None:
            learn_login(entry.login, redactor)
    redactor.learn(*(_value(key, env) for key in keys))
    for each in headers:
        redactor.learn_values({name: _value(value, env) for name, value in each.items()})
    for address in _addresses(catalog):
        redactor.learn_address(address)
    for name in _PROXIES:
        redactor.learn_address(env.get(name, ""))


def learn_users_keys(env: Mapping[str, str]) -> None:
    """Register the keys of the user's files and environment with the redactor; for subcommands that need no key."""
    folder = agent_dir(env)
    learn_keys(read_catalog(folder / "models.json"), read_auth(folder / "auth.json"), env)


def learn_login(login: "Login", redactor: Redactor = REDACTOR) -> None:
    """Register the tokens of a login with the redactor."""
    fields = login.reveal()
    redactor.learn(*(value for name in _SECRET_FIELDS if isinstance(value := fields.get(name), str)))


def _value(value: Secret, env: Mapping[str, str]) -> str:
    """Return what a value stands for, as far as it can be had; empty if it is what a command prints."""
    if is_command(value):
        return ""
    try:
        return interpolate(value, env)
    except UnresolvedValue:
        return ""


def _addresses(catalog: Catalog) -> Iterator[str]:
    """Yield the addresses that the user describes; those of the built-in catalog hold no key."""
    yield from (address.reveal() for address in catalog.left_out.addresses)
    for provider in catalog.described():
        entry = catalog.entry_of(provider) or {}
        models = cast("list[JsonObject]", entry.get("models", []))  # as the schema of models.json said
        for described in (entry, *models):
            if "baseUrl" in described:
                yield str(described["baseUrl"])
