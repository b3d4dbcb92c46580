"""Which environment variables hold keys, and so are not for commands that a model runs.

Those of every provider, and those that the user's files name in the place of a key or a header. Pure. A variable that
every program needs is never among them, whoever names it. Must not know what they hold.
"""

import re
from collections.abc import Iterable
from typing import Final

from pinnace_agent.resources.builtin import all_key_variables
from pinnace_agent.resources.values import Secret, is_command

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
