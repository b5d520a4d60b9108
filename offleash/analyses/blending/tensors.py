"""Tensors in safetensors files: where they are stored, read and interpolated in slices, written as a stream.

A file is the length of its header, the header (JSON: dtype, shape and offsets of every tensor) and the bytes of the
tensors one after the other. Files are read by plain reads: the pages of a mapped file count as memory of the process,
and containers are killed for them. Needs NumPy and no torch; bfloat16, which NumPy lacks, is the upper half of a
float32.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offleash.errors import OffleashError

# bytes per number, by the names of the safetensors format
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
BUFFERS = {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}
ITEM_BYTES = FLOATS | BUFFERS
MAX_SLICE_ELEMENTS = 1 << 18  # in memory at once: they fit in a cache, three times as fast as 1 << 22
BEGINNING_BYTES = 1 << 12
HASH_BYTES = 32  # of a file's BLAKE2b hash
MAX_HEADER_BYTES = 100_000_000  # as in the reference implementation
INDEX = "model.safetensors.index.json"

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file."""

    name: str
    dtype: str  # F32, BF16, I64, ...: the format's names
    shape: tuple[int, ...]
    file: Path
    start: int  # of its bytes in the file

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)

    def slices(self) -> Iterator[memoryview]:
        """Its bytes, a slice after the other; each is valid until the next is read."""
        size = self.numbers * ITEM_BYTES[self.dtype]
        buffer = memoryview(bytearray(min(size, MAX_SLICE_ELEMENTS * ITEM_BYTES[self.dtype])))
        with self.file.open("rb", buffering=0) as stream:
            stream.seek(self.start)
            while size:
                part = buffer[: min(size, len(buffer))]
                filled = 0
                while filled < len(part):
                    got = stream.readinto(part[filled:])
                    if not got:
                        raise OffleashError(f"{self.file} became shorter while it was read. Run the command again.")
                    filled += got
                size -= len(part)
                yield part

    def beginning(self) -> bytes:
        """Its first bytes."""
        with self.file.open("rb") as stream:
            stream.seek(self.start)
            return stream.read(min(BEGINNING_BYTES, self.numbers * ITEM_BYTES.get(self.dtype, 1)))


