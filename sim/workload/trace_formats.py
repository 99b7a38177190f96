"""The formats of traces: a row each, and a way to tell which one a file has."""

from sim.registry import Registry
from sim.workload.trace_layout import CONVERSATIONS, CSV, JSONL, PARQUET, Layout
from sim.workload.trace_values import ISO

AZURE = (
    "a CSV file of the Azure LLM inference trace, columns TIMESTAMP,ContextTokens,GeneratedTokens "
    "(AzurePublicDataset, files AzureLLMInferenceTrace_conv.csv and AzureLLMInferenceTrace_code.csv)"
)
LENGTHS = {"prompt_tokens": "input_length", "output_tokens": "output_length"}
BLOCKS = {"arrival": "timestamp", **LENGTHS, "hash_ids": "hash_ids"}
OWN = {"arrival": "arrival_ms", "prompt_tokens": "prompt_tokens", "output_tokens": "output_tokens", "id": "id",
       "max_tokens": "max_tokens", "priority": "priority", "tenant": "tenant", "deadline": "deadline_ms",
       "cancel": "cancel_ms", "samples": "samples", "prefix_group": "prefix_group", "prefix_tokens": "prefix_tokens",
       "parent": "parent", "parent_tokens": "parent_tokens", "hash_ids": "pieces"}  # fmt: skip
GENERIC = {"arrival": "arrival", "prompt_tokens": "prompt_tokens", "output_tokens": "output_tokens"}

FORMATS: Registry[Layout] = Registry(
    "trace format",
    {
        "azure": Layout(
            CSV, AZURE, {"arrival": "TIMESTAMP", "prompt_tokens": "ContextTokens", "output_tokens": "GeneratedTokens"},
            unit=ISO, marks=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
            headers=(("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
                     ("TIMESTAMP", "NumImages", "ContextTokens", "GeneratedTokens")),
        ),
        "burstgpt": Layout(
            CSV, "a CSV file of BurstGPT, with columns Timestamp, Request tokens and Response tokens among others",
            {"arrival": "Timestamp", "prompt_tokens": "Request tokens", "output_tokens": "Response tokens"},
            unit="s", zero_tokens="skip", marks=("Timestamp", "Request tokens", "Response tokens"),
            others=("Model", "Total tokens", "Log Type", "Session ID", "Elapsed time"),
        ),
        "mooncake": Layout(
            JSONL, "a JSON lines file of Mooncake, keys timestamp (ms), input_length, output_length, hash_ids",
            BLOCKS, unit="ms", block_tokens=512, marks=("timestamp", "input_length", "output_length", "hash_ids"),
        ),
        "bailian": Layout(
            JSONL, "a JSON lines file of Qwen-Bailian, keys chat_id, parent_chat_id, timestamp (s), input_length, …",
            {**BLOCKS, "id": "chat_id", "parent": "parent_chat_id"}, unit="s", block_tokens=16,
            marks=("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length"),
        ),
        "ragpulse": Layout(
            JSONL, "the file 0_trace.jsonl of RAGPulse, with its side files 1_sys_prompt.jsonl … beside it",
            BLOCKS, unit="s", marks=("timestamp", "input_length", "output_length", "session_id"),
        ),
        "vidur": Layout(
            CSV, "a CSV file for Vidur, columns arrived_at (s), num_prefill_tokens, num_decode_tokens",
            {"arrival": "arrived_at", "prompt_tokens": "num_prefill_tokens", "output_tokens": "num_decode_tokens"},
            unit="s", others=("num_total_tokens", "pd_ratio", ""),
            marks=("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
        ),
        "timed_trace": Layout(
            JSONL, "a JSON lines file of vLLM's timed_trace, keys timestamp (s), input_length, output_length, hash_ids",
            BLOCKS, unit="s", block_tokens=16, marks=("timestamp", "input_length", "output_length", "hash_ids"),
        ),
        "sharegpt": Layout(
            CONVERSATIONS, 'a JSON list (or lines) of ShareGPT, {"id": …, "conversations": [{"from", "value"}, …]}',
            {"prompt_tokens": "the first question", "output_tokens": "the first answer"}, unit="s", timed=False,
            zero_tokens="skip", marks=("conversations",),
        ),
        "csv": Layout(CSV, "a CSV file with a header", GENERIC, generic=True,
                      marks=("prompt_tokens", "output_tokens")),
        "jsonl": Layout(JSONL, "a JSON lines file", GENERIC, generic=True, marks=("prompt_tokens", "output_tokens")),
        "parquet": Layout(PARQUET, "a Parquet file", GENERIC, generic=True),
        "headway": Layout(JSONL, "a workload that headway run --save-workload wrote", OWN, unit="ms",
                          marks=("headway",)),
    }
)  # fmt: skip
"""By the name that ``workload.trace.format`` has for it."""

AUTO = "auto"
