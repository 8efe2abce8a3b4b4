"""The faults of `faulty_client`, each with the rules that must find it."""

from __future__ import annotations

from typing import NamedTuple


class ClientFault(NamedTuple):
    """One fault.

    Attributes:
        rules: Numbers of the rules that fail because of it.
        also: Numbers of rules that may fail, too, because the fault cannot be had without breaking them.
        versions: Versions of the protocol in which the client can have it.
    """

    rules: frozenset[int]
    also: frozenset[int] = frozenset()
    versions: tuple[int, ...] = (1, 2)


def _fault(*rules: int, also: tuple[int, ...] = (), versions: tuple[int, ...] = (1, 2)) -> ClientFault:
    return ClientFault(frozenset(rules), frozenset(also), versions)


FAULTS: dict[str, ClientFault] = {
    # messages
    "newline-unescaped": _fault(3, also=(1, 5, 166)),
    "falsy-id-lost": _fault(7, also=(166,)),
    "notification-answered": _fault(9),
    "garbage-ignored": _fault(10),
    "garbage-fatal": _fault(10, also=(166,)),
    "empty-object-ignored": _fault(11),
    "batch-run": _fault(12),
    "unknown-method-accepted": _fault(13),
    "unknown-notification-fatal": _fault(14, also=(166,)),
    "params-unchecked": _fault(15),
    "stray-response-fatal": _fault(16, also=(166,)),
    "unknown-code-hangs": _fault(17, also=(166,)),
    "fields-checked": _fault(20),
    "meta-checked": _fault(21),
    "serial": _fault(22, also=(166,)),
    # sessions and turns
    "any-version": _fault(28),
    "terminal-method-sent": _fault(37),
    "login-without-env": _fault(38),
    "login-not-followed": _fault(38),
    "login-lost-hangs": _fault(42, also=(166,)),
    "close-unadvertised": _fault(61, versions=(1,)),
    "close-must-succeed": _fault(64),
    "permission-left-open": _fault(79, also=(166,), versions=(1,)),
    "permission-after-cancel": _fault(79, versions=(1,)),
    "leaves-after-cancel": _fault(80, also=(166,)),
    "cancelled-request-forgotten": _fault(84, also=(166,)),
    "unknown-cancel-answered": _fault(85),
    "cancels-own-prompt": _fault(87),
    "option-invented": _fault(98),
    "settings-closed": _fault(123, also=(166,)),
    "login-anyway": _fault(139, versions=(2,)),
    "any-state-is-idle": _fault(147, also=(166,), versions=(2,)),
    "subject-unchecked": _fault(148, versions=(2,)),
    "unknown-subject-refused": _fault(148, versions=(2,)),
    "needs-capabilities": _fault(156),
    # services
    "write-needs-file": _fault(101, versions=(1,)),
    "lines-from-zero": _fault(102, versions=(1,)),
    "missing-file-empty": _fault(104, versions=(1,)),
    "create-waits": _fault(106, also=(166, 188), versions=(1,)),
    "cut-in-character": _fault(107, versions=(1,)),
    "exit-status-early": _fault(108, versions=(1,)),
    "exit-status-missing": _fault(108, versions=(1,)),
    "exit-code-and-signal": _fault(109, versions=(1,)),
    "kill-releases": _fault(110, also=(111,), versions=(1,)),
    "release-keeps-id": _fault(111, versions=(1,)),
    "release-keeps-process": _fault(111, versions=(1,)),
    "mode-unchecked": _fault(128),
    "unknown-elicitation-answered": _fault(132),
    "form-empty": _fault(134),
    "form-of-text": _fault(134),
    "method-missing": _fault(188),
    # lines
    "short-lines": _fault(180, also=(166,)),
    "decodes-reads": _fault(181, also=(166,)),
    "drops-output": _fault(182),
}
"""The faults by name."""
