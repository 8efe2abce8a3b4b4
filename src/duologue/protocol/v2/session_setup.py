"""Capabilities, login methods, session set-up and listings, to version 2 and back."""

from __future__ import annotations

from typing import TypeAlias

from duologue.conversation import session_setup as s
from duologue.protocol.v2.content import blocks_from_wire, blocks_to_wire
from duologue.protocol.values import AgentCapabilities, AuthMethod, ClientCapabilities
from duologue.schema import v2
from duologue.schema.base import JsonObject, Other

__all__ = [
    "SetupRequest",
    "agent_features_from_wire",
    "agent_features_to_wire",
    "client_features_from_wire",
    "client_features_to_wire",
    "info_from_wire",
    "info_to_wire",
    "login_from_wire",
    "login_to_wire",
    "party_from_wire",
    "party_to_wire",
    "servers_from_wire",
    "servers_to_wire",
    "setup_from_wire",
    "system_prompt_from_wire",
    "system_prompt_to_wire",
]

SetupRequest: TypeAlias = v2.NewSessionRequest | v2.ResumeSessionRequest | v2.ForkSessionRequest

NOBODY = v2.Implementation(name="unknown", version="unknown")
"""For an end that does not say who it is, because here it must."""


# --- the two ends


def party_to_wire(party: s.Implementation | None) -> v2.Implementation:
    if party is None:
        return NOBODY
    return v2.Implementation(name=party.name, version=party.version, title=party.title, meta=party.meta)


def party_from_wire(info: v2.Implementation) -> s.Implementation:
    return s.Implementation(info.name, info.version, info.title, info.meta)


def client_features_from_wire(caps: v2.ClientCapabilities, *, subagents: bool = True) -> ClientCapabilities:
    """What a client can do: much that version 1 asks for is taken for granted, and files and terminals are gone.

    Args:
        caps: What it says.
        subagents: Whether it may be sent what belongs to subagents, which no capability says here.
    """
    elicitation, auth = caps.elicitation, caps.auth
    return ClientCapabilities(
        boolean_settings=True,
        notices=True,
        compaction=True,
        named_plans=True,
        subagents=subagents,
        shows_terminals=True,
        forms=elicitation is not None and elicitation.form is not None,
        urls=elicitation is not None and elicitation.url is not None,
        terminal_login=auth is not None and auth.terminal is not None,
        meta=caps.meta,
    )


def client_features_to_wire(features: ClientCapabilities) -> v2.ClientCapabilities:
    auth = v2.ClientAuthCapabilities(terminal=v2.TerminalAuthCapabilities()) if features.terminal_login else None
    elicitation = v2.ElicitationCapabilities(
        form=v2.ElicitationFormCapabilities() if features.forms else None,
        url=v2.ElicitationUrlCapabilities() if features.urls else None,
    )
    return v2.ClientCapabilities(
        auth=auth, elicitation=elicitation if features.forms or features.urls else None, meta=features.meta
    )


def agent_features_to_wire(features: AgentCapabilities) -> v2.AgentCapabilities:
    """What an agent offers. It has sessions, and all that belongs to these: it lists, resumes and closes them."""
    override = v2.SessionSystemPromptOverrideCapabilities() if features.system_prompt_override else None
    prompt_mode = None if override is None else v2.SessionSystemPromptModeCapabilities(override=override)
    prompt = v2.PromptCapabilities(
        image=v2.PromptImageCapabilities() if features.image else None,
        audio=v2.PromptAudioCapabilities() if features.audio else None,
        embedded_context=v2.PromptEmbeddedContextCapabilities() if features.embedded else None,
    )
    mcp = v2.McpCapabilities(
        stdio=v2.McpStdioCapabilities() if features.mcp_stdio else None,
        http=v2.McpHttpCapabilities() if features.mcp_http else None,
        acp=v2.McpAcpCapabilities() if features.mcp_acp else None,
    )
    session = v2.SessionCapabilities(
        prompt=prompt if prompt != v2.PromptCapabilities() else None,
        mcp=mcp if mcp != v2.McpCapabilities() else None,
        delete=v2.SessionDeleteCapabilities() if features.delete else None,
        additional_directories=(
            v2.SessionAdditionalDirectoriesCapabilities() if features.additional_directories else None
        ),
        system_prompt=v2.SessionSystemPromptCapabilities(mode=prompt_mode) if features.system_prompt else None,
        fork=v2.SessionForkCapabilities() if features.fork else None,
        archive=v2.SessionArchiveCapabilities() if features.archive else None,
        status=v2.SessionStatusCapabilities() if features.status else None,
        title=v2.SessionTitleCapabilities() if features.title else None,
    )
    auth = v2.AgentAuthCapabilities(status=v2.AuthStatusCapabilities()) if features.login_status else None
    providers = v2.ProvidersCapabilities() if features.providers else None
    return v2.AgentCapabilities(session=session, auth=auth, providers=providers, meta=features.meta)


def agent_features_from_wire(caps: v2.AgentCapabilities, *, has_logins: bool = False) -> AgentCapabilities:
    """What an agent offers; one that has ways to log in has a way to log out."""
    sessions = caps.session or v2.SessionCapabilities()
    prompts, mcp = sessions.prompt or v2.PromptCapabilities(), sessions.mcp or v2.McpCapabilities()
    prompt, has_sessions = sessions.system_prompt, caps.session is not None
    return AgentCapabilities(
        load=has_sessions,
        resume=has_sessions,
        list=has_sessions,
        close=has_sessions,
        delete=sessions.delete is not None,
        fork=sessions.fork is not None,
        archive=sessions.archive is not None,
        status=sessions.status is not None,
        title=sessions.title is not None,
        additional_directories=sessions.additional_directories is not None,
        system_prompt=prompt is not None,
        system_prompt_override=prompt is not None and prompt.mode is not None and prompt.mode.override is not None,
        image=prompts.image is not None,
        audio=prompts.audio is not None,
        embedded=prompts.embedded_context is not None,
        mcp_stdio=mcp.stdio is not None,
        mcp_http=mcp.http is not None,
        mcp_acp=mcp.acp is not None,
        logout=has_logins,
        login_status=caps.auth is not None and caps.auth.status is not None,
        providers=caps.providers is not None,
        meta=caps.meta,
    )


