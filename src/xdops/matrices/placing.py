"""Which slots a column's copies take, so that one butterfly can bring them there.

A decreasing butterfly decides the digits of a slot from the highest down. Within a block, the columns that agree in their lower
digits form a class of at most r, and of each class at most one can enter each of the r sub-blocks; a sub-block of size s holds at
most s copies. A column may enter several sub-blocks and divide its copies among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xdops.matrices.radices import digit_reversal, strides_of
from xdops.matrices.routing import mirror


@dataclass(frozen=True)
class Copies:
    """A slot for every entry of an index, and the 0/1 factors of the butterfly that copies x[index[e]] to slots[e]."""

    slots: Tensor
    factors: list[Tensor]


def copies(index: Tensor, radices: Sequence[int], increasing: bool) -> Copies | None:
    """Copies of the columns `index`, one slot each, by a butterfly of this direction; None where no assignment was found."""
    if increasing:  # the mirror image, under digit reversal, of a decreasing one
        mirrored = tuple(reversed(radices))
        from_mirror = digit_reversal(mirrored)
        found = copies(torch.argsort(from_mirror)[index], mirrored, increasing=False)
        if found is None:
            return None
        return Copies(from_mirror[found.slots], [mirror(f, radices, j) for j, f in enumerate(reversed(found.factors))])
    for place in (_in_order, _balanced):
        slots = place(index, radices)
        factors = None if slots is None else _factors(index, slots, radices)
        if slots is not None and factors is not None:
            return Copies(slots, factors)
    return None


def _factors(index: Tensor, slots: Tensor, radices: Sequence[int]) -> list[Tensor] | None:
    """The butterfly that copies to these slots; None if two columns would meet on the way."""
    n = strides_of(radices)[-1] * radices[-1]
    factors = []
    for r, s in zip(radices, strides_of(radices), strict=True):
        # Before this factor a copy stands at block * rs + (c mod rs), after it at (slot div s) * s + c mod s.
        position = slots // s * s + index % s
        if len(torch.unique(position)) != len(torch.unique(position * n + index)):
            return None
        factor = torch.zeros(n // (r * s), s, r, r, dtype=torch.float64)
        factor[slots // (r * s), index % s, slots // s % r, index // s % r] = 1
        factors.append(factor)
    return factors


def _in_order(index: Tensor, radices: Sequence[int]) -> Tensor:
    """Slots in the order of columns. No two meet if slots advance at least as fast as columns, that is, if no column up to the
    last one in use is empty, or if there is room to give the empty ones a slot of their own."""
    n = strides_of(radices)[-1] * radices[-1]
    counts = torch.bincount(index, minlength=n)
    if len(index):
        padded = counts.clone()
        padded[: int(index.max()) + 1].clamp_(min=1)
        counts = padded if int(padded.sum()) <= n else counts
    begin = counts.cumsum(0) - counts
    order = torch.argsort(index, stable=True)
    ordered = index[order]
    slots = torch.empty_like(index)
    slots[order] = begin[ordered] + torch.arange(len(index)) - torch.searchsorted(ordered, ordered)
    return slots


def _balanced(index: Tensor, radices: Sequence[int]) -> Tensor | None:
    """Slots from the highest digit down, filling sub-blocks evenly; None where one would overflow."""
    entries: dict[int, list[int]] = {}
    for e, column in enumerate(index.tolist()):
        entries.setdefault(column, []).append(e)
    blocks = {0: entries}  # block -> {position inside it: the copies, as entries, that the column there still has to make}
    for r, s in zip(reversed(radices), reversed(strides_of(radices)), strict=True):
        inner: dict[int, dict[int, list[int]]] = {}
        for block, held in blocks.items():
            parts = _divide(held, r, s)
            if parts is None:
                return None
            inner.update((block * r + i, part) for i, part in enumerate(parts) if part)
        blocks = inner
    slots = torch.empty_like(index)
    for slot, held in blocks.items():
        (entry,) = held[0]
        slots[entry] = slot
    return slots


def _divide(held: dict[int, list[int]], r: int, s: int) -> list[dict[int, list[int]]] | None:
    """The copies in one block of size rs, divided among its r sub-blocks; the classes with the least freedom choose first."""
    classes: dict[int, list[list[int]]] = {}
    for position, copies_of_one in held.items():
        classes.setdefault(position % s, []).append(copies_of_one)
    room = [s] * r
    parts: list[dict[int, list[int]]] = [{} for _ in range(r)]
    for offset, members in sorted(classes.items(), key=lambda c: (-len(c[1]), -max(map(len, c[1])))):
        free = set(range(r))
        for column, pieces in _pieces(members, r):
            if pieces == 1 and len(members) < r:  # the fullest that will do, and leave the roomy ones to those that divide
                fitting = [i for i in free if room[i] >= len(column)]
                chosen = [min(fitting, key=lambda i: room[i]) if fitting else max(free, key=lambda i: room[i])]
            else:
                chosen = sorted(free, key=lambda i: -room[i])[:pieces]
            free -= set(chosen)
            for entry in column:
                i = max(chosen, key=lambda i: room[i])
                room[i] -= 1
                parts[i].setdefault(offset, []).append(entry)
    return parts if min(room) >= 0 else None


def _pieces(members: list[list[int]], r: int) -> list[tuple[list[int], int]]:
    """Columns of one class, each with how many of the r sub-blocks it may enter; undivided ones first, larger before smaller."""
    pieces = [1] * len(members)
    for _ in range(r - len(members)):
        largest = max(range(len(members)), key=lambda c: len(members[c]) / pieces[c])
        pieces[largest] += 1
    return sorted(zip(members, pieces, strict=True), key=lambda c: (c[1] > 1, -len(c[0])))
