"""Trains a model on prepared data. Needs torch.

Read `trainer` from top to bottom; it calls the others: `corpus` and `batches` (which rows a step
reads), `objective`, `head` and `attention` (the loss), `distributed` (several processes),
`checkpoint`, `storage` and `log`.
"""