def login_to_wire(method: AuthMethod) -> v2.AuthMethod:
    if method.other is not None:
        return Other(method.other.get("type"), method.other)
    if method.is_terminal:
        return v2.AuthMethodTerminal(
            method_id=method.method_id,
            name=method.name,
            description=method.description,
            args=method.args,
            env=_env(method.env),
            meta=method.meta,
        )
    return v2.AuthMethodAgent(
        method_id=method.method_id, name=method.name, description=method.description, meta=method.meta
    )


def login_from_wire(method: v2.AuthMethod) -> AuthMethod:
    """A way to log in; one of an unknown kind keeps everything it came with."""
    match method:
        case v2.AuthMethodTerminal():
            return AuthMethod(
                method_id=method.method_id,
                name=method.name,
                description=method.description,
                is_terminal=True,
                args=method.args,
                env={variable.name: variable.value for variable in method.env},
                meta=method.meta,
            )
        case v2.AuthMethodAgent():
            return AuthMethod(
                method_id=method.method_id, name=method.name, description=method.description, meta=method.meta
            )
        case Other():
            return AuthMethod(method_id=str(method["methodId"]), name=str(method["name"]), other=dict(method))


# --- sessions


def setup_from_wire(request: SetupRequest) -> s.SessionParams:
    return s.SessionParams(
        cwd=request.cwd,
        additional_directories=request.additional_directories,
        mcp_servers=servers_from_wire(request.mcp_servers),
        system_prompt=system_prompt_from_wire(request.system_prompt),
        meta=request.meta,
    )


def system_prompt_from_wire(prompt: v2.SystemPrompt | None) -> s.SystemPrompt | None:
    if prompt is None:
        return None
    return s.SystemPrompt(mode=prompt.mode, content=blocks_from_wire(prompt.content), meta=prompt.meta)


def system_prompt_to_wire(prompt: s.SystemPrompt | None) -> v2.SystemPrompt | None:
    if prompt is None:
        return None
    return v2.SystemPrompt(mode=prompt.mode, content=blocks_to_wire(prompt.content), meta=prompt.meta)


def servers_from_wire(servers: list[v2.McpServer]) -> list[s.McpServer]:
    return [_server_from_wire(server) for server in servers]


def servers_to_wire(servers: list[s.McpServer]) -> list[v2.McpServer]:
    return [_server_to_wire(server) for server in servers]


def _server_from_wire(server: v2.McpServer) -> s.McpServer:
    match server:
        case v2.McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return s.StdioMcpServer(
                name=server.name, command=server.command, args=server.args, env=env, meta=server.meta
            )
        case v2.McpServerHttp():
            headers = {header.name: header.value for header in server.headers}
            return s.HttpMcpServer(name=server.name, url=server.url, headers=headers, meta=server.meta)
        case v2.McpServerAcp():
            return s.AcpMcpServer(name=server.name, server_id=server.server_id, meta=server.meta)
        case Other():
            return s.UnknownMcpServer(name=str(server.get("name", "")), fields=dict(server))


def _server_to_wire(server: s.McpServer) -> v2.McpServer:
    match server:
        case s.StdioMcpServer():
            return v2.McpServerStdio(
                name=server.name, command=server.command, args=server.args, env=_env(server.env), meta=server.meta
            )
        case s.HttpMcpServer():
            headers = [v2.HttpHeader(name=name, value=value) for name, value in server.headers.items()]
            return v2.McpServerHttp(name=server.name, url=server.url, headers=headers, meta=server.meta)
        case s.SseMcpServer():
            return Other("sse", _sse_fields(server))
        case s.AcpMcpServer():
            return v2.McpServerAcp(name=server.name, server_id=server.server_id, meta=server.meta)
        case s.UnknownMcpServer():
            return Other(server.fields.get("type"), server.fields)


def _sse_fields(server: s.SseMcpServer) -> JsonObject:
    """A transport this version gave up; who cannot do it says so, which is better than never hearing of the server."""
    headers = [{"name": name, "value": value} for name, value in server.headers.items()]
    fields: JsonObject = {"type": "sse", "name": server.name, "url": server.url, "headers": headers}
    return fields if server.meta is None else {**fields, "_meta": server.meta}


def _env(variables: dict[str, str]) -> list[v2.EnvVariable]:
    return [v2.EnvVariable(name=name, value=value) for name, value in variables.items()]


def info_to_wire(info: s.SessionInfo) -> v2.SessionInfo:
    return v2.SessionInfo(
        session_id=info.session_id,
        cwd=info.cwd,
        additional_directories=info.additional_directories,
        title=info.title,
        updated_at=info.updated_at,
        archived=info.archived,
        meta=info.meta,
    )


def info_from_wire(info: v2.SessionInfo) -> s.SessionInfo:
    return s.SessionInfo(
        session_id=info.session_id,
        cwd=info.cwd,
        additional_directories=info.additional_directories,
        title=info.title,
        updated_at=info.updated_at,
        archived=bool(info.archived),
        meta=info.meta,
    )
