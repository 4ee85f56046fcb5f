"""Arrays in a library of their own, where they are: PyTorch on a GPU, or NumPy, with which the same code is tried.

What the two libraries call by the same name is called so, through `xp`; the rest is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.rules.p_values import Floats

Array = Any  # of the library


class NumpyPlace:
    """Arrays of NumPy in memory."""

    name = "numpy"
    xp: Any = np

    def put(self, values: NDArray[Any]) -> Array:
        """An array of the library with the same values."""
        return np.asarray(values)

    def host(self, values: Array) -> Any:
        """The same as an array of NumPy in memory."""
        return np.asarray(values)

    def cast(self, values: Array, kind: str) -> Array:
        """In another type, by its name."""
        return values.astype(kind)

    def empty(self, shape: tuple[int, ...], kind: str = "float64") -> Array:
        """Room for values of a type."""
        return np.empty(shape, dtype=kind)

    def whole_products(self, one: Array, other: Array) -> Array:
        """Products of matrices of small whole numbers, exactly."""
        return one.astype(np.int32) @ other.astype(np.int32)

    def looked_up(self, table: Array, bytes_: Array) -> Array:
        """The entry of every byte in a table of 256."""
        return table[bytes_]

    def lengths(self, rows: Array) -> Array:
        """‖x‖ of every row, in float64."""
        return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

    def ends(self, rows: Array) -> tuple[Array, Array]:
        """Least and largest value of every row."""
        return rows.min(axis=1), rows.max(axis=1)

    def rough_moments(self, rows: Array) -> tuple[Array, Array]:
        """Mean and variance of every row, in the precision of its values or in float32, whichever is more."""
        values = rows.astype(np.result_type(rows.dtype, np.float32), copy=False)
        return values.mean(axis=1), values.var(axis=1)

    def room(self) -> int:
        """Bytes that may be used for a while."""
        return 2**28

    def cholesky_solve(self, lower: Array, right: Array) -> Array:
        """(LLᵀ)⁻¹ times columns."""
        from scipy.linalg import cho_solve

        return cho_solve((lower, True), right, check_finite=False)

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """While float32 is multiplied as such."""
        yield


class TorchPlace:
    """Tensors of PyTorch on a device."""

    def __init__(self, device: str) -> None:
        import torch

        self.xp: Any = torch
        self.device = torch.device(device)
        self.name = str(self.device)

    def put(self, values: Any) -> Array:
        """A tensor on the device with the same values."""
        torch = self.xp
        if isinstance(values, torch.Tensor):
            return values.to(self.device)
        values = np.asarray(values)
        return torch.as_tensor(values if values.flags.writeable else values.copy(), device=self.device)

    def host(self, values: Array) -> Any:
        """The same as an array of NumPy in memory."""
        return values.detach().cpu().numpy()

    def cast(self, values: Array, kind: str) -> Array:
        """In another type, by its name."""
        return values.to(getattr(self.xp, kind))

    def empty(self, shape: tuple[int, ...], kind: str = "float64") -> Array:
        """Room for values of a type."""
        return self.xp.empty(shape, dtype=getattr(self.xp, kind), device=self.device)

    def whole_products(self, one: Array, other: Array) -> Array:
        """Products of matrices of small whole numbers, exactly, by the units that were made for it."""
        return self.xp._int_mm(one, other)

    def looked_up(self, table: Array, bytes_: Array) -> Array:
        """The entry of every byte in a table of 256."""
        return self.xp.index_select(table, 0, bytes_.reshape(-1).to(self.xp.int32)).reshape(bytes_.shape)

    def ends(self, rows: Array) -> tuple[Array, Array]:
        """Least and largest value of every row, in one pass."""
        found = self.xp.aminmax(rows, dim=1)
        return found.min, found.max

    def rough_moments(self, rows: Array) -> tuple[Array, Array]:
        """Mean and variance of every row in one pass, in the precision of its values or in float32."""
        values = rows if rows.dtype in (self.xp.float32, self.xp.float64) else rows.to(self.xp.float32)
        variance, mean = self.xp.var_mean(values, 1, correction=0)
        return mean, variance

    def lengths(self, rows: Array) -> Array:
        """‖x‖ of every row, in float64."""
        return self.xp.linalg.vector_norm(rows, dim=1, dtype=self.xp.float64)

    def room(self) -> int:
        """Bytes that may be used for a while: a part of what is free, where the sizes of arrays still fit 32 bits."""
        if self.device.type != "cuda":
            return 2**28
        return int(min(self.xp.cuda.mem_get_info(self.device)[0] // 8, 2**32))

    def cholesky_solve(self, lower: Array, right: Array) -> Array:
        """(LLᵀ)⁻¹ times columns."""
        return self.xp.cholesky_solve(right, lower)

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """While float32 is multiplied as such, whatever the user has allowed elsewhere."""
        before = self.xp.get_float32_matmul_precision()
        self.xp.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            self.xp.set_float32_matmul_precision(before)


Place = NumpyPlace | TorchPlace


def place_of(device: str) -> Place:
    """Where arrays live, by the name of a device."""
    if device == "numpy":
        return NumpyPlace()
    try:
        import torch
    except ImportError as error:
        raise InvalidInput(f"device={device!r} needs PyTorch: pip install 'fbed[gpu]'") from error
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise InvalidInput(f"device={device!r} is unknown to PyTorch: expected 'cuda', 'cuda:1' or 'cpu'") from error
    if wanted.type == "cuda" and (not torch.cuda.is_available() or (wanted.index or 0) >= torch.cuda.device_count()):
        raise InvalidInput(
            f"device={device!r}: PyTorch finds {torch.cuda.device_count()} GPUs here; leave device out, or use 'cpu'"
        )
    if wanted.type not in ("cuda", "cpu"):
        raise InvalidInput(f"device={device!r}: float64 is needed, which 'cuda' and 'cpu' have")
    return TorchPlace(device)


def on_host(values: Array, place: Place) -> Floats:
    """As float64 in memory."""
    return np.asarray(place.host(values), dtype=np.float64)
