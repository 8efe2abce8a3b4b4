"""Answers of a trial to its agent: permissions by the rules of the case, and forms by its replies. There is no user."""

from __future__ import annotations

import re

from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.permissions.rules import Rule, Rules
from duologue.client.services.elicitation import CANCELLED, ElicitationHandler
from duologue.evals.suite.case import Case
from duologue.protocol.values import Elicitation, ElicitationAnswer


def permissions_of(case: Case) -> Permissions:
    """Return the policy of a case: its rules, and its answer to what they ask about."""
    is_allowed = case.on_ask == "allow"

    async def answer(request: PermissionRequest) -> bool:
        return is_allowed

    rules: dict[str, Rule] = {**case.permissions}
    return Permissions(rules=[Rules(rules)] if rules else [], on_request=answer, max_concurrent=8)


def elicitation_handler(case: Case) -> ElicitationHandler | None:
    """Return what answers the forms of an agent; None if the case has no replies, so that forms are not offered."""
    if not case.elicitations:
        return None
    replies = [(re.compile(reply.matches), reply) for reply in case.elicitations]

    async def answer(form: Elicitation) -> ElicitationAnswer:
        reply = next((reply for pattern, reply in replies if pattern.search(form.message)), None)
        if reply is None:
            return CANCELLED
        return ElicitationAnswer(action=reply.action, content=reply.content if reply.action == "accept" else None)

    return answer
