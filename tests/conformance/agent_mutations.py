"""Faults of agents, each with the rules that must find it: the proof that a check of an agent is sharp."""

from __future__ import annotations

from msgspec import Struct


class AgentMutation(Struct, frozen=True):
    """One fault.

    Attributes:
        fault: Its name, as the faulty agent knows it.
        fails: Numbers of the rules that fail, and no others.
        version: Version of the protocol in which it shows.
        also: Rules that fail as a consequence, in some or all runs.
    """

    fault: str
    fails: frozenset[int]
    version: int = 1
    also: frozenset[int] = frozenset()


def _table(version: int, faults: dict[str, tuple[set[int], set[int]] | set[int]]) -> list[AgentMutation]:
    found: list[AgentMutation] = []
    for fault, rules in faults.items():
        fails, also = rules if isinstance(rules, tuple) else (rules, set[int]())
        found.append(AgentMutation(fault, frozenset(fails), version, frozenset(also)))
    return found


UNANSWERED = 166
"""A rule that fails with every fault that leaves a request without a response."""

MUTATIONS = (
    *_table(
        1,
        {
            "ids become strings": ({7}, {26, 27, 31, 32}),
            "garbage ignored": {10},
            "dies of garbage": {10},
            "invalid requests ignored": {11},
            "batches run": {12},
            "wrong code for unknown methods": {13},
            "unknown methods ignored": {13},
            "unknown notifications answered": {9, 14},
            "dies of unknown notifications": {14},
            "bad notifications answered": {9},
            "params unchecked": {15, 46},
            "dies of stray responses": {16},
            "dies of unknown errors": {17},
            "unknown fields refused": {20},
            "meta refused": {21},
            "custom field in a session": {18},
            "newer version chosen": ({26}, {18, 36, 157, 161, 163}),
            "version echoed": ({27}, {18, 157, 162, 163}),
            "highest version echoed": ({174}, {18, 157, 162, 163}),
            "works before initialize": {31},
            "malformed capabilities refused": {32},
            "malformed capability used": {32},
            "prompt is missing": ({33}, {15, 63}),
            "links refused": {34},
            "terminal login offered": {36},
            "login: wrong code": ({40}, {33}),
            "login: none is offered": {33},
            "login: without effect": ({41}, {33}),
            "any login accepted": {43},
            "relative cwd accepted": {46},
            "own cwd": {48},
            "type demanded": {50},
            "null servers refused": {51},
            "malformed server ignored": {51},
            "roots restored": {54},
            "nothing replayed": {56},
            "replay after the response": {56},
            "replay of another session": ({57}, {169}),
            "unknown session loaded": {58},
            "resume replays": {60},
            "close cancels nothing": {62},
            "closed session stays open": ({63}, {154}),
            "unknown session prompted": {63},
            "no empty list": ({66}, {161}),
            "filter by prefix": {67},
            "any cursor accepted": {69},
            "delete of an unknown session fails": {72},
            "deleted session listed": {73},
            "unknown stop reason": {75},
            "late update": ({76}, {78}),
            "cancelled turn fails": ({77}, {62, 84, 153}),
            "wrong reason after cancel": ({77}, {62, 153}),
            "late update after cancel": ({78}, {76}),
            "idle cancel kept": {82},
            "cancel ends all sessions": {83},
            "cancelled request unanswered": ({84}, {62, 77, 83, 153, 172}),
            "dies of unknown cancels": ({85}, {84, 87}),
            "cancels own requests": {87},
            "cancel ignored": ({77}, {83, 172}),
            "approved tool unfinished": {93},
            "runs rejected tools": {99},
            "reads without capability": {100},
            "terminal without capability": {105},
            "terminal not released": {112},
            "any mode accepted": {115},
            "only the changed option": {119},
            "any option accepted": {120},
            "boolean without capability": {122},
            "notice without capability": {124},
            "notices replayed": {126},
            "elicitation without capability": {127},
            "fails after decline": {133},
            "archive cancels nothing": {153},
            "status opens the session": {154},
            "system prompt ignored": {155},
            "needs capabilities": {156},
            "mode fixed while running": {159},
            "second initialize accepted": {168},
            "update before the session": {170},
            "exits in a turn": {166},
            "second prompt lost": {172},
            "null ids ignored": {176},
            "dies of large lines": {180},
            "drops for a slow reader": {182},
            "advertises too much": {188},
            "blocked by a turn": ({22}, {83, 84, 87}),
        },
    ),
    *_table(
        2,
        {
            "older version chosen": ({26}, {18, 157, 162, 163}),
            "version too high": ({137}, {18, 157, 162, 163}),
            "version 0 accepted": {137},
            "login without methods": {139},
            "logout is missing": {139},
            "list is missing": {140},
            "no message id": ({141}, {161}),
            "other message id": {141},
            "no running state": {142},
            "never idle": ({142}, {17, 48, 82, 87, 99, 127, 133, 149}),
            "wrong reason after cancel": ({143}, {62, 144, 153}),
            "answers close too early": {144},
            "no state on resume": {145},
            "resume replays": {146},
            "unknown position accepted": {146},
            "malformed blocks accepted": {148},
            "unknown outcome allows": {149},
            "close of an unknown session fails": {152},
            "permission not withdrawn": {179},
        },
    ),
)
"""Every fault of the agent in memory, with the rules that find it."""

PROCESS_MUTATIONS = _table(
    1,
    {
        "newlines inside messages": ({3}, {1, 4}),
        "prints to stdout": ({4}, {1}),
        "a read is a message": {181},
        "survives the end of its stdin": {183},
        "leaves processes": {184},
    },
)
"""Every fault that only a process can have."""

HABITS = (
    AgentMutation("notifications without structure refused", frozenset()),
    AgentMutation("notifications without structure refused", frozenset(), 2),
    AgentMutation("turn fails with its form", frozenset()),
    AgentMutation("turn fails with its form", frozenset(), 2),
    AgentMutation("declined addresses are completed", frozenset()),
    AgentMutation("whole messages repeat chunks", frozenset(), 2),
    AgentMutation("late ready state", frozenset(), 2),
    AgentMutation("only version 1", frozenset(), 2),
)
"""Differences between agents that no rule forbids, each found in an agent that a check once blamed for it."""
