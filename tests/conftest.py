"""Hypothesis profiles: `HYPOTHESIS_PROFILE=deep` searches longer and at random; the default is repeatable."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("ci", max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW)
settings.register_profile("deep", max_examples=3000, deadline=None, suppress_health_check=_SLOW, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
