"""GitHub Copilot: where a plan answers, and by which headers it knows what asks.

Decides the address and the headers of a request, whatever its API. The key is the short-lived token of a login
(`config.credentials.copilot_login`), which says where its plan answers; the token of a company's server without such a
word goes to that company's address. An address of the user's own stays as it is. Copilot takes requests of the editors
that it knows alone: the headers are those of pi 1.5.2, and headers of the configuration take precedence.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.request import merged_headers
from pinnace_spec.records.messages import Message

DOMAIN_VARIABLE: Final = "enterpriseUrl"
"""The member of a login, and the variable of a request, with the domain of a company's server."""
EDITOR_HEADERS: Final[Mapping[str, str]] = {
    "User-Agent": "GitHubCopilotChat/0.35.0",
    "Editor-Version": "vscode/1.107.0",
    "Editor-Plugin-Version": "copilot-chat/0.35.0",
    "Copilot-Integration-Id": "vscode-chat",
}
_BUILT_IN: Final = "https://api.individual.githubcopilot.com"
# In a token: `…;proxy-ep=proxy.individual.githubcopilot.com;…`.
_ENDPOINT: Final = re.compile(r"proxy-ep=([A-Za-z0-9.-]+)(?:;|$)")
_DOMAIN: Final = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")


def for_copilot(request: LlmRequest, builder: MessageBuilder) -> LlmRequest:
    """Return a request with the address of its plan and the headers of Copilot; `builder` stays as it is."""
    del builder
    headers = merged_headers({**EDITOR_HEADERS, **_headers_about(request.messages)}, request.headers)
    model = request.model
    if model["baseUrl"].rstrip("/") == _BUILT_IN:
        domain = domain_of(request.variables.get(DOMAIN_VARIABLE, ""))
        model = {**model, "baseUrl": base_url(request.api_key or "", domain)}
    return request._replace(model=model, headers=headers)


def base_url(token: str, domain: str | None) -> str:
    """Return the address that a token is for.

    Args:
        token: The key.
        domain: That of a company's server; None: the login is one of GitHub's own.
    """
    if found := _ENDPOINT.search(token):
        host = found[1]
        return f"https://api.{host.removeprefix('proxy.')}" if host.startswith("proxy.") else f"https://{host}"
    return f"https://copilot-api.{domain}" if domain else _BUILT_IN


def domain_of(text: str) -> str | None:
    """Return the domain of a company's server, which may be written as an address; None: it is none."""
    text = text.strip()
    try:
        domain = urlsplit(text if "://" in text else f"https://{text}").hostname or ""
    except ValueError:
        return None
    return domain if _DOMAIN.fullmatch(domain) else None


def _headers_about(messages: Sequence[Message]) -> dict[str, str]:
    """Return the headers about one request: whether the user or the agent begins it, and whether it has images."""
    is_agents = bool(messages) and messages[-1]["role"] != "user"
    headers = {"X-Initiator": "agent" if is_agents else "user", "Openai-Intent": "conversation-edits"}
    if any(_has_image(message) for message in messages):
        headers["Copilot-Vision-Request"] = "true"
    return headers


def _has_image(message: Message) -> bool:
    match message["role"]:
        case "user" | "toolResult":
            content = message["content"]
            return not isinstance(content, str) and any(block["type"] == "image" for block in content)
        case _:
            return False
