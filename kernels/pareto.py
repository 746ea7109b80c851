"""Exact two-dimensional Pareto filter, per group, and the cheapest row of each group."""

import numpy as np

from kernels.jit import kernel


@kernel
def pareto_mask(order, group, x, y, n_groups):
    """Rows that no other row of their group dominates (both coordinates are minimised).

    Row i dominates j when x_i <= x_j and y_i <= y_j and one of the two is strict. `order` sorts the rows by x,
    ties by position; of rows equal in both coordinates the first stays. O(n) after the sort: in order of x a row
    is on the frontier exactly if its y is below every y seen in its group.
    """
    keep = np.zeros(order.shape[0], np.bool_)
    last = np.full(n_groups, -1, np.int64)
    for i in order:
        g = group[i]
        j = last[g]
        if j >= 0 and not y[i] < y[j]:
            continue
        if j >= 0 and x[j] == x[i]:
            keep[j] = False
        keep[i] = True
        last[g] = i
    return keep


@kernel
def cheapest_mask(group, cost, n_groups):
    """The cheapest row of each group; of equally cheap rows the first."""
    keep = np.zeros(group.shape[0], np.bool_)
    best = np.full(n_groups, -1, np.int64)
    for i in range(group.shape[0]):
        j = best[group[i]]
        if j < 0 or cost[i] < cost[j]:
            if j >= 0:
                keep[j] = False
            keep[i] = True
            best[group[i]] = i
    return keep
