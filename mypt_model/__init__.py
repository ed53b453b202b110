"""The model that is trained and run: a Llama in plain PyTorch, and the folders that hold one. Needs torch, and nothing else of the project."""
