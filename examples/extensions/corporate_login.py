"""A provider behind a single sign-on: authorization code with PKCE, and a redirect to this machine.

    pinnace auth login corporate -e examples/extensions/corporate_login.py      # once, at a terminal
    /login corporate                                                            # or within a session

`CORPORATE_SSO` is the URL of the authorization server, `CORPORATE_AI` that of the models. The login is stored in
auth.json and refreshed automatically, by one process at a time.
"""

import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import httpx

from pinnace.extensions import ExtensionAPI, LoginCallbacks, OAuth, RefreshContext, loopback_redirect, pkce

SSO = os.environ.get("CORPORATE_SSO", "https://sso.example.com")
MODELS = os.environ.get("CORPORATE_AI", "https://ai.example.com/v1")
CLIENT_ID = "pinnace-example"
# A token must not expire during a request.
EARLY_S = 60


async def ask(fields: Mapping[str, str]) -> dict[str, object]:
    """Request a token from the authorization server."""
    async with httpx.AsyncClient(timeout=20) as client:
        response = await client.post(f"{SSO}/token", data={"client_id": CLIENT_ID, **fields})
    if not response.is_success:
        raise RuntimeError(f"the authorization server answered {response.status_code}")
    token: dict[str, Any] = response.json()
    expires = (time.time() + token["expires_in"] - EARLY_S) * 1000
    return {"access": token["access_token"], "refresh": token["refresh_token"], "expires": expires}


async def login(callbacks: LoginCallbacks) -> Mapping[str, object]:
    """Send the user to the authorization server, and receive the code."""
    proof = pkce()
    async with loopback_redirect() as redirect:
        query = {
            "response_type": "code",
            "client_id": CLIENT_ID,
            "redirect_uri": redirect.uri,
            "state": redirect.state,
            "code_challenge": proof.challenge,
            "code_challenge_method": proof.method,
        }
        callbacks.on_auth(f"{SSO}/authorize?{urlencode(query)}", "Your browser comes back here by itself.")
        code = await redirect.code()
        return await ask(
            {
                "grant_type": "authorization_code",
                "code": code,
                "code_verifier": proof.verifier,
                "redirect_uri": redirect.uri,
            }
        )


async def refresh_token(credentials: Mapping[str, object]) -> Mapping[str, object]:
    """Exchange a refresh token, which works once."""
    return await ask({"grant_type": "refresh_token", "refresh_token": str(credentials["refresh"])})


def get_api_key(credentials: Mapping[str, object]) -> str:
    """Send the access token as the key."""
    return str(credentials["access"])


async def refresh_models(context: RefreshContext) -> list[dict[str, object]]:
    """Return the server's models, once there is a login."""
    if context.api_key is None:
        return []
    async with httpx.AsyncClient(timeout=5, headers={"Authorization": f"Bearer {context.api_key}"}) as client:
        response = await client.get(f"{MODELS}/models")
        response.raise_for_status()
    return [{"id": each["id"]} for each in response.json()["data"]]


def extension(pi: ExtensionAPI) -> None:
    """Register the provider."""
    pi.register_provider(
        "corporate",
        base_url=MODELS,
        api="openai-completions",
        models=[],
        oauth=OAuth("Corporate AI (SSO)", login, refresh_token, get_api_key),
        refresh_models=refresh_models,
    )
