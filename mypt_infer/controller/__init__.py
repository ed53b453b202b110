"""The agent loop: model -> call -> result -> answer, on one list of token ids.

See ARCHITECTURE.md, "At run time".
"""

from mypt_infer.controller.controller import Controller
from mypt_infer.controller.source import Script, ScriptEnd, Source
from mypt_infer.controller.transcript import TranscriptError, replay, save
from mypt_infer.controller.turn import ContextError, Options

__all__ = [
    "ContextError",
    "Controller",
    "Options",
    "Script",
    "ScriptEnd",
    "Source",
    "TranscriptError",
    "replay",
    "save",
]
