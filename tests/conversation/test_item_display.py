"""Items as a Python prompt and a notebook show them."""

from __future__ import annotations

from duologue.conversation.content import TextContent
from duologue.conversation.items import Message, Plan
from duologue.conversation.updates import PlanEntry


def test_the_repr_of_an_item_names_the_fields_that_differ_from_their_defaults() -> None:
    message = Message(role="agent", content=[], message_id="m", raw=b"frame")
    assert repr(message) == "Message(role='agent', message_id='m')"


def test_a_notebook_shows_the_text_of_a_message_and_the_steps_of_a_plan() -> None:
    assert Message(role="agent", content=[TextContent("*hello*")])._repr_markdown_() == "*hello*"
    plan = Plan(entries=[PlanEntry("Read", status="completed"), PlanEntry("Write")])
    assert plan._repr_markdown_() == "- [x] Read\n- [ ] Write"


def test_a_plan_iterates_over_its_entries() -> None:
    entries = [PlanEntry("Read", status="completed"), PlanEntry("Write")]
    assert list(Plan(entries=entries)) == entries
    assert list(Plan(markdown="# Steps")) == []
