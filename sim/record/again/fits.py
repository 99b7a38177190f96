"""Which requests can be served by no state of the system, once more; the reasons are part of a result."""

from sim.policies.presets import Axes, Choice, KvAxes
from sim.record.again.orders import gives_way
from sim.record.again.pool import blocks_of
from sim.record.again.server import Req


def reason_against(req: Req, choice: Choice, *, crashes: bool) -> str | None:
    """Why ``req`` is rejected on arrival, or None. ``crashes``: whether the device ever loses its memory."""
    axes, kv = choice
    longest, slots = axes.max_model_tokens, axes.max_running
    if longest and req.prompt >= longest:
        return f"prompt of {req.prompt} tokens, max_model_tokens is {longest}: no room for any output"
    if slots is not None and req.samples > slots:
        return f"{req.samples} samples run at once, max_running is {slots}"
    reason = None if kv is None else _too_large(req, kv)
    if reason is None and axes.has_budget and axes.token_budget is not None:
        reason = _never_in_one_job(req, axes, axes.token_budget, again=crashes or kv is not None or gives_way(axes))
    return reason


def _too_large(req: Req, kv: KvAxes) -> str | None:
    """It needs more blocks than there are: for what it emits, or for all that it declares where that is set aside."""
    declares = kv.gate == "reserve" or kv.allocation == "contiguous"
    outputs = req.declared if declares else req.output
    tokens = req.prompt + req.samples * (outputs - 1)
    blocks = blocks_of(kv.block_tokens, req.prompt, req.samples, tokens)
    if blocks <= kv.blocks:
        return None
    each = f"{outputs} - 1" if req.samples == 1 else f"{req.samples} * ({outputs} - 1)"
    declared = " as declared" if declares else ""
    return (
        f"needs {blocks} of {kv.blocks} blocks: {req.prompt} + {each} = {tokens} tokens{declared}, "
        f"{kv.block_tokens} a block"
    )


def _never_in_one_job(req: Req, axes: Axes, budget: int, *, again: bool) -> str | None:
    """Its samples decode in one job; and where no prefill is cut, so goes all that it may come to prefill.

    That is its prompt; and what it emitted, if it may have to prefill ``again``.
    """
    if req.samples > budget:
        return f"{req.samples} samples decode at once, token_budget is {budget}"
    fills_up = axes.composition.startswith("mixed")
    if fills_up and axes.chunked_prefill:
        return None
    longest = req.prompt + (req.samples * (req.output - 1) if again else 0)
    if min(longest, (axes.long_prefill_tokens if fills_up else 0) or longest) <= budget:
        return None
    why = "chunked_prefill is false" if fills_up else f"composition {axes.composition} cuts no prefill"
    return f"a prefill of {longest} tokens in one job, token_budget is {budget} and {why}"
