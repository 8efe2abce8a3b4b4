# %% [markdown]
# An agent in a notebook. Each part below is a cell; no event loop is needed, and the one of the notebook is not used.

# %%
import os

from duologue import sync
from duologue.events import Text, ToolCall

URL = os.environ["AGENT_URL"]  # what `duologue serve` printed, or "wss://…" and token="…" below

# %% One question.
print(sync.ask(URL, "/echo hello from a notebook"))

# %% A conversation that lives as long as the notebook.
agent = sync.open(URL)
session = agent.new_session(".")

# %% Each prompt is a cell of its own; stop the cell to cancel the turn.
for event in session.prompt("/plan"):
    match event:
        case Text(text=text):
            print(text, end="")
        case ToolCall(title=title, status=status):
            print(f"[{status}] {title}")
        case _:
            pass

# %% A turn as the last line of a cell is shown as Markdown.
turn = session.prompt("/echo *hello*").wait()
turn  # noqa: B018  # pyright: ignore[reportUnusedExpression]  # a cell shows it

# %% Everything that was said, as objects.
for message in session.transcript.messages:
    print(message.role, len(message.text))

# %% The end.
agent.close()
