"""Recordings: every frame of a conversation in a file, secrets removed while it is written.

The meaning of frames does not belong here. The client side and programs import it.
"""

from __future__ import annotations

from duologue.recording.format import Entry, Header
from duologue.recording.reader import RecordingReader, read_recording
from duologue.recording.recorder import Recorder
from duologue.recording.redaction import Redactor, redact

__all__ = ["Entry", "Header", "Recorder", "RecordingReader", "Redactor", "read_recording", "redact"]
