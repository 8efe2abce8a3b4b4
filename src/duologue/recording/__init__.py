"""Recordings: every frame of a conversation in a file, secrets removed while it is written.

The meaning of frames does not belong here. The client side, relays and programs import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.recording.format import Entry as Entry
    from duologue.recording.format import Header as Header
    from duologue.recording.reader import RecordingReader as RecordingReader
    from duologue.recording.reader import read_recording as read_recording
    from duologue.recording.recorder import Recorder as Recorder
    from duologue.recording.redaction import Redactor as Redactor
    from duologue.recording.redaction import redact as redact
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.recording.format": "Entry Header",
            "duologue.recording.reader": "RecordingReader read_recording",
            "duologue.recording.recorder": "Recorder",
            "duologue.recording.redaction": "Redactor redact",
        },
    )
