from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct

from duologue.conversation.content import ImageContent, TextContent
from duologue.mcp.results import read_result
from duologue.mcp.tool_server.function_tool import FunctionTool


class Point(Struct):
    x: int
    y: int = 0


@dataclass
class Answer:
    text: str
    score: float


async def search(
    query: Annotated[str, Meta(description="what to look for")],
    limit: int = 10,
    *,
    order: Literal["new", "old"] = "new",
    near: Point | None = None,
) -> str:
    """Search the notes.

    Returns the best matches first.
    """
    return f"{query} {limit} {order} {near}"


def test_a_function_becomes_a_tool_by_its_name_its_docstring_and_its_annotations() -> None:
    definition = FunctionTool(search).definition

    assert definition["name"] == "search"
    assert definition["description"] == "Search the notes.\n\nReturns the best matches first."
    schema = definition["inputSchema"]
    Draft202012Validator.check_schema(schema)
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["query"], False)
    assert schema["properties"]["query"] == {"type": "string", "description": "what to look for"}
    assert schema["properties"]["limit"] == {"type": "integer", "default": 10}
    assert set(schema["$defs"]) == {"Point"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "q"},
        {"query": "q", "limit": 3, "order": "old", "near": {"x": 1}},
        {},
        {"query": 5},
        {"query": "q", "order": "sideways"},
        {"query": "q", "near": {"y": 1}},
        {"query": "q", "unknown": 1},
    ],
)
async def test_the_schema_says_what_the_function_takes(arguments: dict[str, Any]) -> None:
    tool = FunctionTool(search)

    is_taken = not (await tool(arguments)).get("isError", False)

    assert is_taken == _fits(arguments, tool.definition["inputSchema"])


def _fits(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
    try:
        jsonschema.validate(arguments, schema, Draft202012Validator)
    except jsonschema.ValidationError:
        return False
    return True


async def test_arguments_arrive_as_the_types_the_function_names() -> None:
    result = await FunctionTool(search)({"query": "q", "near": {"x": 1}})

    assert read_result(result).text == "q 10 new Point(x=1, y=0)"


async def test_arguments_that_do_not_fit_are_a_failed_call_that_says_where() -> None:
    result = read_result(await FunctionTool(search)({"query": 5}))

    assert result.is_error
    assert result.text == "ValidationError: Expected `str`, got `int` - at `$.query`"


IMAGE = ImageContent("AAAA", "image/png")


def _returning(value: Any) -> Callable[[], Any]:
    async def tool() -> Any:
        return value

    return tool


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, {"content": []}),
        ("text", {"content": [{"type": "text", "text": "text"}]}),
        (IMAGE, {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
        (
            ["look:", IMAGE],
            {
                "content": [
                    {"type": "text", "text": "look:"},
                    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                ]
            },
        ),
        (5, {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}}),
        ([1, 2], {"content": [{"type": "text", "text": "[1,2]"}], "structuredContent": {"result": [1, 2]}}),
        (Point(1), {"content": [{"type": "text", "text": '{"x":1,"y":0}'}], "structuredContent": {"x": 1, "y": 0}}),
        (
            Answer("yes", 0.5),
            {
                "content": [{"type": "text", "text": '{"text":"yes","score":0.5}'}],
                "structuredContent": {"text": "yes", "score": 0.5},
            },
        ),
        (read_result({"content": [], "isError": True}), {"content": [], "isError": True}),
    ],
)
async def test_the_return_value_of_a_function_is_the_result(value: Any, expected: dict[str, Any]) -> None:
    assert await FunctionTool(_returning(value))({}) == expected


@pytest.mark.parametrize(
    ("value", "reason"), [(object(), "TypeError"), ({1: object()}, "TypeError")], ids=["object", "nested"]
)
async def test_a_return_value_without_a_json_form_is_a_failed_call(value: Any, reason: str) -> None:
    result = read_result(await FunctionTool(_returning(value))({}))

    assert result.is_error
    assert result.text.startswith(reason)


async def test_an_exception_of_a_function_is_a_failed_call_that_names_the_error() -> None:
    def divide(a: int, b: int) -> float:
        return a / b

    result = await FunctionTool(divide)({"a": 1, "b": 0})

    assert result == {"content": [{"type": "text", "text": "ZeroDivisionError: division by zero"}], "isError": True}


async def test_a_plain_function_runs_in_a_thread() -> None:
    def where() -> str:
        return threading.current_thread().name

    result = read_result(await FunctionTool(where)({}))

    assert result.content != [TextContent(threading.current_thread().name)]


def test_a_function_without_a_name_is_no_tool() -> None:
    with pytest.raises(TypeError, match="a tool must be a named function"):
        FunctionTool(lambda: 1)


def test_a_parameter_that_cannot_be_given_by_name_is_refused() -> None:
    def only_in_order(a: int, /) -> int:
        return a

    def any_number(*a: int) -> int:
        return sum(a)

    def any_names(**a: int) -> int:
        return sum(a.values())

    for function in (only_in_order, any_number, any_names):
        with pytest.raises(TypeError, match="cannot be passed by name"):
            FunctionTool(function)
