"""Computes losses on preferences: DPO and ORPO on pairs of answers, KTO on answers with a label.

Input: the log-likelihoods of whole answers (summed over their trained tokens), float32, (n,); of a
pair, the chosen answer comes directly before the rejected one. Output: a summed loss, which the
caller divides by the number of pairs or answers of the whole step.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def dpo(policy: Tensor, reference: Tensor, *, beta: float) -> Tensor:
    """Returns the loss of direct preference optimisation (arXiv:2305.18290).

    It compares how much the policy and the reference prefer the chosen answers.
    """
    gain = (policy - reference).view(-1, 2)
    return -F.logsigmoid(beta * (gain[:, 0] - gain[:, 1])).sum()


def orpo(policy: Tensor, lengths: Tensor, *, beta: float) -> Tensor:
    """Returns the loss of odds-ratio preference optimisation (arXiv:2403.07691).

    It is the chosen answer's mean loss, and the odds of both answers; there is no reference.
    `lengths` are the trained tokens of each answer, (n,).
    """
    mean = (policy / lengths).view(-1, 2)
    odds = mean - torch.log(-torch.expm1(mean.clamp(max=-1e-6)))
    return (-mean[:, 0] - beta * F.logsigmoid(odds[:, 0] - odds[:, 1])).sum()


def kto(policy: Tensor, reference: Tensor, good: Tensor, drift: Tensor, *, beta: float) -> Tensor:
    """Returns the loss of Kahneman-Tversky optimisation (arXiv:2402.01306).

    Both labels weigh the same. `good`: bool, (n,). `drift`: how far the policy is from the
    reference, (), without gradient and not below 0; it is estimated from the answers of the step,
    not from answers to other questions.
    """
    gain = beta * (policy - reference - drift)
    return (1 - torch.sigmoid(torch.where(good, gain, -gain))).sum()
