"""Episodes for the five phases of MyPT, made up: deterministic, in two languages, as many as are asked for, none twice."""

from mypt_train.curriculum.generate import SPLITS, CurriculumError, episodes, split_of

__all__ = ["SPLITS", "CurriculumError", "episodes", "split_of"]
