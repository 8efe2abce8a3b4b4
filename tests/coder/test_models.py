"""Models by name, of several providers, and what is shown if one cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest
from pydantic_ai.models import KnownModelName

from duologue.coder.agent import CodeOptions, code_agent
from duologue.coder.models import DEFAULTS, ModelTable, model_names
from duologue.errors import InvalidParams
from duologue.testing import ModelServer, ModelTurn, RequestPattern, tool_call
from tests.coder.client import User, coding, model_table, open_client

READ = tool_call("read_file", path="calc.py")


async def test_a_model_of_anthropic_is_used_at_another_address(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = [ModelTurn(tools=[READ], expect=RequestPattern(api="messages", model="m")), ModelTurn("Read.")]
    async with asyncio.timeout(120), ModelServer(script) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        agent = code_agent(CodeOptions(models=model_table(["anthropic:m"], server.anthropic_url), data=project.parent))
        async with open_client(project, agent, User()) as remote, remote.new_session(project) as session:
            turn = await session.prompt("read")
        server.check()

    assert turn.text == "Read."


async def test_the_user_chooses_between_the_models_that_were_named(project: Path) -> None:
    script = [
        ModelTurn("a", expect=RequestPattern(model="one")),
        ModelTurn("b", expect=RequestPattern(model="two")),
    ]
    names = ["openai:one", "openai:two"]
    async with asyncio.timeout(120), ModelServer(script) as server, coding(project, server, models=names) as session:
        first = await session.prompt("hello")
        shown = await session.prompt("/model openai:two")
        second = await session.prompt("hello")
        wrong = await session.prompt("/model openai:three")
        server.check()

    assert (first.text, second.text) == ("a", "b")
    assert shown.text == "The model is openai:two. To choose from: openai:one, openai:two."
    assert "openai:three" in wrong.text


def test_the_model_without_a_name_is_that_of_the_first_key_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_names([], None) == []
    monkeypatch.setenv("MISTRAL_API_KEY", "x")
    monkeypatch.setenv("OPENAI_API_KEY", "x")

    assert model_names([], None) == [DEFAULTS["OPENAI_API_KEY"]]


def test_the_models_that_are_used_by_default_exist() -> None:
    known = get_args(KnownModelName.__value__)

    assert [name for name in DEFAULTS.values() if name not in known and not name.startswith("openrouter:")] == []


def test_a_name_without_a_provider_is_rejected_with_the_one_that_is_probably_meant() -> None:
    with pytest.raises(ValueError, match="as in `openai:gpt-6`"):
        model_names(["gpt-6"], None)
    with pytest.raises(ValueError, match="--model openai:NAME"):
        model_names([], "http://127.0.0.1:1/v1")


def test_a_local_server_needs_no_key() -> None:
    model = ModelTable(["openai:qwen3-coder"], "http://127.0.0.1:11434/v1")["openai:qwen3-coder"]

    assert (model.model_name, model.base_url) == ("qwen3-coder", "http://127.0.0.1:11434/v1/")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anthropic:claude-sonnet-5-5", "set ANTHROPIC_API_KEY in the environment"),
        ("openai:gpt-6.1-sol", "set OPENAI_API_KEY in the environment"),
        ("openrouter:a/b", "set OPENROUTER_API_KEY in the environment"),
        ("google:gemini-flash-latest", r"pip install 'pydantic-ai-slim\[google\]'"),
        ("mistral:codestral-latest", r"pip install 'pydantic-ai-slim\[mistral\]'"),
        ("groq:openai/gpt-oss-120b", r"pip install 'pydantic-ai-slim\[groq\]'"),
        ("bedrock:x", r"pip install 'pydantic-ai-slim\[bedrock\]'"),
        ("unknown:x", "unknown:x cannot be used"),
    ],
)
def test_a_model_that_cannot_be_used_says_exactly_what_is_missing(name: str, text: str) -> None:
    with pytest.raises(InvalidParams, match=text):
        ModelTable([name])[name]
