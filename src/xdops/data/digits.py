"""The demonstration: handwritten digits whose rows and columns are in an unknown order.

Real data that needs no download: the 1797 digits of 8 x 8 pixels that come with scikit-learn. One permutation of the eight rows and
one of the eight columns are drawn and applied to every image, as in the paper's permuted CIFAR-10: sensors whose wiring nobody
wrote down. Convolutions, which rely on neighbours, are then the wrong operation, and the right one, an inverse permutation
followed by a convolution, lies in the XD space at depth 3.

The README shows what `xdops search` prints for them; `xdops search digits` takes them as they are. Rounding (the number of threads)
and the choice between epochs that are equal on validation move accuracies by a point. The backbone is small on purpose: a deeper
one (--backbone residual) sees all 64 pixels from everywhere, and hardly minds their order.
"""

import numpy as np

from xdops.data.own import DataSettings, task_from_arrays
from xdops.data.task import Task

ORDER_SEED = 0
#: Half of the digits are for testing, so that differences of a percent mean something.
SPLIT = (0.4, 0.1, 0.5)


def digit_images(permuted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 8, 8) and labels (1797,)."""
    from sklearn.datasets import load_digits  # slow to load, and needed for the digits alone

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.float32)
    if permuted:
        rng = np.random.default_rng(ORDER_SEED)
        rows, columns = rng.permutation(8), rng.permutation(8)
        images = images[:, rows][:, :, columns]
    return images, labels


def digits_task(permuted: bool = True) -> Task:
    name = "digits with permuted rows and columns" if permuted else "digits"
    return task_from_arrays({"all": digit_images(permuted)}, name, DataSettings(layout="NHW", kind="classification", split=SPLIT))
