"""Models by name (`anthropic:claude-sonnet-5-5`), made when they are first used, and what to do if one cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from duologue.errors import InvalidParams

DEFAULTS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai:gpt-6.1-sol",
    "GOOGLE_API_KEY": "google:gemini-flash-latest",
    "MISTRAL_API_KEY": "mistral:codestral-latest",
    "GROQ_API_KEY": "groq:openai/gpt-oss-120b",
    "OPENROUTER_API_KEY": "openrouter:anthropic/claude-sonnet-5.5",
}
"""The model to use if none is named, by the variable with the key that is set; the first one counts."""

KEYS = {
    **{name.partition(":")[0]: variable for variable, name in DEFAULTS.items()},
    "openai-chat": "OPENAI_API_KEY",
    "bedrock": "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_REGION",
}
"""The variables of the environment that a provider needs."""

NO_MODEL = (
    f"no model is chosen and no key is set: set one of {', '.join(DEFAULTS)} in the environment of `duologue code`, or "
    "name a model of a local server, as in `--base-url http://127.0.0.1:11434/v1 --model openai:qwen3-coder`"
)


def model_names(named: Sequence[str], base_url: str | None) -> list[str]:
    """Return the models to choose from: those that were named, or one whose key is set.

    Raises:
        ValueError: A name has no provider, or a base URL is given without a name.
    """
    for name in named:
        if ":" not in name:
            raise ValueError(f"a model is named `provider:name`, as in `openai:{name}`; received `{name}`")
    if not named and base_url is not None:
        raise ValueError("with --base-url, name a model of that server: --model openai:NAME")
    return list(dict.fromkeys(named)) or [name for key, name in DEFAULTS.items() if os.environ.get(key)][:1]


class ModelTable(Mapping[str, Model]):
    """The models to choose from, by name; each is made when it is first used.

    Args:
        names: The names, `provider:name`.
        base_url: Address of a server that speaks OpenAI's API, or Anthropic's for models of `anthropic`.
    """

    def __init__(self, names: Sequence[str], base_url: str | None = None) -> None:
        self._names = names
        self._base_url = base_url
        self._made: dict[str, Model] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Model:
        """Return a model.

        Raises:
            KeyError: It is none of the names.
            InvalidParams: Its provider is unknown or not installed, or has no key.
        """
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Model:
        provider, _, rest = name.partition(":")
        try:
            if self._base_url is None:
                return infer_model(name)
            is_openai = provider == "openai"  # compatible servers have the older of its two APIs
            return infer_model(f"openai-chat:{rest}" if is_openai else name, self._provider_at_url)
        except ImportError:
            hint = f"pip install 'pydantic-ai-slim[{provider}]'"
            raise InvalidParams(f"models of {provider} need a package that is not installed: {hint}") from None
        except UserError as error:
            keys = KEYS.get(provider)
            if keys is None or "Unknown model" in str(error):
                raise InvalidParams(f"the model {name} cannot be used: {error}") from None
            where = "in the environment in which the editor starts `duologue code`"
            raise InvalidParams(f"there is no key for {name}: set {keys} {where}") from None

    def _provider_at_url(self, provider: str) -> Provider[object]:
        kind = cast("Callable[..., Provider[object]]", infer_provider_class(provider))
        try:
            return kind(base_url=self._base_url)
        except TypeError:
            raise UserError(f"the provider {provider} has no base URL; use openai or anthropic") from None
