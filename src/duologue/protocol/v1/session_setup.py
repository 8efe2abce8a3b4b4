"""Capabilities, login methods, session set-up and listings, to version 1 and back."""

from __future__ import annotations

from typing import TypeAlias

from duologue.conversation import session_setup as s
from duologue.conversation.content import JsonObject
from duologue.protocol.v1.content import blocks_from_wire, blocks_to_wire
from duologue.protocol.values import AgentCapabilities, AuthMethod, ClientCapabilities
from duologue.schema import legacy, v1
from duologue.schema.base import Other

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
    "system_prompt_to_wire",
]

SetupRequest: TypeAlias = v1.NewSessionRequest | v1.LoadSessionRequest | v1.ResumeSessionRequest | v1.ForkSessionRequest


def party_to_wire(party: s.Implementation | None) -> v1.Implementation | None:
    if party is None:
        return None
    return v1.Implementation(name=party.name, version=party.version, title=party.title, meta=party.meta)


def party_from_wire(info: v1.Implementation | None) -> s.Implementation | None:
    return None if info is None else s.Implementation(info.name, info.version, info.title, info.meta)


def client_features_from_wire(caps: v1.ClientCapabilities) -> ClientCapabilities:
    session, elicitation = caps.session, caps.elicitation
    options = None if session is None else session.config_options
    return ClientCapabilities(
        reads_files=caps.fs.read_text_file,
        writes_files=caps.fs.write_text_file,
        terminals=caps.terminal,
        boolean_settings=options is not None and options.boolean is not None,
        notices=session is not None and session.notices is not None,
        compaction=session is not None and session.compaction is not None,
        named_plans=caps.plan is not None,
        subagents=caps.subagents is not None,
        forms=elicitation is not None and elicitation.form is not None,
        urls=elicitation is not None and elicitation.url is not None,
        terminal_login=caps.auth.terminal,
        meta=caps.meta,
    )


def client_features_to_wire(features: ClientCapabilities) -> v1.ClientCapabilities:
    session = v1.ClientSessionCapabilities(
        compaction=v1.CompactionCapabilities() if features.compaction else None,
        config_options=(
            v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities())
            if features.boolean_settings
            else None
        ),
        notices=v1.NoticeCapabilities() if features.notices else None,
    )
    elicitation = v1.ElicitationCapabilities(
        form=v1.ElicitationFormCapabilities() if features.forms else None,
        url=v1.ElicitationUrlCapabilities() if features.urls else None,
    )
    return v1.ClientCapabilities(
        fs=v1.FileSystemCapabilities(read_text_file=features.reads_files, write_text_file=features.writes_files),
        terminal=features.terminals,
        session=session if session != v1.ClientSessionCapabilities() else None,
        subagents=v1.SubagentCapabilities() if features.subagents else None,
        plan=v1.PlanCapabilities() if features.named_plans else None,
        auth=v1.AuthCapabilities(terminal=features.terminal_login),
        elicitation=elicitation if features.forms or features.urls else None,
        meta=features.meta,
    )


def agent_features_to_wire(features: AgentCapabilities) -> v1.AgentCapabilities:
    override = v1.SessionSystemPromptOverrideCapabilities() if features.system_prompt_override else None
    prompt_mode = None if override is None else v1.SessionSystemPromptModeCapabilities(override=override)
    sessions = v1.SessionCapabilities(
        list=v1.SessionListCapabilities() if features.list else None,
        delete=v1.SessionDeleteCapabilities() if features.delete else None,
        additional_directories=(
            v1.SessionAdditionalDirectoriesCapabilities() if features.additional_directories else None
        ),
        system_prompt=v1.SessionSystemPromptCapabilities(mode=prompt_mode) if features.system_prompt else None,
        fork=v1.SessionForkCapabilities() if features.fork else None,
        archive=v1.SessionArchiveCapabilities() if features.archive else None,
        status=v1.SessionStatusCapabilities() if features.status else None,
        title=v1.SessionTitleCapabilities() if features.title else None,
        resume=v1.SessionResumeCapabilities() if features.resume else None,
        close=v1.SessionCloseCapabilities() if features.close else None,
    )
    return v1.AgentCapabilities(
        load_session=features.load,
        prompt_capabilities=v1.PromptCapabilities(
            image=features.image, audio=features.audio, embedded_context=features.embedded
        ),
        mcp_capabilities=v1.McpCapabilities(http=features.mcp_http, sse=features.mcp_sse, acp=features.mcp_acp),
        session_capabilities=sessions,
        auth=v1.AgentAuthCapabilities(
            status=v1.AuthStatusCapabilities() if features.login_status else None,
            logout=v1.LogoutCapabilities() if features.logout else None,
        ),
        providers=v1.ProvidersCapabilities() if features.providers else None,
        meta=features.meta,
    )


