"""Makes up episodes for each phase of a dialect: deterministic, in English and German, none twice.

The package exists so that a small model can be trained, and the whole pipeline tried, without any
data from elsewhere. `mypt-synth` is its command.
"""

from mypt_train.curriculum.generate import CURRICULA, SPLITS, CurriculumError, episodes, split_of

__all__ = ["CURRICULA", "SPLITS", "CurriculumError", "episodes", "split_of"]
