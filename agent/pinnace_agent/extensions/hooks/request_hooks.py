"""Hooks of model requests: a `RequestHooks` that calls extensions."""

from collections.abc import Mapping

from pinnace_agent.core.frozen import frozen
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.handlers.chains import UnusableResultError
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.llm.request import RefusedRequest
from pinnace_spec.records.messages import Model


class ProviderHooks:
    """The extensions of one request."""

    def __init__(self, runner: Runner, model: Model) -> None:
        """Create the hooks of a request to `model`."""
        self._runner = runner
        self._model = model

    @property
    def changes_payload(self) -> bool:
        """Whether the body has a handler."""
        return self._runner.has_handlers("before_provider_request")

    @property
    def observes_stream(self) -> bool:
        """Whether the stream's events have a handler."""
        return self._runner.has_handlers("provider_stream_event")

    async def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers to send.

        Raises:
            RefusedRequest: The headers as a handler changed them can't be used.
        """
        try:
            return await self._runner.chains.headers(headers)
        except UnusableResultError as error:
            raise RefusedRequest(error.text) from error

    async def payload(self, payload: object) -> object:
        """Return the body to send.

        Raises:
            RefusedRequest: The body as a handler changed it can't be used.
        """
        try:
            return await self._runner.chains.payload(payload)
        except UnusableResultError as error:
            raise RefusedRequest(error.text) from error

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Fire `after_provider_response`."""
        await self._runner.chains.notify(
            "after_provider_response", lambda: ev.AfterProviderResponse(status=status, headers=dict(headers))
        )

    async def streamed(self, data: object) -> None:
        """Fire `provider_stream_event`."""
        model = self._model
        await self._runner.chains.notify(
            "provider_stream_event",
            lambda: ev.ProviderStreamEvent(
                provider=model["provider"], api=model["api"], model=model["id"], data=frozen(data)
            ),
        )
