"""Seeds by hashing, never seed + i since neighbouring seeds share samples; and the random numbers of every sample.

A sample's random numbers depend only on its run, its problem and its index, so it is the same sample whatever is drawn
beside it, before it or after it.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

SPLITMIX_INCREMENT = (
    0x9E3779B97F4A7C15  # of SplitMix64 (Steele, Lea, Flood 2014): from a number of a sample to its next
)
SAMPLE_STRIDE = 0xD1342543DE82EF95  # from a sample to its neighbour (a multiplier of Steele and Vigna 2021)


def seed_of(*parts: object) -> int:
    """A seed of 64 bits, a hash of what it belongs to. Parts are joined by a separator that names do not contain."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def chunk_seed(seed: int, first: int, size: int) -> int:
    """The seed of a chunk, for a backend that draws a chunk at a time: 63 bits, since servers read signed numbers."""
    return seed_of(seed, "chunk", first, size) >> 1


def sample_seeds(seed: int, first: int, size: int) -> NDArray[np.uint64]:
    """The seeds of the samples of a chunk, for a backend that draws each from numbers of its own.

    A sample's seed depends on its index, not on the chunk:

    >>> sample_seeds(7, first=0, size=5)[3:].tolist() == sample_seeds(7, first=3, size=2).tolist()
    True
    """
    index = np.arange(first, first + size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return _splitmix(_splitmix(np.full(size, seed, np.uint64)) + (index + np.uint64(1)) * np.uint64(SAMPLE_STRIDE))


def uniform(seed_N: NDArray[np.uint64], position: int) -> NDArray[np.float64]:
    """The number in [0, 1) by which each of N samples chooses its token at a position: SplitMix64, 53 bits.

    Counter-based: the number of any position is computed directly, so a sample that is resumed, merged or read again
    needs no generator state.
    """
    step = np.uint64(((position + 1) * SPLITMIX_INCREMENT) % 2**64)
    with np.errstate(over="ignore"):
        return (_splitmix(seed_N + step) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _splitmix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit of the input changes every bit of the output."""
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
