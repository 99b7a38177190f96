"""Random numbers: one stream for each purpose, by name, all from one seed."""

from hashlib import sha256

from numpy.random import PCG64, Generator, SeedSequence

WORD_BYTES = 16


def stream(seed: int, name: str) -> Generator:
    """The random numbers of one purpose ("arrivals").

    A child of the seed whose key is a digest of its name: neither what other streams draw, nor which others there are,
    nor the order in which they are asked for moves it.
    """
    key = int.from_bytes(sha256(name.encode()).digest()[:WORD_BYTES], "big")
    return Generator(PCG64(SeedSequence(seed, spawn_key=(key,))))
