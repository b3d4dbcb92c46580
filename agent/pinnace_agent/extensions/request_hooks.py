"""What extensions have a say in while a provider is asked: a `RequestHooks` of the providers.

Must not know any API, nor how a request is sent. E33 to E36.
"""

from collections.abc import Mapping

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions.chains import UnusableResultError
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.runner import Runner
from pinnace_agent.llm.hooked_request import RefusedRequest
from pinnace_spec.messages import Model


class ProviderHooks:
    """The extensions of one request."""

    def __init__(self, runner: Runner, model: Model) -> None:
        """Ask about a request to `model`."""
        self._runner = runner
        self._model = model

    @property
    def wants_payload(self) -> bool:
        """Whether anyone wants to see the body."""
        return self._runner.has_handlers("before_provider_request")

    @property
    def hears_stream(self) -> bool:
        """Whether anyone wants to see what the provider streams."""
        return self._runner.has_handlers("provider_stream_event")

    async def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers to send (E33).

        Raises:
            RefusedRequest: What a handler has made of them can't be used.
        """
        try:
            return await self._runner.chains.headers(headers)
        except UnusableResultError as error:
            raise RefusedRequest(error.text) from error

    async def payload(self, payload: object) -> object:
        """Return the body to send (E34).

        Raises:
            RefusedRequest: What a handler has made of it can't be used.
        """
        try:
            return await self._runner.chains.payload(payload)
        except UnusableResultError as error:
            raise RefusedRequest(error.text) from error

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Tell that a response has begun (E35)."""
        await self._runner.chains.notify(
            "after_provider_response", lambda: ev.AfterProviderResponse(status=status, headers=dict(headers))
        )

    async def streamed(self, data: object) -> None:
        """Tell one event of the stream (E36)."""
        model = self._model
        await self._runner.chains.notify(
            "provider_stream_event",
            lambda: ev.ProviderStreamEvent(
                provider=model["provider"], api=model["api"], model=model["id"], data=frozen(data)
            ),
        )
