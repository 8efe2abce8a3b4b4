"""An agent, written once: what it is called, what it can do, and what it does with a prompt.

Capabilities follow from what is registered here, never more. One agent serves any number of clients at once; what
belongs to one of them lives in its `Link`, what belongs to one conversation in its `Session`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Unpack, cast, get_type_hints

from duologue.agent.client_connection import ClientConnection
from duologue.agent.hosting.stdio import read_command_line, serve_stdio
from duologue.agent.prompt_queue import CANCEL_SECONDS
from duologue.agent.providers import Providers
from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.compat.dialects import Dialect, check_dialect
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation
from duologue.conversation.updates import AvailableCommand
from duologue.errors import ResourceNotFound, StartError, StoreError
from duologue.protocol.feature_filter import Unstable, enabled_features
from duologue.protocol.meta import RequestMeta
from duologue.protocol.negotiation import VersionNegotiator, check_versions
from duologue.protocol.values import PERMISSION_SECONDS, AuthMethod, AuthStatus, Provider
from duologue.runtime.connection import Connection, FrameObserver
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Notification
from duologue.schema.codec import check_readable
from duologue.transports.base import Transport
from duologue.transports.methods import INITIALIZE

if TYPE_CHECKING:
    from duologue.agent.hosting.server import ServerKeywords
    from duologue.store.base import Store
    from duologue.transports.server.app import ServerApp

__all__ = ["Agent"]

S = TypeVar("S", bound=Settings)
T = TypeVar("T", bound=Callable[..., Any])

PromptHandler: TypeAlias = Callable[[Turn[Any]], Awaitable[Any]]
CommandHandler: TypeAlias = Callable[[Turn[Any], str], Awaitable[Any]]
LoginHandler: TypeAlias = Callable[..., Awaitable[None]]
Accepts: TypeAlias = Literal["image", "audio", "resource"]


class Agent(Generic[S]):
    """The thing you write.

    Args:
        name: A short name for machines.
        version: Of the agent, not of the protocol.
        title: A name for people.
        settings: The class that declares modes and options.
        accepts: What prompts may carry beyond text and links.
        system_prompt: Whether clients may `append` to the instructions, or even `override` them (unstable).
        mcp: Connect the MCP servers that clients name; needs the extra `mcp`.
        login_required: Refuse sessions until a registered login method succeeded.
        meta: Custom capabilities, by names of your own; clients find them in `_meta` of the agent's capabilities.
        permission_timeout: Seconds a permission question waits for its answer; then it is a no.
        cancel_timeout: Seconds a cancelled prompt handler gets to end; then its turn is answered without it.
        titles: Make the beginning of its first prompt the title of a session; `turn.title` gives it a better one.
        debug: Put the text of unexpected exceptions into error answers.
        versions: What it speaks; `(1, 2)` adds the draft of version 2, which asks of every agent to keep its sessions
            (in memory, unless `keep_sessions` says where).
        unstable: Which unstable parts of the protocol clients are offered and sent: all, none, or a set of names; see
            `duologue.protocol.feature_filter.FEATURES`.
        legacy_models: Tell clients of the models in the form that older ones know (`models`, `session/set_model`), in
            addition to the setting of category `model`.
        dialect: Of an older document, that its clients speak; see `docs/topics/seed-dialects.md`.

    Raises:
        ValueError: There is no such version, unstable feature or dialect.
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
        mcp: bool = False,
        login_required: bool = False,
        meta: JsonObject | None = None,
        permission_timeout: float = PERMISSION_SECONDS,
        cancel_timeout: float = CANCEL_SECONDS,
        titles: bool = False,
        debug: bool = False,
        versions: tuple[int, ...] = (1,),
        unstable: Unstable = False,
        legacy_models: bool = False,
        dialect: Dialect | None = None,
    ) -> None:
        self.info = Implementation(name, version, title)
        self.settings_type = settings
        self.accepts = accepts
        self.system_prompt = system_prompt
        self.mcp = mcp
        self.login_required = login_required
        self.meta = meta or {}
        self.permission_timeout = permission_timeout
        self.cancel_timeout = cancel_timeout
        self.titles = titles
        self.debug = debug
        self.versions = check_versions(versions)
        self.unstable = enabled_features(unstable)
        self.legacy_models = legacy_models
        self.dialect: Dialect | None = check_dialect(dialect)
        self.prompt_handler: PromptHandler | None = None
        self._request_hooks: list[Callable[[RequestMeta], object]] = []
        self._open_hooks: list[Callable[[Session[Any]], Awaitable[None]]] = []
        self.commands: dict[str, tuple[AvailableCommand, CommandHandler]] = {}
        self.login_methods: dict[str, tuple[AuthMethod, LoginHandler | None]] = {}
        self.logout_handler: Callable[[], Awaitable[None]] | None = None
        self.status_handler: Callable[[], Awaitable[AuthStatus | str]] | None = None
        self.providers: Providers | None = None
        self.store: Store | None = _first_store(self.versions)
        self.open_sessions: dict[str, Session[Any]] = {}
        """Every session that is open, of whatever client."""
        self._extensions: list[tuple[Method[Any, Any], Notification[Any], Callable[[Any], Awaitable[Any]]]] = []

    # --- registering

    def on_prompt(self, handler: Callable[[Turn[S]], Awaitable[Any]]) -> Callable[[Turn[S]], Awaitable[Any]]:
        """What to do with a prompt. Return nothing for `end_turn`, or another stop reason."""
        self.prompt_handler = handler
        return handler

    def on_open(self, hook: Callable[[Session[S]], Awaitable[None]]) -> Callable[[Session[S]], Awaitable[None]]:
        """Called with each session before its client hears that it is open: new, loaded, resumed or forked."""
        self._open_hooks.append(hook)
        return hook

    def on_request(self, watch: Callable[[RequestMeta], object]) -> Callable[[RequestMeta], object]:
        """Called with each request and notification, before it is handled: a plain function that does not wait.

        It sees the method and what is attached (`_meta`), and may attach something to the answer.
        """
        self._request_hooks.append(watch)
        return watch

    def command(
        self, name: str, description: str, *, hint: str | None = None, meta: JsonObject | None = None
    ) -> Callable[[T], T]:
        """A slash command: advertised once a session is open, called for prompts that begin with `/name`."""
        if not name or name != name.strip() or any(sign in name for sign in "/ \t\n"):
            raise ValueError(f"a command's name has no slash and no blanks: {name!r}")

        def register(handler: T) -> T:
            self.commands[name] = (AvailableCommand(name, description, hint, meta), handler)
            return handler

        return register

    def extension(self, name: str) -> Callable[[T], T]:
        """A custom method or notification: a coroutine function of one parameter, typed by its annotations."""
        if not name.startswith("_"):
            raise ValueError(f"custom methods begin with an underscore: {name!r}")

        def register(handler: T) -> T:
            taken, given = _types_of(handler)
            check_readable(taken)
            method: Method[Any, Any] = Method(name, taken, given, stable=False)
            self._extensions.append((method, Notification(name, taken, side="agent"), handler))
            return handler

        return register

    def login(
        self, method_id: str, name: str, *, description: str | None = None, meta: JsonObject | None = None
    ) -> Callable[[T], T]:
        """A way to log in: the coroutine function does it, and raises a `RequestError` when it fails.

        One that takes a parameter is given the credentials that came with the request, by name: only clients of the
        dialect `seed-004` send any, and without them the mapping is empty.
        """

        def register(handler: T) -> T:
            self.login_methods[method_id] = (
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
        """A way to log in by running this very program in a terminal with these arguments instead of its own."""
        method = AuthMethod(
            method_id=method_id,
            name=name,
            description=description,
            is_terminal=True,
            args=list(args),
            env=env or {},
            meta=meta,
        )
        self.login_methods[method_id] = (method, None)

    def on_logout(self, handler: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """What logging out means."""
        self.logout_handler = handler
        return handler

    def on_login_status(
        self, handler: Callable[[], Awaitable[AuthStatus | str]]
    ) -> Callable[[], Awaitable[AuthStatus | str]]:
        """Who is logged in (unstable): a `AuthStatus` or its state. Also decides whether a login is needed."""
        self.status_handler = handler
        return handler

    def use_providers(self, *providers: Provider) -> Providers:
        """Let clients choose where model requests go (unstable); read the choice from what is returned."""
        self.providers = Providers(*providers)
        return self.providers

    def persist_sessions(self, where: str | Path | Store) -> None:
        """Keep sessions in this directory (or store): load, list, resume, close and delete work from here on.

        Fork, archive, status and titles work as well where they are switched on (`unstable`).
        """
        if isinstance(where, str | Path):
            from duologue.store.sqlite.store import SqliteStore

            self.store = SqliteStore(Path(where).expanduser())
        else:
            self.store = where

    # --- serving

    async def serve(self, transport: Transport, *, observers: tuple[FrameObserver, ...] = ()) -> None:
        """Talk to one client until it leaves."""
        handlers = Handlers()
        link = ClientConnection(self)
        dialect = VersionNegotiator(link, handlers, self.versions, self.unstable)
        for method, notification, handler in self._extensions:
            _register_extension(handlers, method, notification, handler)
        try:
            spoken = self._in_dialect(transport)
            async with Connection(
                spoken, handlers, first_method=INITIALIZE, debug=self.debug, observers=observers
            ) as connection:
                await connection.wait_closed()
        finally:
            await link.aclose()
            await dialect.aclose()

    def _in_dialect(self, transport: Transport) -> Transport:
        """The same transport, to a client that speaks what it is said to speak."""
        if self.dialect is None:
            return transport
        from duologue.compat.normaliser import Normaliser
        from duologue.compat.transport import NormalisedTransport

        modes = self.settings_type().modes()
        named = [
            {"id": mode.mode_id, "name": mode.name, "description": mode.description}
            for mode in ([] if modes is None else modes.available)
        ]
        return NormalisedTransport(transport, Normaliser(self.dialect, "agent", modes=named), self._cwd_of)

    async def _cwd_of(self, session_id: str) -> str:
        """Where a session is; a session that is not known is refused by its id, whatever its directory."""
        with suppress(ResourceNotFound, StoreError):
            if self.store is not None:
                return (await self.store.info(session_id)).cwd
        return str(Path.cwd())

    def run(self, *, ws: int | None = None, http: int | None = None, **options: Unpack[ServerKeywords]) -> None:
        """Talk to the client on this process's stdin and stdout until it leaves, or to many over the network. Blocks.

        Args:
            ws: The port to listen on; 0 lets the system choose. The address is printed, ready for use.
            http: The same, with an address for streamable HTTP; one port serves both.
            options: Who may reach it, and how: see `duologue.agent.hosting.server.Remote`. Needs the extra `remote`.

        Raises:
            StartError: Nobody can listen there, or the extra is not installed.
        """
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
        """This agent as a web application, for any ASGI server; it answers at `/acp`. Needs the extra `remote`.

        Args:
            options: Who may reach it: see `duologue.agent.hosting.server.Remote`.
        """
        from duologue.agent.hosting.server import ServerOptions, asgi_app

        return asgi_app(self, ServerOptions(**options))

    def cli(self) -> None:
        """Like `serve()`, but reads the command line first: `--help` says what there is."""
        chosen = read_command_line(self.info)
        self.dialect = chosen.dialect or self.dialect
        try:
            self.run(ws=chosen.ws, http=chosen.http)
        except StartError as error:
            sys.exit(f"{self.info.name}: {error}")

    @property
    def uses_mcp(self) -> bool:
        """Whether the MCP servers that clients name are connected: it is to, and the extra is installed."""
        return self.mcp and find_spec("mcp") is not None

    @property
    def extension_names(self) -> list[str]:
        """The custom methods, as they are advertised."""
        return [method.name for method, _, _ in self._extensions]


def _first_store(versions: tuple[int, ...]) -> Store | None:
    """Version 2 asks of every agent to keep its sessions."""
    if 2 not in versions:
        return None
    from duologue.store.memory import MemoryStore

    return MemoryStore()


def _types_of(handler: Callable[..., Any]) -> tuple[Any, Any]:
    """What a custom method takes and gives, from its annotations; without any, a JSON object."""
    hints = get_type_hints(handler)
    parameters = list(inspect.signature(handler).parameters)
    if len(parameters) != 1:
        raise TypeError(f"a custom method takes one parameter, {handler!r} takes {len(parameters)}")
    given = hints.get("return", Any)
    return hints.get(parameters[0], dict[str, Any]), dict[str, Any] if given is type(None) else given


def _register_extension(
    handlers: Handlers,
    method: Method[Any, Any],
    notification: Notification[Any],
    handler: Callable[[Any], Awaitable[Any]],
) -> None:
    async def call(context: Context, params: Any) -> Any:
        return await handler(params)

    handlers.on(method)(call)
    handlers.on(notification)(call)