@dataclass(frozen=True)
class OutputTensor:
    """A tensor to write; its bytes are made slice by slice, when they are written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    slices: Callable[[], Iterator[bytes | memoryview]]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


def tensors_of_file(file: Path) -> dict[str, StoredTensor]:
    """The tensors of one safetensors file by name, from its header; a damaged file is refused."""
    total = file.stat().st_size
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > min(total - 8, MAX_HEADER_BYTES):
                raise ValueError("its header is longer than the file" if length > total - 8 else "its header is huge")
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        return {name: _stored(name, entry, file, 8 + length, total) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OffleashError(f"{file} is not a whole safetensors file ({error}). Download or save it again.") from None


def _stored(name: str, entry: Mapping[str, Any], file: Path, data: int, total: int) -> StoredTensor:
    dtype, shape, (start, end) = str(entry["dtype"]), tuple(map(int, entry["shape"])), map(int, entry["data_offsets"])
    if not 0 <= start <= end <= total - data:
        raise ValueError(f"{name} ends beyond the file")
    if dtype in ITEM_BYTES and end - start != math.prod(shape) * ITEM_BYTES[dtype]:
        raise ValueError(f"{name} has {end - start:,} bytes, which is not its shape")
    return StoredTensor(name, dtype, shape, file, data + start)


def tensors_of_model(folder: Path) -> dict[str, StoredTensor]:
    """The tensors of a model folder, of one file or of the shards that its index lists."""
    index = folder / INDEX
    if not index.is_file():
        file = folder / "model.safetensors"
        if not file.is_file():
            raise OffleashError(f"{folder} has neither model.safetensors nor {INDEX}. Name a folder with a model.")
        return tensors_of_file(file)
    try:
        places = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        names = {str(name): Path(str(shard)).name for name, shard in places.items()}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise OffleashError(f"{index} cannot be read ({error}). Download or save the model again.") from None
    stored: dict[str, StoredTensor] = {}
    for shard in sorted(set(names.values())):
        if not (folder / shard).is_file():
            raise OffleashError(f"{folder} lacks {shard}, which its index lists. Download or save the model again.")
        stored |= {name: tensor for name, tensor in tensors_of_file(folder / shard).items() if name in names}
    missing = sorted(names.keys() - stored.keys())
    if missing:
        raise OffleashError(f"{folder} lacks the tensor {missing[0]}, which its index lists. Download the model again.")
    return stored


def write_tensors(file: Path, tensors: Sequence[OutputTensor], on_bytes: Callable[[int], None]) -> str:
    """Write a safetensors file: the header first, then every tensor in slices. Returns the hash of the file."""
    # Larger numbers first, as the reference implementation writes them: every tensor then begins at a multiple of its
    # number's size, which readers that map the file rely on.
    ordered = sorted(tensors, key=lambda tensor: (-ITEM_BYTES[tensor.dtype], tensor.name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for tensor in ordered:
        end = start + tensor.size
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    digest = blake2b(digest_size=HASH_BYTES)
    with file.open("xb") as stream:
        head = len(text).to_bytes(8, "little") + text
        stream.write(head)
        digest.update(head)
        for tensor in ordered:
            written = 0
            for part in tensor.slices():
                stream.write(part)
                digest.update(part)
                written += len(part)
                on_bytes(len(part))
            assert written == tensor.size, tensor.name
        stream.flush()
        os.fsync(stream.fileno())
    return digest.hexdigest()


def wider(first: str, second: str) -> str:
    """The dtype that holds the numbers of both: float16 and bfloat16 both fit into float32 only.

    >>> wider("BF16", "F32"), wider("BF16", "F16"), wider("F16", "F16")
    ('F32', 'F32', 'F16')
    """
    if first == second:
        return first
    return "F64" if "F64" in (first, second) else "F32"


def interpolated(base: StoredTensor, rl: StoredTensor, weight: float) -> Iterator[bytes]:
    """The bytes of base + weight (rl - base), slice by slice, in the wider dtype of the two.

    Computed in float32 (float64 where that is stored) and rounded once. Numbers that are equal in both models stay as
    they are, infinities too, which a difference would turn into NaN.
    """
    dtype = wider(base.dtype, rl.dtype)
    kind: Any = np.float64 if dtype == "F64" else np.float32
    for before, after in zip(base.slices(), rl.slices(), strict=True):
        first, second = decode(before, base.dtype).astype(kind), decode(after, rl.dtype).astype(kind)
        with np.errstate(invalid="ignore", over="ignore"):
            mixed = first + kind(weight) * (second - first)
        np.copyto(mixed, first, where=first == second)
        data = encode(mixed, dtype)
        if (~np.isfinite(decode(data, dtype)) & np.isfinite(first) & np.isfinite(second)).any():
            raise OffleashError(
                f"{base.name} leaves the range of {dtype} at the weight {weight:g}. Choose a weight nearer to [0, 1]."
            )
        yield data


def scaled(tensor: StoredTensor, factor: float) -> Iterator[bytes]:
    """The bytes of factor x tensor, slice by slice, in its own dtype."""
    kind: Any = np.float64 if tensor.dtype == "F64" else np.float32
    for part in tensor.slices():
        yield encode(decode(part, tensor.dtype).astype(kind) * kind(factor), tensor.dtype)


def same_bytes(first: StoredTensor, second: StoredTensor) -> bool:
    """Whether two tensors hold the same numbers, bit for bit."""
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    return all(part == other for part, other in zip(first.slices(), second.slices(), strict=True))


def decode(data: bytes | memoryview, dtype: str) -> Floats:
    """Numbers from their stored bytes; 16-bit ones as float32."""
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype == "F16":
        return np.frombuffer(data, "<f2").astype(np.float32)
    return np.frombuffer(data, "<f8" if dtype == "F64" else "<f4")


def encode(numbers: Floats, dtype: str) -> bytes:
    """Stored bytes of numbers, rounded to the nearest, ties to even."""
    if dtype == "BF16":
        bits = numbers.astype(np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        rounded[np.isnan(numbers)] = 0x7FC0  # rounding could carry a NaN over into the sign
        return rounded.astype("<u2").tobytes()
    with np.errstate(over="ignore"):
        return numbers.astype({"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype]).tobytes()
