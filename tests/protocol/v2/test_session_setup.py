"""Capabilities, authentication, session params, options and content of version 2 mean the same after a round trip."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from duologue.conversation import session_setup as s
from duologue.conversation.content import Annotations, Icon, ResourceLink, TextContent
from duologue.conversation.settings import ConfigOption, Mode, Modes, Option, OptionGroup
from duologue.protocol.shared.session_setup import (
    implementation_from_wire,
    servers_to_wire,
    session_info_from_wire,
    session_info_to_wire,
    session_params_from_wire,
    session_params_to_wire,
)
from duologue.protocol.v2 import content
from duologue.protocol.v2 import session_setup as setup
from duologue.protocol.v2 import settings as configuration
from duologue.protocol.values import AgentCapabilities, AuthMethod, ClientCapabilities
from duologue.schema import v2
from duologue.schema.codec import decode
from duologue.schema.lenient_errors import is_array, is_object
from tests.protocol.v2.round_trips import canonical, golden
from tests.schema.instances import AtRandom, Maker
from tests.schema.official import UNSTABLE

MESSAGES = 200


def generated(definition: str) -> list[Any]:
    source = random.Random(definition)
    return [Maker(UNSTABLE["v2"].schema, AtRandom(source)).definition(definition) for _ in range(MESSAGES)]


def read(definition: str, wire: Any) -> Any:
    return decode(getattr(v2, definition), msgspec.json.encode(wire))


def with_maps(value: Any) -> Any:
    """Return the value with each variable and header once and without `_meta`, because they are read as mappings."""
    if is_array(value):
        return [with_maps(item) for item in value]
    if not is_object(value) or str(value.get("type")).startswith("_"):
        return value
    return {key: as_map(item) if key in ("env", "headers") else with_maps(item) for key, item in value.items()}


def as_map(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = {pair["name"]: pair["value"] for pair in pairs}
    return [{"name": name, "value": value} for name, value in known.items()]


# --- content


def test_every_block_means_the_same_after_the_round_trip() -> None:
    for wire in golden("PromptRequest") + generated("PromptRequest"):
        prompt = read("PromptRequest", wire).prompt
        assert canonical(content.blocks_to_wire(content.blocks_from_wire(prompt))) == canonical(prompt)


def test_content_that_only_version_1_allows_is_written_in_the_nearest_form() -> None:
    link = ResourceLink("file:///a", "a", size=-1, icons=[Icon(src="data:,", theme="dark", sizes=["any"])])
    text = TextContent("a", Annotations(priority=7))

    assert canonical(content.to_wire(link)) == {
        "type": "resource_link",
        "name": "a",
        "uri": "file:///a",
        "icons": [{"src": "data:,", "sizes": ["any"], "theme": "dark"}],
    }
    assert canonical(content.to_wire(text))["annotations"] == {"priority": 1}


# --- initialize


@pytest.mark.rule(138)
def test_a_missing_implementation_is_written_as_unknown() -> None:
    implementation = s.Implementation("a", "1", "A", {"k": 1})

    assert implementation_from_wire(setup.implementation_to_wire(implementation)) == implementation
    assert setup.implementation_to_wire(None) == v2.Implementation(name="unknown", version="unknown")


def test_capabilities_of_version_2_mean_the_same_after_the_round_trip() -> None:
    for wire in golden("InitializeRequest") + generated("InitializeRequest"):
        features = setup.client_capabilities_from_wire(read("InitializeRequest", wire).capabilities)
        assert setup.client_capabilities_from_wire(setup.client_capabilities_to_wire(features)) == features
    for wire in golden("InitializeResponse") + generated("InitializeResponse"):
        answer = read("InitializeResponse", wire)
        if answer.capabilities.session is None:
            continue
        offered = setup.agent_capabilities_from_wire(answer.capabilities, has_auth_methods=True)
        assert offered.logout
        again = setup.agent_capabilities_from_wire(setup.agent_capabilities_to_wire(offered), has_auth_methods=True)
        assert again == offered


@pytest.mark.rule(140)
def test_an_agent_of_version_2_loads_resumes_lists_and_closes_sessions() -> None:
    offered = setup.agent_capabilities_to_wire(AgentCapabilities(mcp_stdio=False))
    assert canonical(offered) == {"session": {}}
    features = setup.agent_capabilities_from_wire(offered)
    assert (features.load, features.resume, features.list, features.close, features.logout) == (True,) * 4 + (False,)
    nothing = setup.agent_capabilities_from_wire(v2.AgentCapabilities())
    assert nothing == AgentCapabilities(mcp_stdio=False)


def test_a_client_of_version_2_has_the_capabilities_that_every_client_has() -> None:
    features = setup.client_capabilities_from_wire(v2.ClientCapabilities())

    assert features == ClientCapabilities(
        boolean_settings=True, notices=True, compaction=True, named_plans=True, subagents=True, shows_terminals=True
    )
    assert canonical(setup.client_capabilities_to_wire(features)) == {}


def test_authentication_methods_mean_the_same_after_the_round_trip() -> None:
    for wire in golden("InitializeResponse") + generated("InitializeResponse"):
        methods = read("InitializeResponse", wire).auth_methods
        written = [setup.auth_method_to_wire(setup.auth_method_from_wire(method)) for method in methods]
        assert canonical(written) == with_maps(canonical(methods))


def test_a_terminal_login_and_an_unknown_one_are_written_as_received() -> None:
    method = AuthMethod(method_id="t", name="T", is_terminal=True, args=["login"], env={"A": "1"})
    assert canonical(setup.auth_method_to_wire(method)) == {
        "type": "terminal",
        "methodId": "t",
        "name": "T",
        "args": ["login"],
        "env": [{"name": "A", "value": "1"}],
    }
    wire = {"type": "_sso", "methodId": "x", "name": "X", "realm": 1}
    unknown = setup.auth_method_from_wire(read("AuthMethod", wire))
    assert unknown == AuthMethod(method_id="x", name="X", other=wire)


# --- sessions


@pytest.mark.parametrize("definition", ["NewSessionRequest", "ResumeSessionRequest", "ForkSessionRequest"])
def test_session_params_mean_the_same_after_the_round_trip(definition: str) -> None:
    for wire in golden(definition) + generated(definition):
        request = read(definition, wire)
        meaning = session_params_from_wire(v2, request, content.blocks_from_wire)
        written = session_params_to_wire(v2, meaning, content.blocks_to_wire)

        assert (meaning.cwd, meaning.additional_directories) == (request.cwd, request.additional_directories)
        servers = with_maps(canonical(request.mcp_servers))
        assert canonical(written["mcp_servers"]) == servers
        assert canonical(written["system_prompt"]) == canonical(request.system_prompt)


def test_a_server_with_the_removed_sse_transport_is_still_sent() -> None:
    server = s.SseMcpServer(name="old", url="https://x", headers={"A": "1"}, meta={"k": 1})
    wire = canonical(servers_to_wire(v2, [server, s.SseMcpServer(name="o", url="u")]))

    assert wire == [
        {"type": "sse", "name": "old", "url": "https://x", "headers": [{"name": "A", "value": "1"}], "_meta": {"k": 1}},
        {"type": "sse", "name": "o", "url": "u", "headers": []},
    ]


def test_a_listed_session_means_the_same_after_the_round_trip() -> None:
    for wire in golden("ListSessionsResponse") + generated("ListSessionsResponse"):
        for info in read("ListSessionsResponse", wire).sessions:
            meaning = session_info_from_wire(info)
            assert session_info_from_wire(session_info_to_wire(v2, meaning)) == meaning
            assert meaning.session_id == info.session_id


# --- settings


def test_config_options_mean_the_same_after_the_round_trip() -> None:
    seen: set[str] = set()
    for wire in golden("NewSessionResponse") + generated("NewSessionResponse"):
        for option in read("NewSessionResponse", wire).config_options:
            setting = configuration.config_option_from_wire(option)
            assert canonical(configuration.config_option_to_wire(setting)) == canonical(option)
            seen.add(setting.kind)
    assert seen >= {"select", "boolean", "_unknown"}


def test_modes_are_written_as_a_config_option_of_their_category() -> None:
    modes = Modes("ask", [Mode("ask", "Ask", "Asks first", {"k": 1}), Mode("code", "Code")], {"k": 2})
    wire = configuration.config_option_to_wire(configuration.mode_setting(modes))

    assert canonical(wire) == {
        "type": "select",
        "configId": "mode",
        "name": "Mode",
        "category": "mode",
        "currentValue": "ask",
        "options": [
            {"value": "ask", "name": "Ask", "description": "Asks first", "_meta": {"k": 1}},
            {"value": "code", "name": "Code"},
        ],
        "_meta": {"k": 2},
    }
    assert configuration.config_option_from_wire(wire) == configuration.mode_setting(modes)


def test_modes_are_the_first_option_unless_there_is_one_of_their_category() -> None:
    modes = Modes("ask", [Mode("ask", "Ask")])
    other = ConfigOption(setting_id="x", name="X", kind="boolean", value=True)
    own = ConfigOption(setting_id="m", name="M", category="mode", value="a", options=[Option("a", "A")])

    assert configuration.with_modes([other], modes) == [configuration.mode_setting(modes), other]
    assert configuration.with_modes([own], modes) == [own]
    assert configuration.with_modes([other], None) == [other]


def test_a_choice_without_values_is_written_with_the_current_one() -> None:
    empty = ConfigOption(setting_id="e", name="E", value="x", groups=[OptionGroup("g", "G", [])])
    unset = ConfigOption(setting_id="u", name="U")

    assert canonical(configuration.config_option_to_wire(empty))["options"] == [{"value": "x", "name": "x"}]
    assert canonical(configuration.config_option_to_wire(unset))["currentValue"] == ""


def test_an_unknown_option_from_version_1_is_written_with_the_id_field_of_version_2() -> None:
    setting = ConfigOption(
        setting_id="h", name="Heat", kind="_dial", other={"type": "_dial", "id": "h", "name": "Heat"}
    )

    assert canonical(configuration.config_option_to_wire(setting)) == {"type": "_dial", "name": "Heat", "configId": "h"}
