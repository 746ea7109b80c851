"""Speculative decoding: tokens per verify step and what drafting costs."""

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
def draft_us(verify_us, draft_tokens, cost_factor):
    """Time to draft: factor x k x (verify step / (k + 1)), us."""
    return cost_factor * draft_tokens * verify_us / (draft_tokens + 1.0)
