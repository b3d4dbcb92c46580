"""Adds the models that a server on this machine offers, while the program starts: they are in `--list-models`, too.

    LOCAL_MODELS_URL=http://127.0.0.1:11434/v1 pinnace --list-models -e examples/extensions/local_models.py

An async `extension` is awaited, so its registrations are complete before the start continues. An unreachable server
must not prevent the start: then there are no models, and a line in the log.
"""

import os

import httpx

from pinnace.extensions import ExtensionAPI

URL = os.environ.get("LOCAL_MODELS_URL", "http://127.0.0.1:11434/v1")


async def extension(pi: ExtensionAPI) -> None:
    try:
        async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
            answer = (await client.get(f"{URL}/models")).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        pi.log.warning("no models from %s: %s", URL, error)
        return
    models = [
        {"id": each["id"], "name": each["id"], "reasoning": False, "input": ["text"], "contextWindow": 32768}
        for each in answer["data"]
    ]
    pi.register_provider("local", base_url=URL, api="openai-completions", api_key="none", models=models)
