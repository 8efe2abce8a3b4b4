"""Classes that users of duologue annotate with or construct, of both sides.

    from duologue.types import ClientSession, PermissionRequest, Restart, StdioMcpServer

Each name is loaded when it is first used. Events are in `duologue.events`, errors in `duologue.errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.agent.background_task import BackgroundTaskHandle as BackgroundTaskHandle
    from duologue.agent.command import CommandResult as CommandResult
    from duologue.agent.files import Files as Files
    from duologue.agent.hosting.server import ServerOptions as ServerOptions
    from duologue.agent.providers import Providers as Providers
    from duologue.agent.terminal import TerminalHandle as TerminalHandle
    from duologue.agent.tool_call import ToolCallHandle as ToolCallHandle
    from duologue.agent.turn_exceptions import StopTurn as StopTurn
    from duologue.agent.turn_exceptions import ToolCancelled as ToolCancelled
    from duologue.agent.turns.plan_progress import PlanProgress as PlanProgress
    from duologue.agent.turns.steering import SteeringMessage as SteeringMessage
    from duologue.client.agent import RemoteAgent as RemoteAgent
    from duologue.client.auth import AuthOptions as AuthOptions
    from duologue.client.auth import LoginProgram as LoginProgram
    from duologue.client.permissions.request import PermissionDecision as PermissionDecision
    from duologue.client.permissions.request import PermissionRequest as PermissionRequest
    from duologue.client.prompt import Attachment as Attachment
    from duologue.client.prompt import Selection as Selection
    from duologue.client.recorded_sessions import RecordedSession as RecordedSession
    from duologue.client.recorded_sessions import recorded_sessions as recorded_sessions
    from duologue.client.services.elicitation import ElicitationHandler as ElicitationHandler
    from duologue.client.session import ClientSession as ClientSession
    from duologue.client.session_controls import SessionOptions as SessionOptions
    from duologue.client.steering import Fallback as Fallback
    from duologue.client.steering import SteerResult as SteerResult
    from duologue.client.supervisor import Restart as Restart
    from duologue.client.target import Target as Target
    from duologue.client.turn import ClientTurn as ClientTurn
    from duologue.compat.dialects import Dialect as Dialect
    from duologue.conversation.content import Annotations as Annotations
    from duologue.conversation.content import AudioContent as AudioContent
    from duologue.conversation.content import Content as Content
    from duologue.conversation.content import Icon as Icon
    from duologue.conversation.content import ImageContent as ImageContent
    from duologue.conversation.content import JsonObject as JsonObject
    from duologue.conversation.content import Resource as Resource
    from duologue.conversation.content import ResourceLink as ResourceLink
    from duologue.conversation.content import TextContent as TextContent
    from duologue.conversation.content import UnknownContent as UnknownContent
    from duologue.conversation.content import text_of as text_of
    from duologue.conversation.items import Item as Item
    from duologue.conversation.session_setup import AcpMcpServer as AcpMcpServer
    from duologue.conversation.session_setup import HttpMcpServer as HttpMcpServer
    from duologue.conversation.session_setup import Implementation as Implementation
    from duologue.conversation.session_setup import McpServer as McpServer
    from duologue.conversation.session_setup import SessionInfo as SessionInfo
    from duologue.conversation.session_setup import SseMcpServer as SseMcpServer
    from duologue.conversation.session_setup import StdioMcpServer as StdioMcpServer
    from duologue.conversation.session_setup import SystemPrompt as SystemPrompt
    from duologue.conversation.session_setup import UnknownMcpServer as UnknownMcpServer
    from duologue.conversation.settings import ConfigOption as ConfigOption
    from duologue.conversation.settings import Mode as Mode
    from duologue.conversation.settings import Modes as Modes
    from duologue.conversation.settings import Option as Option
    from duologue.conversation.settings import OptionGroup as OptionGroup
    from duologue.conversation.transcript import Transcript as Transcript
    from duologue.conversation.updates import AvailableCommand as AvailableCommand
    from duologue.conversation.updates import ContentPart as ContentPart
    from duologue.conversation.updates import FileChange as FileChange
    from duologue.conversation.updates import Location as Location
    from duologue.conversation.updates import MessageChunk as MessageChunk
    from duologue.conversation.updates import PlanEntry as PlanEntry
    from duologue.conversation.updates import TerminalPart as TerminalPart
    from duologue.conversation.updates import ToolContent as ToolContent
    from duologue.conversation.updates import Update as Update
    from duologue.conversation.urls import host_of as host_of
    from duologue.conversation.work_state import BackgroundWork as BackgroundWork
    from duologue.conversation.work_state import CompactionStatus as CompactionStatus
    from duologue.conversation.work_state import Severity as Severity
    from duologue.conversation.work_state import StopReason as StopReason
    from duologue.conversation.work_state import TokenUsage as TokenUsage
    from duologue.conversation.work_state import ToolKind as ToolKind
    from duologue.conversation.work_state import ToolStatus as ToolStatus
    from duologue.mcp.results import McpResult as McpResult
    from duologue.mcp.servers import McpServers as McpServers
    from duologue.mcp.tool_server.server import ToolServer as ToolServer
    from duologue.protocol.feature_filter import Unstable as Unstable
    from duologue.protocol.meta import RequestMeta as RequestMeta
    from duologue.protocol.steering import SteerOutcome as SteerOutcome
    from duologue.protocol.values import Account as Account
    from duologue.protocol.values import AgentCapabilities as AgentCapabilities
    from duologue.protocol.values import AuthMethod as AuthMethod
    from duologue.protocol.values import AuthStatus as AuthStatus
    from duologue.protocol.values import ClientCapabilities as ClientCapabilities
    from duologue.protocol.values import Elicitation as Elicitation
    from duologue.protocol.values import ElicitationAnswer as ElicitationAnswer
    from duologue.protocol.values import PermissionOption as PermissionOption
    from duologue.protocol.values import Provider as Provider
    from duologue.store.base import Store as Store
    from duologue.store.memory import MemoryStore as MemoryStore
    from duologue.store.sqlite.store import SqliteStore as SqliteStore
    from duologue.transports.remote.url import TLSVerify as TLSVerify
    from duologue.transports.resume.protocol import RetryPolicy as RetryPolicy
    from duologue.transports.server.limits import Limits as Limits
    from duologue.transports.server.tokens import Authenticate as Authenticate
    from duologue.usage.amounts import Provenance as Provenance
    from duologue.usage.amounts import SessionUsage as SessionUsage
    from duologue.usage.amounts import TokenCounts as TokenCounts
    from duologue.usage.amounts import TurnUsage as TurnUsage
    from duologue.usage.counter import UsageState as UsageState
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.agent.background_task": "BackgroundTaskHandle",
            "duologue.agent.hosting.server": "ServerOptions",
            "duologue.agent.providers": "Providers",
            "duologue.agent.turn_exceptions": "StopTurn ToolCancelled",
            "duologue.agent.turns.plan_progress": "PlanProgress",
            "duologue.agent.turns.steering": "SteeringMessage",
            "duologue.agent.terminal": "TerminalHandle",
            "duologue.agent.tool_call": "ToolCallHandle",
            "duologue.agent.command": "CommandResult",
            "duologue.agent.files": "Files",
            "duologue.client.agent": "RemoteAgent",
            "duologue.client.session_controls": "SessionOptions",
            "duologue.client.auth": "AuthOptions LoginProgram",
            "duologue.client.permissions.request": "PermissionDecision PermissionRequest",
            "duologue.client.prompt": "Attachment Selection",
            "duologue.client.recorded_sessions": "RecordedSession recorded_sessions",
            "duologue.client.services.elicitation": "ElicitationHandler",
            "duologue.client.session": "ClientSession",
            "duologue.client.steering": "Fallback SteerResult",
            "duologue.client.supervisor": "Restart",
            "duologue.client.target": "Target",
            "duologue.client.turn": "ClientTurn",
            "duologue.compat.dialects": "Dialect",
            "duologue.conversation.content": (
                "Annotations AudioContent Content Icon ImageContent JsonObject Resource ResourceLink TextContent "
                "UnknownContent text_of"
            ),
            "duologue.conversation.items": "Item",
            "duologue.conversation.session_setup": (
                "AcpMcpServer HttpMcpServer Implementation McpServer SessionInfo SseMcpServer StdioMcpServer "
                "SystemPrompt UnknownMcpServer"
            ),
            "duologue.conversation.settings": "ConfigOption Mode Modes Option OptionGroup",
            "duologue.conversation.transcript": "Transcript",
            "duologue.conversation.updates": (
                "AvailableCommand ContentPart FileChange Location MessageChunk PlanEntry TerminalPart ToolContent "
                "Update"
            ),
            "duologue.conversation.urls": "host_of",
            "duologue.conversation.work_state": (
                "BackgroundWork CompactionStatus Severity StopReason TokenUsage ToolKind ToolStatus"
            ),
            "duologue.mcp.results": "McpResult",
            "duologue.mcp.servers": "McpServers",
            "duologue.mcp.tool_server.server": "ToolServer",
            "duologue.protocol.feature_filter": "Unstable",
            "duologue.protocol.meta": "RequestMeta",
            "duologue.protocol.steering": "SteerOutcome",
            "duologue.protocol.values": (
                "Account AgentCapabilities AuthMethod AuthStatus ClientCapabilities Elicitation ElicitationAnswer "
                "PermissionOption Provider"
            ),
            "duologue.store.base": "Store",
            "duologue.store.memory": "MemoryStore",
            "duologue.store.sqlite.store": "SqliteStore",
            "duologue.transports.remote.url": "TLSVerify",
            "duologue.transports.resume.protocol": "RetryPolicy",
            "duologue.transports.server.limits": "Limits",
            "duologue.transports.server.tokens": "Authenticate",
            "duologue.usage.amounts": "Provenance SessionUsage TokenCounts TurnUsage",
            "duologue.usage.counter": "UsageState",
        },
    )
