"""The capacity ledger: from memory and a model to the blocks of a pool, with every step of the arithmetic."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one token's KV: keys and values, ``bytes`` each, for every head of every layer."""

    layers: int
    kv_heads: int
    head_size: int
    bytes: int = 2

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_size * self.bytes


MODELS: Mapping[str, int] = MappingProxyType(
    {
        "llama-2-7b": Shape(32, 32, 128).kv_bytes_per_token,
        "llama-2-13b": Shape(40, 40, 128).kv_bytes_per_token,
        "llama-2-70b": Shape(80, 8, 128).kv_bytes_per_token,
        "llama-3-8b": Shape(32, 8, 128).kv_bytes_per_token,
        "llama-3-70b": Shape(80, 8, 128).kv_bytes_per_token,
        "mistral-7b": Shape(32, 8, 128).kv_bytes_per_token,
        "mixtral-8x7b": Shape(32, 8, 128).kv_bytes_per_token,
        "opt-13b": Shape(40, 40, 128).kv_bytes_per_token,
        "qwen2.5-7b": Shape(28, 4, 128).kv_bytes_per_token,
        "qwen2.5-72b": Shape(80, 8, 128).kv_bytes_per_token,
        # multi-head latent attention keeps one compressed vector (512) and one rotary key (64) a layer, no values
        "deepseek-v3": 61 * (512 + 64) * 2,
    }
)
"""Bytes of one token's KV at 2 bytes a value, from the models' published configurations."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """How many blocks fit into a memory."""

    memory_gib: Decimal
    kv_bytes_per_token: int
    block_tokens: int

    @property
    def memory_bytes(self) -> int:
        return int(Fraction(self.memory_gib) * GIB)

    @property
    def block_bytes(self) -> int:
        return self.kv_bytes_per_token * self.block_tokens

    @property
    def blocks(self) -> int:
        return self.memory_bytes // self.block_bytes

    def __str__(self) -> str:
        return (
            f"{self.memory_gib} GiB = {self.memory_bytes:,} B; one block of {self.block_tokens} tokens takes "
            f"{self.block_tokens} * {self.kv_bytes_per_token:,} = {self.block_bytes:,} B; {self.blocks:,} blocks fit"
        )
