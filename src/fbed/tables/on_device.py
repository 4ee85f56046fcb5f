"""Columns on a device: a tensor of PyTorch, an array of CuPy, or what was in memory and is moved there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput


@dataclass(frozen=True)
class OnDevice:
    """A matrix of numbers (rows × columns), or packed genotypes (columns × bytes), as an array of a device.

    `device` is its name; `numpy` stands for memory, where the same code runs on arrays of NumPy.
    """

    array: Any
    device: str
    n_rows: int
    packed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, int(self.array.shape[0 if self.packed else 1])

    @property
    def nbytes(self) -> int:
        """What they take."""
        return int(self.array.nbytes)

    def kernel(self) -> Any:
        """What reads them is in `matrix`."""
        raise NotImplementedError

    def column(self, j: int) -> NDArray[Any]:
        """One of them in memory."""
        if self.packed:
            raise InvalidInput("genotypes on a device are not read as numbers")
        values = self.array[:, int(j)]
        return np.asarray(values if self.device == "numpy" else values.cpu().numpy())

    def rows(self, keep: NDArray[np.intp]) -> OnDevice:
        """The same columns on some rows."""
        if self.packed:
            raise InvalidInput("rows of genotypes are left out before they are moved to a device")
        keep = keep if self.device == "numpy" else _like(self.array, keep)
        return OnDevice(self.array[keep], self.device, len(keep))


def _like(array: Any, keep: NDArray[np.intp]) -> Any:
    import torch

    return torch.as_tensor(keep, device=array.device)


def is_tensor(X: Any) -> bool:
    """Whether X is an array of PyTorch or CuPy that is not in memory."""
    kind = type(X).__module__.split(".")[0]
    return (kind == "torch" and getattr(getattr(X, "device", None), "type", "cpu") != "cpu") or kind == "cupy"


def as_stored(X: Any) -> OnDevice:
    """A tensor, or what CuPy holds as one, nothing copied."""
    try:
        import torch
    except ImportError as error:
        raise InvalidInput("arrays on a GPU are read by PyTorch: pip install 'fbed[gpu]'") from error
    tensor = X if isinstance(X, torch.Tensor) else torch.utils.dlpack.from_dlpack(X)
    if tensor.ndim != 2:
        raise InvalidInput(f"X must have two dimensions (rows, columns), got shape {tuple(tensor.shape)}")
    if tensor.is_complex() or not (tensor.is_floating_point() or tensor.dtype in _WHOLE(torch)):
        raise InvalidInput(f"X must hold real numbers, got {tensor.dtype}")
    return OnDevice(tensor.detach(), str(tensor.device), int(tensor.shape[0]))


def _WHOLE(torch: Any) -> tuple[Any, ...]:  # noqa: N802
    return (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)
