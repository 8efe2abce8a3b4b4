"""An agent, written once: its name, its capabilities and its handlers.

The agent advertises only capabilities that follow from what is registered here. One agent serves any number of clients
at once: a `ClientConnection` holds the state of one client, a `Session` that of one conversation.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Unpack, cast

from duologue.agent.client_connection import ClientConnection
from duologue.agent.diagnostics.checks import check_handler, check_hook
from duologue.agent.diagnostics.unawaited import watch_unawaited
from duologue.agent.hosting.stdio import read_command_line, serve_stdio
from duologue.agent.session import Session
from duologue.agent.settings import S, Settings
from duologue.agent.turn import Turn
from duologue.agent.turns.prompt_queue import CANCEL_SECONDS
from duologue.agent.validation import checked_dialect
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation, McpServer
from duologue.conversation.updates import AvailableCommand
from duologue.errors import ResourceNotFound, StartError, StoreError
from duologue.protocol.feature_filter import Unstable, enabled_features
from duologue.protocol.meta import RequestMeta
from duologue.protocol.negotiation import VersionNegotiator, check_versions
from duologue.protocol.values import PERMISSION_SECONDS, AuthMethod, AuthStatus, Provider
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Handlers
from duologue.runtime.observers import FrameObserver
from duologue.transports.base import Transport
from duologue.transports.methods import INITIALIZE

if TYPE_CHECKING:
    from duologue.agent.extension import Extension
    from duologue.agent.hosting.server import ServerKeywords
    from duologue.agent.providers import Providers
    from duologue.agent.turns.steering import SteerHandler
    from duologue.compat.dialects import Dialect
    from duologue.store.base import Store
    from duologue.transports.server.app import ServerApp

T = TypeVar("T", bound=Callable[..., Any])

PromptHandler: TypeAlias = Callable[[Turn[Any]], Awaitable[Any]]
CommandHandler: TypeAlias = Callable[[Turn[Any], str], Awaitable[Any]]
AuthHandler: TypeAlias = Callable[..., Awaitable[None]]
Accepts: TypeAlias = Literal["image", "audio", "resource"]


class Agent(Generic[S]):
    """An ACP agent: register handlers with its decorators, then call `run()` or `cli()`.

    Args:
        name: A short name for programs.
        version: Version of the agent, not of the protocol.
        title: A name for people.
        settings: Subclass of `Settings` that declares modes and options.
        accepts: Content that prompts may carry in addition to text and links.
        system_prompt: Whether clients may `append` to the instructions, or also `override` them (unstable).
        mcp: Connect the MCP servers that clients name, and further ones if given; needs the extra `mcp`.
        steering: The prompt handler takes text of the user while it works: `turn.take_steering()`, or `on_steer`.
        login_required: Reject sessions until a registered login method succeeded.
        meta: Custom capabilities, sent in `_meta` of the agent's capabilities.
        store: Where sessions are stored: a directory or a `Store`; see `persist_sessions`. Default: nowhere.
        permission_timeout: Seconds until a permission request without an answer counts as rejected.
        cancel_timeout: Seconds a cancelled prompt handler gets to end; then its turn is answered without it.
        auto_title: Use the beginning of the first prompt as the session's title until `turn.set_title` is called.
        debug: Include the text of unexpected exceptions in error responses.
        protocol_versions: Versions of the protocol to speak; `(1, 2)` adds the draft of version 2, which requires
            stored sessions (in memory without a `store`).
        unstable: Unstable features to offer: `True` for all, or names from
            `duologue.protocol.feature_filter.FEATURES`.
        legacy_models: Also send models in the form that older clients know (`models`, `session/set_model`).
        dialect: Name of an older dialect that the clients speak; see `docs/topics/seed-dialects.md`.

    Attributes:
        info: Name, version and title, as sent to clients.
        store: The store of the sessions, if they are stored.

    Raises:
        ValueError: A protocol version, unstable feature or dialect is unknown.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        settings: type[S] = cast("type[S]", Settings),  # noqa: B008
        accepts: tuple[Accepts, ...] = ("resource",),
        system_prompt: Literal["append", "override"] | None = None,
        mcp: bool | Sequence[McpServer] = False,
        steering: bool = False,
        login_required: bool = False,
        meta: JsonObject | None = None,
        store: str | Path | Store | None = None,
        permission_timeout: float = PERMISSION_SECONDS,
        cancel_timeout: float = CANCEL_SECONDS,
        auto_title: bool = False,
        debug: bool = False,
        protocol_versions: tuple[int, ...] = (1,),
        unstable: Unstable = False,
        legacy_models: bool = False,
        dialect: Dialect | None = None,
    ) -> None:
        # `hosting/tenants.py` lists which of these attributes the callers of a server share.
        self.info = Implementation(name, version, title)
        self._settings_type = settings
        self._accepts = accepts
        self._system_prompt = system_prompt
        self._mcp, self._mcp_servers = mcp is not False, () if isinstance(mcp, bool) else tuple(mcp)
        self._auth_required, self._steering = login_required, steering
        self._meta = meta or {}
        self._permission_timeout, self._cancel_timeout = permission_timeout, cancel_timeout
        self._auto_title, self._debug = auto_title, debug
        self._protocol_versions = check_versions(protocol_versions)
        self._unstable = enabled_features(unstable)
        self._legacy_models = legacy_models
        self._dialect: Dialect | None = checked_dialect(dialect)
        self._prompt_handler: PromptHandler | None = None
        self._steer_handler: SteerHandler | None = None
        self._request_hooks: list[Callable[[RequestMeta], object]] = []
        self._open_hooks: list[Callable[[Session[Any]], Awaitable[None]]] = []
        self._commands: dict[str, tuple[AvailableCommand, CommandHandler]] = {}
        self._auth_methods: dict[str, tuple[AuthMethod, AuthHandler | None]] = {}
        self._logout_handler: Callable[[], Awaitable[None]] | None = None
        self._status_handler: Callable[[], Awaitable[AuthStatus | str]] | None = None
        self._extensions: list[Extension] = []
        self._providers: Providers | None = None
        self._open_sessions: dict[str, Session[Any]] = {}
        """Open sessions of all clients, by id."""
        self.store: Store | None = _open_store(store, self._protocol_versions)

    def __repr__(self) -> str:
        return f"<Agent {self.info.name!r} {self.info.version}>"

    # --- registration

    def on_prompt(self, handler: Callable[[Turn[S]], Awaitable[Any]]) -> Callable[[Turn[S]], Awaitable[Any]]:
        """Register the handler of prompts; it returns nothing for `end_turn`, or another stop reason."""
        check_handler("prompt handler", handler, "turn", types=[Turn])
        self._prompt_handler = handler
        return handler

    def on_steer(self, handler: SteerHandler) -> SteerHandler:
        """Register the handler of text that the user sends into a running turn; it returns `False` if it came too late.

        It is called with the turn and the message, and replaces `turn.take_steering()`.
        """
        from duologue.agent.turns.steering import SteeringMessage

        check_handler("steering handler", handler, "turn", "message", types=[Turn, SteeringMessage])
        self._steer_handler, self._steering = handler, True
        return handler

    def on_open(self, hook: Callable[[Session[S]], Awaitable[None]]) -> Callable[[Session[S]], Awaitable[None]]:
        """Register a hook that is awaited with each session before it is announced: new, loaded, resumed or forked."""
        check_handler("hook for opened sessions", hook, "session", types=[Session])
        self._open_hooks.append(hook)
        return hook

    def on_request(self, hook: Callable[[RequestMeta], object]) -> Callable[[RequestMeta], object]:
        """Register a plain function that is called with each request and notification before it is handled.

        The hook sees the method and the attached `_meta`, and may attach `_meta` to the response. It must not block.
        """
        check_hook("hook for requests", hook, "request")
        self._request_hooks.append(hook)
        return hook

    def command(
        self, name: str, description: str, *, hint: str | None = None, meta: JsonObject | None = None
    ) -> Callable[[T], T]:
        """Register a slash command: advertised in each session, called for prompts that begin with `/name`.

        Args:
            name: The name without the slash.
            description: A sentence for the user.
            hint: What to type after the name.
            meta: Attached to the advertised command.

        Raises:
            ValueError: The name is empty, or contains a slash or whitespace.
        """
        if not name or name != name.strip() or any(character in name for character in "/ \t\n"):
            raise ValueError(f"a command name must not be empty or contain a slash or whitespace: {name!r}")

        def register(handler: T) -> T:
            check_handler("slash command", handler, "turn", "argument", types=[Turn, str])
            self._commands[name] = (AvailableCommand(name, description, hint, meta), handler)
            return handler

        return register

    def extension(self, name: str) -> Callable[[T], T]:
        """Register a custom method or notification: a coroutine function of one parameter, typed by its annotations.

        Raises:
            ValueError: The name does not begin with an underscore.
            TypeError: The function does not take one parameter, or its annotation cannot be decoded from JSON.
        """
        if not name.startswith("_"):
            raise ValueError(f"the name of a custom method must begin with an underscore: {name!r}")
        from duologue.agent.extension import Extension

        def register(handler: T) -> T:
            self._extensions.append(Extension(name, handler))
            return handler

        return register

    def login(
        self, method_id: str, name: str, *, description: str | None = None, meta: JsonObject | None = None
    ) -> Callable[[T], T]:
        """Register a login method: a coroutine function that logs in, and raises a `RequestError` if that fails.

        A function with a parameter receives the credentials of the request, by name. Only clients of the dialect
        `seed-004` send any; otherwise the mapping is empty.
        """

        def register(handler: T) -> T:
            check_handler("login method", handler, optional=["credentials"])
            self._auth_methods[method_id] = (
                AuthMethod(method_id=method_id, name=name, description=description, meta=meta),
                handler,
            )
            return handler

        return register

    def login_in_terminal(
        self,
        method_id: str,
        name: str,
        *,
        args: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        description: str | None = None,
        meta: JsonObject | None = None,
    ) -> None:
        """Register a login method for which the client runs this program in a terminal, with `args` as arguments."""
        method = AuthMethod(
            method_id=method_id,
            name=name,
            description=description,
            is_terminal=True,
            args=list(args),
            env=env or {},
            meta=meta,
        )
        self._auth_methods[method_id] = (method, None)

    def on_logout(self, handler: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Register the handler that logs the user out."""
        check_handler("logout handler", handler)
        self._logout_handler = handler
        return handler

    def on_login_status(
        self, handler: Callable[[], Awaitable[AuthStatus | str]]
    ) -> Callable[[], Awaitable[AuthStatus | str]]:
        """Register the handler that returns an `AuthStatus` or its state (unstable).

        With `login_required`, it also decides whether the user has to log in.
        """
        check_handler("login status handler", handler)
        self._status_handler = handler
        return handler

    def use_providers(self, *providers: Provider) -> Providers:
        """Let clients choose where model requests go (unstable); the returned `Providers` hold their choice."""
        from duologue.agent.providers import Providers

        self._providers = Providers(*providers)
        return self._providers

    def persist_sessions(self, where: str | Path | Store) -> None:
        """Store sessions in this directory or store, so that clients can load, list, resume, close and delete them.

        Fork, archive, status and titles work too if they are enabled with `unstable`.
        """
        self.store = _open_store(where, self._protocol_versions)

    # --- serving

    async def serve(self, transport: Transport, *, observers: tuple[FrameObserver, ...] = ()) -> None:
        """Serve one client on this transport until it disconnects.

        Args:
            transport: Where the client is.
            observers: Called with the direction and bytes of every frame.
        """
        watch_unawaited()
        handlers = Handlers()
        client = ClientConnection(self)
        negotiator = VersionNegotiator(client, handlers, self._protocol_versions, self._unstable)
        for extension in self._extensions:
            extension.register(handlers)
        try:
            normalised = self._in_dialect(transport)
            async with Connection(
                normalised, handlers, first_method=INITIALIZE, debug=self._debug, observers=observers
            ) as connection:
                await connection.wait_closed()
        finally:
            await client.aclose()
            await negotiator.aclose()

    def _in_dialect(self, transport: Transport) -> Transport:
        """Return a transport that translates the agent's dialect, or the transport itself if there is none."""
        if self._dialect is None:
            return transport
        from duologue.compat.normaliser import Normaliser
        from duologue.compat.transport import NormalisedTransport

        modes = self._settings_type().modes()
        named = [
            {"id": mode.mode_id, "name": mode.name, "description": mode.description}
            for mode in ([] if modes is None else modes.available)
        ]
        return NormalisedTransport(transport, Normaliser(self._dialect, "agent", modes=named), self._cwd_of)

    async def _cwd_of(self, session_id: str) -> str:
        """Return a stored session's directory; an unknown session is rejected later by its id."""
        with suppress(ResourceNotFound, StoreError):
            if self.store is not None:
                return (await self.store.info(session_id)).cwd
        return str(Path.cwd())

    def run(
        self,
        *,
        ws: int | None = None,
        http: int | None = None,
        dialect: Dialect | None = None,
        **options: Unpack[ServerKeywords],
    ) -> None:
        """Serve a client on stdin and stdout until it disconnects, or many clients over the network. Blocks.

        Args:
            ws: Port for WebSocket; 0 lets the system choose. The URL is printed to stderr.
            http: Port for streamable HTTP; one port serves both, and this one prints the HTTP URL.
            dialect: Name of an older dialect that the clients speak, instead of the agent's own.
            options: Fields of `duologue.agent.hosting.server.ServerOptions`. Needs the extra `remote`.

        Raises:
            StartError: The server cannot listen on the port, or the extra is not installed.
        """
        self._dialect = checked_dialect(dialect) or self._dialect
        port = ws if ws is not None else http
        if port is None:
            serve_stdio(self)
            return
        try:
            from duologue.agent.hosting.server import ServerOptions, run_server
        except ModuleNotFoundError as error:
            raise StartError(f"serving on the network needs {error.name}: pip install 'duologue[remote]'") from error

        run_server(self, ServerOptions(**options), port=port, scheme="http" if ws is None else "ws")

    def asgi(self, **options: Unpack[ServerKeywords]) -> ServerApp:
        """Return this agent as an ASGI application that serves `/acp`. Needs the extra `remote`.

        Args:
            options: Fields of `duologue.agent.hosting.server.ServerOptions`.
        """
        from duologue.agent.hosting.server import ServerOptions, asgi_app

        return asgi_app(self, ServerOptions(**options))

    def cli(self) -> None:
        """Read the command line (`--help` lists the options), then call `run()`."""
        chosen = read_command_line(self.info)
        try:
            self.run(ws=chosen.ws, http=chosen.http, dialect=chosen.dialect)
        except StartError as error:
            sys.exit(f"{self.info.name}: {error}")


def _open_store(where: str | Path | Store | None, protocol_versions: tuple[int, ...]) -> Store | None:
    """Return the store that was given; version 2 of the protocol requires one, so its default is in memory."""
    if isinstance(where, str | Path):
        from duologue.store.sqlite.store import SqliteStore

        return SqliteStore(Path(where).expanduser())
    if where is None and 2 in protocol_versions:
        from duologue.store.memory import MemoryStore

        return MemoryStore()
    return where
