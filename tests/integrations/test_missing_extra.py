"""An adapter without its library says which extra to install."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("langgraph", "langchain_core.messages", "langgraph"), ("pydantic_ai", "pydantic_ai", "pydantic-ai")],
)
def test_an_adapter_without_its_library_names_the_command_that_installs_it(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for loaded in list(sys.modules):
        if loaded.startswith(f"duologue.integrations.{module}"):
            monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(ImportError, match=rf"pip install 'duologue\[{extra}\]'"):
        importlib.import_module(f"duologue.integrations.{module}")
