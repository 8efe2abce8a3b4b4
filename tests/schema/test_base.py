"""Base types of the generated classes and constants."""

from __future__ import annotations

import pytest

from duologue.schema import v1
from duologue.schema.base import Other, wire_name


@pytest.mark.parametrize(
    ("name", "wire"),
    [("tool_call_id", "toolCallId"), ("meta", "_meta"), ("cwd", "cwd"), ("any_of", "anyOf"), ("from_", "from")],
)
def test_names_are_snake_case_in_python_and_camel_case_on_the_wire(name: str, wire: str) -> None:
    assert wire_name(name) == wire


def test_other_is_the_object_itself_and_knows_its_tag() -> None:
    other = Other("_x", {"type": "_x", "a": 1})

    assert other == {"type": "_x", "a": 1}
    assert repr(other) == "Other('_x', {'type': '_x', 'a': 1})"


def test_the_repr_of_a_method_names_it() -> None:
    assert repr(v1.SESSION_PROMPT) == "<Method session/prompt>"
    assert repr(v1.SESSION_UPDATE) == "<Notification session/update>"


def test_models_can_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        v1.TextContent(text="a").text = "b"  # type: ignore[misc]  # that is the point


def test_a_secret_does_not_show_its_value() -> None:
    variable = v1.EnvVariable(name="API_KEY", value="hush")

    assert repr(variable) == "EnvVariable(name='API_KEY', value=…)"
    assert variable.value == "hush"
