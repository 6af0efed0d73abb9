"""Merging butterfly factors into dense blocks by recursive doubling: O(n^2) for a whole matrix, not O(n^2 log n).

Consecutive factors of radices r_a ... r_b act, at every (block, offset), as one dense R x R matrix with R = r_a ... r_b. The
blocks grow factor by factor: a block of size rP is r x r blocks of size P, each a product of one entry and one row or column.
"""

from collections.abc import Sequence

from torch import Tensor


def merge_factors(factors: Sequence[Tensor], increasing: bool, columns: int | None = None) -> Tensor:
    """Consecutive factors (blocks_j, stride_j, r_j, r_j) -> (blocks, stride, R, R), or only the first `columns` of R.

    `factors` are in order of stride whatever the direction; the direction says which is applied first.
    """
    blocks, stride = factors[-1].shape[0], factors[0].shape[1]
    radices = [factor.shape[-1] for factor in factors]
    digits, kept = _reach(radices, increasing, columns)
    merged, done = None, 1
    for factor, r, digit, keep in zip(factors, radices, digits, kept, strict=True):
        upper = factor.shape[0] // blocks
        t = factor.reshape(blocks, upper, done, stride, r, r)[:, :keep, ..., :digit]  # (b, u, o, s, i, l)
        if merged is None:
            merged = t[:, :, 0]  # (b, u, s, i, l)
        elif increasing:  # new[(i,o),(l,c)] = t[o,i,l] old_l[o,c]
            width = merged.shape[-1]
            old = merged.reshape(blocks, keep, digit, stride, 1, done, width)  # (b, u, l, s, 1, o, c)
            new = t.permute(0, 1, 3, 4, 2, 5)[..., None] * old.permute(0, 1, 3, 4, 5, 2, 6)
            merged = new.reshape(blocks, keep, stride, r * done, digit * width)
        else:  # new[(i,o),(l,c)] = old_i[o,c] t[c,i,l]
            width = merged.shape[-1]
            old = merged.reshape(blocks, keep, r, stride, done, 1, width)  # (b, u, i, s, o, 1, c)
            new = old.transpose(2, 3) * t[:, :, :width].permute(0, 1, 3, 4, 5, 2)[:, :, :, :, None]
            merged = new.reshape(blocks, keep, stride, r * done, digit * width)
        done *= r
    assert merged is not None
    return merged[:, 0, ..., :columns]


def _reach(radices: Sequence[int], increasing: bool, columns: int | None) -> tuple[list[int], list[int]]:
    """For every factor: how many of its input digits, and of its blocks, can reach the wanted columns."""
    sizes = [1]
    for r in radices:
        sizes.append(sizes[-1] * r)
    columns = sizes[-1] if columns is None else columns
    digits = [min(r, -(-columns // size)) for r, size in zip(radices, sizes, strict=False)]
    kept = [1]
    for r, digit in zip(reversed(radices[1:]), reversed(digits[1:]), strict=True):
        whole = not increasing or kept[0] > 1
        kept.insert(0, kept[0] * (r if whole else digit))
        if whole and increasing:
            digits[len(radices) - len(kept) + 1] = r
    return digits, kept
