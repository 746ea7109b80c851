"""Speculative decoding: tokens per verify step and what drafting costs."""

import numpy as np

from kernels.jit import inlined


@inlined
def tokens_per_step(draft_tokens, acceptance):
    """Expected tokens committed per verify step: (1 - a^(k+1)) / (1 - a); 1 where nothing is drafted or accepted.

    Each draft token is accepted with chance a given that those before it were; the verify step adds one of its own.
    """
    if draft_tokens <= 0.0 or acceptance <= 0.0:
        return 1.0
    if acceptance >= 1.0:
        return draft_tokens + 1.0
    return (1.0 - acceptance ** (draft_tokens + 1.0)) / (1.0 - acceptance)


@inlined
def step_count_spread(tokens, draft_tokens, acceptance):
    """Full width of the steps that `tokens` tokens take, over their mean: chance decides how many each step yields.

    A sum of tokens / m renewals of mean m and variance v has steps of variance tokens v / m^3; a uniform
    distribution of that variance is sqrt(12) wide. 0 where every step yields the same.
    """
    if draft_tokens <= 0.0 or acceptance <= 0.0 or acceptance >= 1.0:
        return 0.0
    mean = tokens_per_step(draft_tokens, acceptance)
    square = 0.0
    for n in range(1, int(draft_tokens) + 1):
        square += n * n * acceptance ** (n - 1.0) * (1.0 - acceptance)
    square += (draft_tokens + 1.0) ** 2 * acceptance**draft_tokens
    return np.sqrt(12.0 * (square - mean * mean) / (mean * tokens))


@inlined
def draft_us(verify_us, draft_tokens, cost_factor):
    """Time to draft: factor x k x (verify step / (k + 1)), us."""
    return cost_factor * draft_tokens * verify_us / (draft_tokens + 1.0)
