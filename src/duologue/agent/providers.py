"""Providers of models that clients may choose for an agent (unstable)."""

from __future__ import annotations

import msgspec

from duologue.errors import InvalidParams
from duologue.protocol.values import Provider


class Providers:
    """The providers of one agent, shared by all its clients while the process runs.

    Attributes:
        known: The providers with the clients' choices, by id.
        headers: The HTTP headers that a client chose, by provider id; never sent to clients.
    """

    def __init__(self, *providers: Provider) -> None:
        self.known = {provider.provider_id: provider for provider in providers}
        self.headers: dict[str, dict[str, str]] = {}

    def set(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None:
        """Replace how a provider is reached.

        Raises:
            InvalidParams: There is no such provider, or it does not support this API type.
        """
        provider = self.known.get(provider_id)
        if provider is None:
            known = ", ".join(self.known) or "none"
            raise InvalidParams(f"$.providerId: no such provider: {provider_id[:200]!r} (known: {known})")
        if api_type not in provider.supported:
            supported = ", ".join(provider.supported)
            raise InvalidParams(
                f"$.apiType: {provider_id!r} does not support {api_type[:200]!r} (supported: {supported})"
            )
        self.known[provider_id] = msgspec.structs.replace(provider, api_type=api_type, base_url=base_url)
        self.headers[provider_id] = dict(headers)

    def disable(self, provider_id: str) -> None:
        """Stop using a provider; an unknown one is ignored.

        Raises:
            InvalidParams: The agent requires the provider.
        """
        provider = self.known.get(provider_id)
        if provider is None:
            return
        if provider.required:
            raise InvalidParams(f"$.providerId: {provider_id!r} is required and cannot be disabled")
        self.known[provider_id] = msgspec.structs.replace(provider, api_type=None, base_url=None)
        self.headers.pop(provider_id, None)
