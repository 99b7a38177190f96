"""The linear device: a cost for every job, prefill token, decode batch, decoding request and token of context."""

from dataclasses import dataclass
from decimal import Decimal

from sim.clock import cost_fs, round_fs
from sim.costs.base import Work
from sim.costs.line import MOST_FS, MOST_GROWTH_FS, Line
from sim.scenario import Device


@dataclass(frozen=True, slots=True)
class LinearCost:
    """Coefficients in fs. The lesson's device is 0.25 ms a job, 1 ms a prefill token, 1 ms a decode batch."""

    job_fs: int
    prefill_fs_per_token: int
    decode_fs_per_batch: int
    decode_fs_per_request: int
    context_fs_per_token: int
    swap_fs_per_block: int = 0

    @classmethod
    def of(cls, device: Device, swap_ms_per_block: Decimal = Decimal(0)) -> "LinearCost":
        return cls(
            job_fs=cost_fs(device.job_ms),
            prefill_fs_per_token=cost_fs(device.prefill_ms_per_token),
            decode_fs_per_batch=cost_fs(device.decode_ms_per_batch),
            decode_fs_per_request=cost_fs(device.decode_ms_per_request),
            context_fs_per_token=cost_fs(device.context_ms_per_token),
            swap_fs_per_block=cost_fs(swap_ms_per_block),
        )

    @property
    def reads_context(self) -> bool:
        return self.context_fs_per_token > 0

    def job_ns(self, work: Work) -> int:
        return round_fs(self._job_fs(work))

    def line(self, work: Work) -> Line | None:
        first_fs, growth_fs = self._job_fs(work), self.context_fs_per_token * work.decode_requests
        return Line(first_fs, growth_fs) if first_fs <= MOST_FS and growth_fs <= MOST_GROWTH_FS else None

    def _job_fs(self, work: Work) -> int:
        fs = self.job_fs
        if work.decode_requests:
            fs += self.decode_fs_per_batch + self.decode_fs_per_request * work.decode_requests
            fs += self.context_fs_per_token * work.context_tokens
        if work.prefill_tokens:
            fs += self.prefill_fs_per_token * work.prefill_tokens
        if work.blocks:
            fs += self.swap_fs_per_block * work.blocks
        return fs