def agent_features_from_wire(caps: v1.AgentCapabilities) -> AgentCapabilities:
    sessions, prompts, mcp = caps.session_capabilities, caps.prompt_capabilities, caps.mcp_capabilities
    prompt = sessions.system_prompt
    return AgentCapabilities(
        load=caps.load_session,
        resume=sessions.resume is not None,
        list=sessions.list is not None,
        close=sessions.close is not None,
        delete=sessions.delete is not None,
        fork=sessions.fork is not None,
        archive=sessions.archive is not None,
        status=sessions.status is not None,
        title=sessions.title is not None,
        additional_directories=sessions.additional_directories is not None,
        system_prompt=prompt is not None,
        system_prompt_override=prompt is not None and prompt.mode is not None and prompt.mode.override is not None,
        image=prompts.image,
        audio=prompts.audio,
        embedded=prompts.embedded_context,
        mcp_http=mcp.http,
        mcp_sse=mcp.sse,
        mcp_acp=mcp.acp,
        logout=caps.auth.logout is not None,
        login_status=caps.auth.status is not None,
        providers=caps.providers is not None,
        meta=caps.meta,
    )


def login_to_wire(method: AuthMethod) -> v1.AuthMethod:
    if method.is_terminal:
        return v1.AuthMethodTerminal(
            id=method.method_id,
            name=method.name,
            description=method.description,
            args=method.args,
            env=method.env,
            meta=method.meta,
        )
    return v1.AuthMethodAgent(id=method.method_id, name=method.name, description=method.description, meta=method.meta)


def login_from_wire(method: legacy.AuthMethod) -> AuthMethod:
    is_terminal = isinstance(method, v1.AuthMethodTerminal)
    return AuthMethod(
        method_id=method.id,
        name=method.name,
        description=method.description,
        is_terminal=is_terminal,
        args=method.args if isinstance(method, v1.AuthMethodTerminal) else [],
        env=method.env if isinstance(method, v1.AuthMethodTerminal) else {},
        other=_env_var_fields(method) if isinstance(method, legacy.AuthMethodEnvVar) else None,
        meta=method.meta,
    )


def _env_var_fields(method: legacy.AuthMethodEnvVar) -> JsonObject:
    fields: JsonObject = {"vars": method.vars, "varName": method.var_name, "varNames": method.var_names}
    return {name: value for name, value in {**fields, "link": method.link}.items() if value is not None}


def setup_from_wire(request: SetupRequest) -> s.SessionParams:
    prompt = request.system_prompt
    return s.SessionParams(
        cwd=request.cwd,
        additional_directories=request.additional_directories,
        mcp_servers=servers_from_wire(request.mcp_servers),
        system_prompt=(
            None
            if prompt is None
            else s.SystemPrompt(mode=prompt.mode, content=blocks_from_wire(prompt.content), meta=prompt.meta)
        ),
        meta=request.meta,
    )


def system_prompt_to_wire(prompt: s.SystemPrompt | None) -> v1.SystemPrompt | None:
    if prompt is None:
        return None
    return v1.SystemPrompt(mode=prompt.mode, content=blocks_to_wire(prompt.content), meta=prompt.meta)


def servers_from_wire(servers: list[v1.McpServer]) -> list[s.McpServer]:
    return [_server_from_wire(server) for server in servers]


def servers_to_wire(servers: list[s.McpServer]) -> list[v1.McpServer]:
    return [_server_to_wire(server) for server in servers]


def _server_from_wire(server: v1.McpServer) -> s.McpServer:
    match server:
        case v1.McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return s.StdioMcpServer(
                name=server.name, command=server.command, args=server.args, env=env, meta=server.meta
            )
        case v1.McpServerHttp():
            headers = {header.name: header.value for header in server.headers}
            return s.HttpMcpServer(name=server.name, url=server.url, headers=headers, meta=server.meta)
        case v1.McpServerSse():
            headers = {header.name: header.value for header in server.headers}
            return s.SseMcpServer(name=server.name, url=server.url, headers=headers, meta=server.meta)
        case v1.McpServerAcp():
            return s.AcpMcpServer(name=server.name, server_id=server.server_id, meta=server.meta)
        case Other():
            return s.UnknownMcpServer(name=str(server.get("name", "")), fields=dict(server))


def _server_to_wire(server: s.McpServer) -> v1.McpServer:
    match server:
        case s.StdioMcpServer():
            env = [v1.EnvVariable(name=name, value=value) for name, value in server.env.items()]
            return v1.McpServerStdio(
                name=server.name, command=server.command, args=server.args, env=env, meta=server.meta
            )
        case s.HttpMcpServer():
            return v1.McpServerHttp(
                name=server.name, url=server.url, headers=_headers(server.headers), meta=server.meta
            )
        case s.SseMcpServer():
            return v1.McpServerSse(name=server.name, url=server.url, headers=_headers(server.headers), meta=server.meta)
        case s.AcpMcpServer():
            return v1.McpServerAcp(name=server.name, server_id=server.server_id, meta=server.meta)
        case s.UnknownMcpServer():
            return Other(server.fields.get("type"), server.fields)


def _headers(headers: dict[str, str]) -> list[v1.HttpHeader]:
    return [v1.HttpHeader(name=name, value=value) for name, value in headers.items()]


def info_to_wire(info: s.SessionInfo) -> v1.SessionInfo:
    return v1.SessionInfo(
        session_id=info.session_id,
        cwd=info.cwd,
        additional_directories=info.additional_directories,
        title=info.title,
        updated_at=info.updated_at,
        archived=info.archived,
        meta=info.meta,
    )


def info_from_wire(info: v1.SessionInfo) -> s.SessionInfo:
    return s.SessionInfo(
        session_id=info.session_id,
        cwd=info.cwd,
        additional_directories=info.additional_directories,
        title=info.title,
        updated_at=info.updated_at,
        archived=bool(info.archived),
        meta=info.meta,
    )
