"""Makes the output of a command fit to be shown: colours stay, whatever would act on the terminal goes."""

from __future__ import annotations

import re

__all__ = ["harmless"]

# Each alternative is a whole sequence of ECMA-48, in its 7-bit and 8-bit form. One that has no end loses only the
# character that would start it, so that nothing can hide what follows.
SEQUENCE = re.compile(
    r"""
    (?P<colour> \x1b\[ [0-9;:]*+ m )                       # how text looks
    | (?: \x1b\[ | \x9b ) [0-?]*+ [ -/]*+ [@-~]            # cursor, screen, modes, device queries
    | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] )              # title, clipboard, links, pictures
      [^\x07\x1b\x90-\x9f]*+ (?: \x07 | \x1b\\ | \x9c )
    | \x1b [ -/]*+ [0-OQ-WYZ\\`-~]                         # character sets, reset, keypad
    | (?P<line_end> \r\n? )
    | [\x00-\x08\x0b-\x1f\x7f-\x9f]                       # single control codes
    | [\u202a-\u202e\u2066-\u2069]                         # text read in another order
    """,
    re.VERBOSE,
)


def harmless(text: str) -> str:
    """The text with its colours, and without titles, clipboard, links, queries and moves of the cursor.

    A carriage return starts a new line instead of overwriting the one before.
    """
    return SEQUENCE.sub(_keep, text)


def _keep(found: re.Match[str]) -> str:
    return found["colour"] or ("\n" if found["line_end"] else "")
