"""Working memory: used again once nobody holds it, and no larger than it has to be."""

import torch

from xdops.engine.workspace import SMALL, Workspace

LIKE = torch.empty(0)


def _held(space: Workspace) -> list[int]:
    return sorted(b.tensor.numel() for alike in space.buffers.values() for b in alike)


def test_memory_is_used_again_once_nobody_holds_it() -> None:
    space = Workspace()
    first, second = space.empty((SMALL + 20,), LIKE), space.empty((SMALL + 20,), LIKE)
    place = first.data_ptr()
    assert second.data_ptr() != place
    del first
    assert space.empty((2, SMALL // 2), LIKE).data_ptr() == place


def test_buffers_are_an_eighth_larger_than_asked_for_at_most() -> None:
    for size in (SMALL + 1, 3 * SMALL // 2, 2 * SMALL - 1, 1_166_400):
        space = Workspace()
        space.empty((size,), LIKE)
        (held,) = _held(space)
        assert size <= held <= 1.125 * size


def test_a_free_buffer_that_is_too_small_makes_room_for_a_larger_one() -> None:
    space = Workspace()
    space.empty((SMALL + 1,), LIKE)
    large = space.empty((2 * SMALL - 1,), LIKE)
    assert len(_held(space)) == 1
    assert large.numel() == 2 * SMALL - 1
    del large
    space.empty((SMALL + 1,), LIKE)
    assert len(_held(space)) == 1
