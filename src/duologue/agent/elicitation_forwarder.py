"""Questions that others put to the user through us: those of the session's MCP servers."""

from __future__ import annotations

from contextlib import suppress
from typing import cast
from urllib.parse import urlsplit

import msgspec

from duologue.agent.elicitation import ask_elicitation, is_secret
from duologue.conversation.content import JsonObject
from duologue.conversation.urls import host_of
from duologue.errors import ConnectionLost, InvalidParams
from duologue.protocol.interfaces import ClientProxy
from duologue.protocol.values import Elicitation, ElicitationAnswer

__all__ = ["ElicitationForwarder"]


class ElicitationForwarder:
    """The user of a session, as its MCP servers may ask them: by the same rules as the agent itself."""

    def __init__(self, editor: ClientProxy, session_id: str) -> None:
        self._editor = editor
        self._session_id = session_id

    async def ask(self, question: Elicitation) -> ElicitationAnswer:
        """Put the question to the client.

        Raises:
            InvalidParams: The client cannot ask that, or nobody may.
            RequestError: The client failed to ask.
        """
        if question.url is None:
            self._check_form(question)
        else:
            self._check_address(question.url)
        return await ask_elicitation(self._editor, msgspec.structs.replace(question, session_id=self._session_id))

    async def completed(self, elicitation_id: str) -> None:
        """What an address was to be visited for is done."""
        if self._editor.features.urls:
            with suppress(ConnectionLost):
                await self._editor.complete_elicitation(elicitation_id)

    def _check_form(self, question: Elicitation) -> None:
        if not self._editor.features.forms:
            raise InvalidParams("the client has no forms for the user")
        properties = (question.schema or {}).get("properties")
        for name in cast("JsonObject", properties) if isinstance(properties, dict) else ():
            if is_secret(name):
                raise InvalidParams(f"a form never asks for a secret ({name}); send the user to an address")

    def _check_address(self, url: str) -> None:
        if not self._editor.features.urls:
            raise InvalidParams("the client cannot open addresses for the user")
        try:
            host_of(url)
        except ValueError as error:
            raise InvalidParams(f"url: {error}") from error
        if "@" in urlsplit(url).netloc:
            raise InvalidParams("an address that others see holds no name and no password")
