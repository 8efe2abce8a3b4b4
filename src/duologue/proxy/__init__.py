"""Programs between a client and an agent, written as typed Python functions that see each message.

How bytes and frames are passed on does not belong here: that is `relay`. Users import from here; only the command line
imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.conversation.session_setup import SessionParams as SessionParams
    from duologue.protocol.client_requests import CreateTerminal as CreateTerminal
    from duologue.protocol.client_requests import ReadFile as ReadFile
    from duologue.protocol.client_requests import WriteFile as WriteFile
    from duologue.proxy.logger import LoggerProxy as LoggerProxy
    from duologue.proxy.policy import PolicyProxy as PolicyProxy
    from duologue.proxy.proxy import Block as Block
    from duologue.proxy.proxy import Proxy as Proxy
    from duologue.proxy.relay import ComponentRelay as ComponentRelay
    from duologue.proxy.relay import ProxyRelay as ProxyRelay
    from duologue.proxy.values import PermissionQuestion as PermissionQuestion
    from duologue.proxy.values import Prompt as Prompt
    from duologue.proxy.values import RequestAnswer as RequestAnswer
    from duologue.proxy.values import WireMessage as WireMessage
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.conversation.session_setup": "SessionParams",
            "duologue.protocol.client_requests": "CreateTerminal ReadFile WriteFile",
            "duologue.proxy.logger": "LoggerProxy",
            "duologue.proxy.policy": "PolicyProxy",
            "duologue.proxy.proxy": "Block Proxy",
            "duologue.proxy.relay": "ComponentRelay ProxyRelay",
            "duologue.proxy.values": "PermissionQuestion Prompt RequestAnswer WireMessage",
        },
    )
