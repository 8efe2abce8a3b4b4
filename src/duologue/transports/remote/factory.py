"""From an address, or a configuration with one, to a transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from duologue.errors import StartError
from duologue.transports.base import Transport
from duologue.transports.remote.url import RemoteEndpoint, TLSVerify, is_remote

__all__ = ["RemoteFactory"]


@dataclass(frozen=True)
class RemoteFactory:
    """An agent behind an address.

    Attributes:
        address: Where, and how we show who we are.
        kind: What is spoken there.
    """

    address: RemoteEndpoint
    kind: Literal["websocket", "http"]

    @classmethod
    def of(
        cls,
        target: object,
        *,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        trust: TLSVerify = None,
    ) -> Self | None:
        """What is meant, if it is an agent behind an address at all.

        Args:
            target: An address, or a configuration: `{"url": …, "transport": …, "headers": …, "token": …, "ca": …}`.
            headers: More headers for every request.
            token: Shows who we are.
            trust: Whom to believe that they are this host.

        Raises:
            StartError: It is meant to be one, but makes no sense.
        """
        if isinstance(target, str):
            config: Mapping[str, Any] = {"url": target}
            if not is_remote(target):
                return None
        elif isinstance(target, Mapping):
            config = cast("Mapping[str, Any]", target)
            if "url" not in config and config.get("transport", "stdio") == "stdio":
                return None
        else:
            return None
        url = config.get("url")
        if not isinstance(url, str):
            raise StartError("the configuration of a remote agent needs a `url`")
        configured = {str(name): str(value) for name, value in dict(config.get("headers") or {}).items()}
        address = RemoteEndpoint.of(
            url,
            headers={**configured, **(headers or {})},
            token=token or config.get("token"),
            trust=config.get("ca") if trust is None else trust,
        )
        return cls(address, _kind(config, url))

    @property
    def url(self) -> str:
        """The address without any secret."""
        return self.address.socket_url if self.kind == "websocket" else self.address.url

    def open(self) -> Transport:
        """A transport to the agent, not yet entered.

        Raises:
            StartError: What it needs is not installed.
        """
        try:
            if self.kind == "websocket":
                from duologue.transports.remote.websocket import WebSocketTransport

                return WebSocketTransport(self.address)
            from duologue.transports.remote.http import HttpTransport

            return HttpTransport(self.address)
        except ImportError as error:
            raise StartError(
                f"agents behind an address need more than is installed: pip install 'duologue[remote]' ({error})"
            ) from None


def _kind(config: Mapping[str, Any], url: str) -> Literal["websocket", "http"]:
    """What the configuration says, or what the address does."""
    match config.get("transport"):
        case "websocket" | "ws":
            return "websocket"
        case "http":
            return "http"
        case None:
            return "websocket" if url.lower().startswith("ws") else "http"
        case other:
            raise StartError(f"a remote agent is reached by `websocket` or `http`, not by {other!r}")
