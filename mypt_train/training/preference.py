"""Losses on preferences: DPO and ORPO on pairs of answers, KTO on answers with a label.

Each takes the log-likelihoods of whole answers (summed over their trained tokens), float32, (n,);
for pairs the chosen answer stands in front of the rejected one. Each gives a summed loss, to be
divided by the number of pairs or answers of the whole step.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def dpo(policy: Tensor, reference: Tensor, *, beta: float) -> Tensor:
    """Direct preference optimisation (arXiv:2305.18290): how much more than the reference the
    policy prefers the chosen answer.
    """
    gain = (policy - reference).view(-1, 2)
    return -F.logsigmoid(beta * (gain[:, 0] - gain[:, 1])).sum()


def orpo(policy: Tensor, lengths: Tensor, *, beta: float) -> Tensor:
    """Odds-ratio preference optimisation (arXiv:2403.07691): the chosen answer's mean loss, and the
    odds of both. No reference.

    `lengths`: trained tokens of each answer, (n,).
    """
    mean = (policy / lengths).view(-1, 2)
    odds = mean - torch.log(-torch.expm1(mean.clamp(max=-1e-6)))
    return (-mean[:, 0] - beta * F.logsigmoid(odds[:, 0] - odds[:, 1])).sum()


def kto(policy: Tensor, reference: Tensor, good: Tensor, drift: Tensor, *, beta: float) -> Tensor:
    """Kahneman-Tversky optimisation (arXiv:2402.01306), both labels weighing the same.

    `good`: bool, (n,); `drift`: how far the policy is from the reference, (), without gradient. It
    is estimated by the answers of the step themselves, 0 or more, not by answers to other
    questions.
    """
    gain = beta * (policy - reference - drift)
    return (1 - torch.sigmoid(torch.where(good, gain, -gain))).sum()


def by_answer(losses: Tensor, owner: Tensor, answers: int) -> Tensor:
    """The log-likelihood of each answer, from the losses of tokens, (m,), and the answers these
    belong to, int64, (m,).
    """
    return -torch.zeros(answers, dtype=losses.dtype, device=losses.device).index_add(
        0, owner, losses
    )
