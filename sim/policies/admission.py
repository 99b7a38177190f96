"""Which requests can be served by no state of this system; they are rejected on arrival, with the arithmetic."""

from sim.engine.kv import blocks_for
from sim.policies.orders import makes_way
from sim.policies.presets import Axes, KvAxes, fills_up
from sim.request import Request


class NeverFits:
    """Answers why ``request`` can never be served, or None."""

    def __init__(self, axes: Axes, kv: KvAxes | None, *, crashes: bool = False) -> None:
        self._axes = axes
        self._kv = kv
        self._loses_memory = crashes or kv is not None or makes_way(axes)

    def __call__(self, request: Request) -> str | None:
        return self._length(request) or self._slots(request) or self._blocks(request) or self._budget(request)

    def _length(self, request: Request) -> str | None:
        longest = self._axes.max_model_tokens
        if longest and request.prompt_tokens >= longest:
            return f"prompt of {request.prompt_tokens} tokens, max_model_tokens is {longest}: no room for any output"
        return None

    def _slots(self, request: Request) -> str | None:
        slots = self._axes.max_running
        if slots is not None and request.samples > slots:
            return f"{request.samples} samples run at once, max_running is {slots}"
        return None

    def _blocks(self, request: Request) -> str | None:
        if self._kv is None:
            return None
        declares = self._kv.gate == "reserve" or self._kv.allocation == "contiguous"
        outputs = request.max_tokens if declares else request.output_tokens
        tokens = request.prompt_tokens + request.samples * (outputs - 1)
        blocks = blocks_for(self._kv.block_tokens, request.prompt_tokens, request.samples, tokens)
        if blocks <= self._kv.blocks:
            return None
        asked = f"{request.prompt_tokens} + {outputs} - 1" if request.samples == 1 else (
            f"{request.prompt_tokens} + {request.samples} * ({outputs} - 1)")  # fmt: skip
        return (f"needs {blocks} of {self._kv.blocks} blocks: {asked} = {tokens} tokens"
                f"{' as declared' if declares else ''}, {self._kv.block_tokens} a block")  # fmt: skip

    def _budget(self, request: Request) -> str | None:
        """A prefill that can't be cut has to fit; who may lose its memory may also have to prefill what it emitted."""
        budget = self._axes.limits.token_budget
        if budget is None:
            return None
        if request.samples > budget:
            return f"{request.samples} samples decode at once, token_budget is {budget}"
        whole_budget = fills_up(self._axes.composition)
        if self._axes.chunked_prefill and whole_budget:
            return None
        emitted = request.samples * (request.output_tokens - 1) if self._loses_memory else 0
        longest = request.prompt_tokens + emitted
        bound = self._axes.long_prefill_tokens if whole_budget else 0
        tokens = min(longest, bound) if bound else longest
        if tokens <= budget:
            return None
        why = "chunked_prefill is false" if whole_budget else f"composition {self._axes.composition} cuts no prefill"
        return f"a prefill of {longest} tokens in one job, token_budget is {budget} and {why}"
