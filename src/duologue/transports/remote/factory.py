"""Create the transport for a URL, or for a configuration with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from duologue.errors import StartError
from duologue.transports.base import Transport
from duologue.transports.remote.url import RemoteEndpoint, TLSVerify, is_remote


@dataclass(frozen=True)
class RemoteFactory:
    """Create transports to one remote agent.

    Attributes:
        address: URL, headers and certificates of the server.
        kind: Which transport to use.
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
        """Return the factory for a target; `None` if the target is not remote.

        Args:
            target: A URL, or a configuration: `{"url": …, "transport": …, "headers": …, "token": …, "ca": …}`.
            headers: More headers for every request.
            token: Authenticates the client.
            trust: How to verify the certificate of the server.

        Raises:
            StartError: The target is remote, but invalid.
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
        """The URL without any secret."""
        return self.address.socket_url if self.kind == "websocket" else self.address.url

    def open(self) -> Transport:
        """Create a transport to the agent; the caller enters it.

        Raises:
            StartError: A package that it needs is not installed.
        """
        try:
            if self.kind == "websocket":
                from duologue.transports.remote.websocket import WebSocketTransport

                return WebSocketTransport(self.address)
            from duologue.transports.remote.http import HttpTransport

            return HttpTransport(self.address)
        except ImportError as error:
            raise StartError(f"remote agents need more packages: pip install 'duologue[remote]' ({error})") from None


def _kind(config: Mapping[str, Any], url: str) -> Literal["websocket", "http"]:
    """Return the transport that the configuration names, or the one of the URL's scheme."""
    match config.get("transport"):
        case "websocket" | "ws":
            return "websocket"
        case "http":
            return "http"
        case None:
            return "websocket" if url.lower().startswith("ws") else "http"
        case other:
            raise StartError(f"the transport of a remote agent is `websocket` or `http`, not {other!r}")
