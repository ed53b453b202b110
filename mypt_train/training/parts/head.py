"""Computes the loss and its gradients at the head, a piece of the logits at a time.

Input: hidden states, the weights of the head and targets. Output: the summed negative
log-likelihood. With a vocabulary of 50,304 the logits are by far the largest tensor of a small
model. Here one buffer holds a piece of them, and each piece becomes its own gradient in place.
"""

from typing import Any

import torch
from torch import Tensor

# The number of logits in the buffer.
_PIECE = 1 << 22


def _run(
    hidden: Tensor, weight: Tensor, targets: Tensor, slopes: Tensor | float | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Returns losses, whether targets are likeliest, and the gradients of the sum with `slopes`.

    The gradients are by hidden states and by weights. `slopes` weigh losses, (m,) or one for all.
    """
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    by_hidden = torch.empty_like(hidden) if slopes is not None else None
    by_weight = torch.zeros_like(weight, dtype=torch.float32) if slopes is not None else None
    losses = torch.empty(len(targets), dtype=torch.float32, device=hidden.device)
    right = torch.empty(len(targets), dtype=torch.bool, device=hidden.device)
    narrow = weight.to(dtype)
    size = max(16, _PIECE // len(weight))
    buffer = torch.empty(min(size, len(targets)), len(weight), dtype=dtype, device=hidden.device)
    with torch.autocast(kind, enabled=False):
        for begin in range(0, len(targets), size):
            piece = slice(begin, begin + size)
            h, target = hidden[piece].to(dtype), targets[piece, None]
            logits = torch.mm(h, narrow.T, out=buffer[: len(h)]).float()
            top, target_logits = logits.amax(dim=-1), logits.gather(1, target)[:, 0]
            torch.softmax(logits, dim=-1, out=logits)
            # The largest probability is 1 / sum(exp(logits - top)).
            losses[piece] = top - target_logits - logits.amax(dim=-1).log()
            right[piece] = target_logits >= top
            if by_hidden is None or by_weight is None:
                continue
            logits.scatter_add_(1, target, logits.new_full(target.shape, -1.0))
            if isinstance(slopes, Tensor):
                logits *= slopes[piece, None]
            slope = logits.to(dtype)
            by_hidden[piece] = slope @ narrow
            if dtype == torch.float32:
                by_weight.addmm_(slope.T, h)
            else:
                by_weight += slope.T @ h
    return losses, right, by_hidden, by_weight


class _Sum(torch.autograd.Function):
    """The weighted sum of all losses: gradients are computed with the logits."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        learns = hidden.requires_grad or weight.requires_grad
        slopes: Tensor | float = 1.0 if weights is None else weights
        losses, right, by_hidden, by_weight = _run(
            hidden, weight, targets, slopes if learns else None
        )
        if by_hidden is not None and by_weight is not None:
            ctx.save_for_backward(by_hidden, by_weight.to(weight.dtype))
        ctx.mark_non_differentiable(losses, right)
        return (losses if weights is None else losses * weights).sum(), losses, right

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None, None]:
        by_hidden, by_weight = ctx.saved_tensors
        return by_hidden * slopes[0], by_weight * slopes[0], None, None


class _Each(torch.autograd.Function):
    """Each loss: the logits are computed again when the slopes are known."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight, targets)
        kind = hidden.device.type
        ctx.cast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        return _run(hidden, weight, targets, None)[0]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        hidden, weight, targets = ctx.saved_tensors
        with torch.autocast(hidden.device.type, dtype=ctx.cast, enabled=ctx.cast is not None):
            _, _, by_hidden, by_weight = _run(hidden, weight, targets, slopes[0])
        return by_hidden, None if by_weight is None else by_weight.to(weight.dtype), None


def chunked_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (sum, losses, right): the summed negative log-likelihood of the targets, and more.

    `sum` is float32, (); `losses` float32, (m,); `right` bool, (m,), whether a target is the
    likeliest id. `hidden`: (m, hidden), the states before the targets; `targets`: int64, (m,);
    `weight`: (vocabulary, hidden). `weights`, float32, (m,), multiply the losses in the sum. Only
    the sum has gradients.
    """
    result: tuple[Tensor, Tensor, Tensor] = _Sum.apply(hidden, weight, targets, weights)  # type: ignore[no-untyped-call]
    return result


def chunked_cross_entropy_each(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Returns the negative log-likelihood of each target, float32, (m,), with gradients.

    The logits are computed twice. Arguments as for `loss`.
    """
    losses: Tensor = _Each.apply(hidden, weight, targets)  # type: ignore[no-untyped-call]
    return losses
