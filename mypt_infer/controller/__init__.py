"""Runs the agent loop, model, call, result, answer, on one list of token ids.

Input: a source of ids (a model under the decoder) and tools. Output: events, and a history of ids
that is legal after each turn. ARCHITECTURE.md describes the way of a user's message through the
package.
"""

from mypt_infer.controller.controller import BusyError, Controller
from mypt_infer.controller.options import Options
from mypt_infer.controller.read_transcript import TranscriptError, replay
from mypt_infer.controller.source import Script, ScriptEnd, Source
from mypt_infer.controller.transcript import save
from mypt_infer.controller.turn import ContextError

__all__ = [
    "BusyError",
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
