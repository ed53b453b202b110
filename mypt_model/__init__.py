"""The model that is trained and run: a Llama in plain PyTorch, and the folders that hold one.

Needs nothing else of the project, and torch for all but `shape` and `folder`.
"""
