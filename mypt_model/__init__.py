"""Defines the model that is trained and run: a Llama in plain PyTorch, and folders that hold it.

`mypt_train` and `mypt_infer` share this package, so what is trained is exactly what is run. The
package imports nothing else of the project. `shape` and `folder` start without torch.
"""
