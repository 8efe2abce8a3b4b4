"""Where an agent's model requests go, if its author lets clients decide (unstable)."""

from __future__ import annotations

import msgspec

from duologue.errors import InvalidParams
from duologue.protocol.values import Provider

__all__ = ["Providers"]


class Providers:
    """The providers of one agent; kept per process, for all its clients."""

    def __init__(self, *providers: Provider) -> None:
        self.known = {provider.provider_id: provider for provider in providers}
        self.headers: dict[str, dict[str, str]] = {}
        """The headers a client asked for, by provider; never told to anyone."""

    def set(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None:
        """Use a provider in this way, and no longer as before.

        Raises:
            InvalidParams: No such provider, or it does not speak that way.
        """
        provider = self.known.get(provider_id)
        if provider is None:
            known = ", ".join(self.known) or "none"
            raise InvalidParams(f"$.providerId: no such provider: {provider_id[:200]!r} (there are: {known})")
        if api_type not in provider.supported:
            spoken = ", ".join(provider.supported)
            raise InvalidParams(f"$.apiType: {provider_id!r} does not speak {api_type[:200]!r} (it does: {spoken})")
        self.known[provider_id] = msgspec.structs.replace(provider, api_type=api_type, base_url=base_url)
        self.headers[provider_id] = dict(headers)

    def disable(self, provider_id: str) -> None:
        """Stop using a provider; one that nobody knows is not used already.

        Raises:
            InvalidParams: The agent cannot do without it.
        """
        provider = self.known.get(provider_id)
        if provider is None:
            return
        if provider.required:
            raise InvalidParams(f"$.providerId: {provider_id!r} is required and cannot be disabled")
        self.known[provider_id] = msgspec.structs.replace(provider, api_type=None, base_url=None)
        self.headers.pop(provider_id, None)
