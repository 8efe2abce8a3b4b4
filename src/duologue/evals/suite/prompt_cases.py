"""Cases as JSON lines with `id` and `input`, which acp-harness and its successors read.

{"id": "one", "input": ["first turn", "second turn"], "hint": "…", "reference": "…", "metadata": {}, "timeout": 60000}
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from duologue.evals.record.key import directory_name
from duologue.evals.suite.case import Case
from duologue.evals.suite.conversion import convert
from duologue.evals.suite.limits import Timeouts


class PromptCase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the file.

    Attributes:
        id: Id of the case.
        input: The prompt, or the prompts of one session.
        hint: What a good answer has.
        reference: A known good answer.
        metadata: Anything else; the category is `category`.
        timeout: Milliseconds for each prompt.
    """

    id: Annotated[str, Meta(min_length=1, max_length=1000)]
    input: str | Annotated[list[str], Meta(min_length=1)]
    hint: str | None = None
    reference: str | None = None
    metadata: dict[str, Any] | None = None
    timeout: Annotated[float, Meta(gt=0)] | None = None


def is_prompt_case(line: dict[str, Any]) -> bool:
    """Return True if an object has the fields of this format and not those of a case."""
    return "input" in line and "prompts" not in line


def read_prompt_case(line: dict[str, Any]) -> Case:
    """Return a line of the file as a case.

    Raises:
        FieldError: It does not fit.
    """
    found = convert(line, PromptCase)
    metadata = dict(found.metadata or {})
    name = directory_name(found.id)
    if name != found.id:
        metadata.setdefault("original_id", found.id)
    category = metadata.get("category")
    seconds = None if found.timeout is None else found.timeout / 1000
    timeouts = Timeouts() if seconds is None else Timeouts(turn=seconds, trial=max(seconds, Timeouts().trial))
    return Case(
        id=name,
        prompts=[found.input] if isinstance(found.input, str) else list(found.input),
        hint=found.hint or "",
        reference=found.reference,
        metadata=metadata,
        tags=[category] if isinstance(category, str) else [],
        timeouts=timeouts,
    )
