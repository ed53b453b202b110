"""Runs the whole job with models that people use, which packages of PyPI hold.

Neither the models nor the data are part of this repository.
"""
