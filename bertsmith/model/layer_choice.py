"""Choice of the layers that a smaller model keeps."""

import math
from typing import Literal, get_args

from bertsmith.errors import SettingError
from bertsmith.system.bounds import check_choice

LayerChoice = Literal["spread", "first", "last"]


def choose_layers(num_layers: int, num_kept: int, choice: LayerChoice = "spread") -> list[int]:
    """Choose `num_kept` of `num_layers` layers, numbered from 0.

    "spread" takes the first layer, the last, and layers between them at equal distances. For half
    of the layers this is DistilBERT's "one layer out of two" (Sanh et al. 2019, section 3), and six
    of twelve are the layers that its released code takes. Of two equally near layers the lower one
    is taken.

    >>> choose_layers(12, 6), choose_layers(6, 3), choose_layers(6, 2, "last")
    ([0, 2, 4, 7, 9, 11], [0, 2, 5], [4, 5])

    Raises:
        ConfigError: the choice is unknown, or `num_kept` is below 1 or above `num_layers`.
    """
    check_choice("choice", choice, get_args(LayerChoice))
    if not 1 <= num_kept <= num_layers:
        raise SettingError("num_layers", num_kept, f"1 to {num_layers} of the model's layers")
    if choice == "last":
        return list(range(num_layers - num_kept, num_layers))
    if choice == "first" or num_kept == 1:
        return list(range(num_kept))
    # `ceil(x - 0.5)` rounds to the nearest number, and halves down.
    return [math.ceil(i * (num_layers - 1) / (num_kept - 1) - 0.5) for i in range(num_kept)]
