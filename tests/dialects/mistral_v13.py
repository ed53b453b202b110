"""Legal records of mistral-v13."""

from __future__ import annotations

from dataclasses import replace

from tests.dialects import mistral

NAME = "mistral-v13"
SHAPE = replace(mistral.SHAPE, name=NAME, thoughts=("reasoning_content",))
record = SHAPE.record
