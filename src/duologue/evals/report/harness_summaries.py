"""Summarize results of acp-harness: one short line for each prompt, or Markdown for a reader or a model that grades."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from duologue.evals.report.harness_results import HarnessLine, HarnessStep, tool_names
from duologue.markup import markdown_text

HEAD, TAIL = 300, 150
"""Characters of the beginning and of the end of a long text that a summary shows."""


class HarnessSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """A line of `eval summarize`.

    Attributes:
        id: Id of the prompt; with the number of the trial if there are several.
        input: The prompt.
        output: The answer.
        tool_calls: Names of the tool calls.
        duration: Milliseconds.
    """

    id: str
    input: str
    output: str
    tool_calls: list[str]
    duration: float


def summarize_lines(lines: Sequence[HarnessLine]) -> Iterator[HarnessSummary]:
    """Yield a summary of each result; of `trials`, one for each trial."""
    for line in lines:
        prompt = line.input if isinstance(line.input, str) else "\n".join(line.input)
        for name, output, steps, duration in _results(line):
            yield HarnessSummary(id=name, input=prompt, output=output, tool_calls=tool_names(steps), duration=duration)


def summary_markdown(lines: Sequence[HarnessLine]) -> str:
    """Return the results as Markdown: each step has an id, long texts are cut in the middle."""
    parts = ["# Results", ""]
    for line in lines:
        prompt = line.input if isinstance(line.input, str) else "\n".join(line.input)
        for name, output, steps, duration in _results(line):
            parts += [f"## {markdown_text(name)}", "", f"Prompt: {_shown(prompt)}", ""]
            parts += [f"- \\[→{markdown_text(line.id)}-step-{at}\\] {_step(step)}" for at, step in enumerate(steps, 1)]
            parts += ["", f"Answer: {_shown(output)}", "", f"{duration:g} ms", ""]
    return "\n".join(parts)


def _results(line: HarnessLine) -> Iterator[tuple[str, str, list[HarnessStep], float]]:
    if line.trials is None:
        total = line.timing.get("total")
        yield line.id, line.output or "", line.trajectory, float(total) if isinstance(total, int | float) else 0.0
        return
    for trial in line.trials:
        yield f"{line.id}-trial-{trial.trial}", trial.output, trial.trajectory, trial.duration or 0.0


def _step(step: HarnessStep) -> str:
    if step.type == "tool_call":
        status = f" ({markdown_text(step.status)})" if step.status else ""
        return f"tool call {markdown_text(step.name)}{status}"
    if step.type == "plan":
        return f"plan of {len(step.entries)} entries"
    return f"{markdown_text(step.type)}: {_shown(step.content)}"


def _shown(text: str) -> str:
    if len(text) <= HEAD + TAIL:
        return markdown_text(text, None)
    cut = len(text) - HEAD - TAIL
    return f"{markdown_text(text[:HEAD], None)} … ({cut:,} characters) … {markdown_text(text[-TAIL:], None)}"
