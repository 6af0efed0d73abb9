"""Working memory that is used again."""

import torch

from xdops.engine.workspace import SMALL, Workspace


def test_memory_is_used_again_once_nobody_holds_it() -> None:
    space, like = Workspace(), torch.empty(0)
    first, second = space.empty((SMALL + 20,), like), space.empty((SMALL + 20,), like)
    place = first.data_ptr()
    assert second.data_ptr() != place
    del first
    assert space.empty((2, SMALL // 2), like).data_ptr() == place
