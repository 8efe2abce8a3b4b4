"""The filter of unstable features: it covers all the generated tables name, and what passes it is stable."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from duologue.agent.agent import Agent
from duologue.client.connect import connect
from duologue.errors import MethodNotFound
from duologue.protocol.feature_filter import EVERYTHING, FEATURES, STABLE_PARTS, FeatureFilter, enabled_features
from duologue.schema import v1, v2
from duologue.schema.base import Method, Notification
from duologue.schema.codec import decode
from duologue.schema.v1.stable import STABLE as STABLE_1
from duologue.schema.v2.stable import STABLE as STABLE_2
from tests.schema.instances import AtRandom, Maker
from tests.schema.official import STABLE, UNSTABLE

VERSIONS = pytest.mark.parametrize(
    ("version", "module", "table"), [(1, v1, STABLE_1), (2, v2, STABLE_2)], ids=["v1", "v2"]
)

NEVER_SENT = ("proxy/", "InitializeProxy", "Proxy")
"""Methods of proxies, which relays pass on without reading them."""

MESSAGES = 400
"""Random messages per version; `make chaos` runs more."""


def calls_of(module: Any) -> list[Method[Any, Any] | Notification[Any]]:
    """Return every method and notification of a version."""
    return [*module.METHODS.values(), *module.NOTIFICATIONS.values()]


@VERSIONS
def test_every_unstable_part_belongs_to_a_feature(version: int, module: Any, table: Any) -> None:
    gated = {part for parts in FEATURES.values() for part in parts}
    methods = {each.name for each in calls_of(module)}
    assert {name for name in methods - table.methods if not name.startswith(NEVER_SENT)} <= gated
    for name in table.fields:
        kind = getattr(module, name)
        if not issubclass(kind, msgspec.Struct):
            continue
        written = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert {f"{name}.{field}" for field in written - table.fields[name]} <= gated


@VERSIONS
def test_the_stable_parts_of_features_are_those_of_the_generated_table(version: int, module: Any, table: Any) -> None:
    stable = {*table.methods, *table.definitions}
    stable |= {f"{kind}.{field}" for kind, fields in table.fields.items() for field in fields}

    assert {part for parts in FEATURES.values() for part in parts if part in stable} == STABLE_PARTS[version]


@VERSIONS
def test_stable_parts_are_never_filtered(version: int, module: Any, table: Any) -> None:
    feature_filter = FeatureFilter(version, frozenset(), "Agent")
    for each in calls_of(module):
        assert feature_filter.serves(each) == (each.stable or each.name.startswith(NEVER_SENT)), each
    for kind in ("usage_update", "session_info_update", "notice", "compaction_update", "compaction_summary_chunk"):
        assert kind in table.members["SessionUpdate"]


@pytest.mark.fault("SCH-16")
@VERSIONS
def test_messages_that_pass_the_filter_are_stable(
    version: int, module: Any, table: Any, chaos_factor: int, record_property: Any
) -> None:
    """They are validated by the official stable schema, which is independent of the generated tables."""
    unstable, stable = UNSTABLE[f"v{version}"], STABLE[f"v{version}"]
    source, feature_filter, left_out = random.Random(version), FeatureFilter(version, frozenset(), "Agent"), 0
    calls = [call for call in unstable.schema.calls if call.name in table.methods]
    for _ in range(MESSAGES * chaos_factor):
        call = source.choice(calls)
        definition = call.params if call.result is None else source.choice([call.params, call.result])
        value = Maker(unstable.schema, AtRandom(source)).definition(definition)
        message = decode(unstable.type_of(unstable.schema.roots[definition]), json.dumps(value).encode())
        if not isinstance(message, msgspec.Struct):
            continue
        sent = feature_filter.strip(message)
        if sent is None:
            left_out += 1
            continue
        written = json.loads(msgspec.json.encode(sent))
        assert stable.validation_error(definition, written) is None, (definition, written)
        # What not even the unstable schema names came with a variant that it does not know.
        assert {*stable.unknown_fields(definition, written)} == {*unstable.unknown_fields(definition, written)}, written
    assert left_out > 0
    record_property("count", MESSAGES * chaos_factor)


def test_features_are_switched_on_by_name_all_at_once_or_not_at_all() -> None:
    assert enabled_features(False) == frozenset()
    assert enabled_features(True) == EVERYTHING == enabled_features(set(FEATURES))
    assert enabled_features({"fork"}) == {"fork"}
    feature_filter = FeatureFilter(1, enabled_features({"fork"}), "connect")
    assert feature_filter.allows("fork")
    assert not feature_filter.allows("archive")
    for wrong in ({"forks"}, "fork"):
        with pytest.raises(ValueError, match="archive, auth_status, background_tasks, fork, mcp_over_acp, plan"):
            Agent[Any]("x", unstable=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="a set of these names"):
            connect("x", unstable=wrong)  # type: ignore[arg-type]


def test_only_the_unstable_part_of_a_feature_is_filtered() -> None:
    update = v2.PlanUpdate(plan=v2.PlanItems(plan_id="p", entries=[]))
    notification = v2.UpdateSessionNotification(session_id="s", update=update)
    gone = v2.UpdateSessionNotification(session_id="s", update=v2.PlanRemoved(plan_id="p"))
    feature_filter = FeatureFilter(2, frozenset(), "Agent")

    assert feature_filter.sendable(v2.SESSION_UPDATE, notification) is notification
    assert feature_filter.sendable(v2.SESSION_UPDATE, gone) is None
    assert FeatureFilter(2, frozenset({"plan"}), "Agent").sendable(v2.SESSION_UPDATE, gone) is gone
    assert (
        FeatureFilter(1, frozenset(), "Agent").strip(v1.PlanUpdate(plan=v1.PlanItems(plan_id="p", entries=[]))) is None
    )


def test_a_request_for_a_filtered_feature_is_rejected_with_a_remedy() -> None:
    feature_filter = FeatureFilter(1, frozenset({"archive"}), "connect")
    feature_filter.check(v1.SESSION_LIST, v1.ListSessionsRequest(archived="only"))
    with pytest.raises(
        MethodNotFound, match=r"session/fork is unstable in version 1 .* `connect\(…, unstable={'fork'}"
    ):
        feature_filter.check(v1.SESSION_FORK, v1.ForkSessionRequest(session_id="s", cwd="/", mcp_servers=[]))
    tools = v1.McpServerAcp(name="tools", server_id="1")
    with pytest.raises(MethodNotFound, match=r"McpServerAcp is unstable .*mcp_over_acp"):
        feature_filter.check(v1.SESSION_NEW, v1.NewSessionRequest(cwd="/", mcp_servers=[tools]))
    prompt = v1.SystemPrompt(mode="append", content=[])
    with pytest.raises(MethodNotFound, match=r"NewSessionRequest.systemPrompt is unstable .*system_prompt"):
        feature_filter.check(v1.SESSION_NEW, v1.NewSessionRequest(cwd="/", mcp_servers=[], system_prompt=prompt))


def test_custom_methods_are_not_filtered() -> None:
    class SessionMessage(msgspec.Struct):
        text: str

    feature_filter, own = FeatureFilter(1, frozenset(), "Agent"), SessionMessage("hi")
    note: Notification[Any] = Notification("_own/note", SessionMessage)
    feature_filter.check(Method("_own/call", SessionMessage, object), own)
    assert feature_filter.sendable(note, own) is own
