"""Episodes for the phases of a dialect, made up: deterministic, in two languages, as many as are
asked for, none twice.
"""

from mypt_train.curriculum.generate import CURRICULA, SPLITS, CurriculumError, episodes, split_of

__all__ = ["CURRICULA", "SPLITS", "CurriculumError", "episodes", "split_of"]
