"""A few rows of our own making in the form of every format of traces."""

import json

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.98,48,10\n2023-11-16 18:17:04.98,31,8"
LMM = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2025-01-01 00:00:00,3,48,10\n2025-01-01 00:00:01,0,31,8"
BURST6 = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,48,10,58,x\n6,GPT-4,31,8,39,x"
BURST8 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "19440110.0,,1.5,ChatGPT,48,10,58,x\n19440111.0,abc,2,GPT-4,31,8,39,x"
)
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n0.25,48,10,58,4.8\n1.25,31,8,39,3.9"
MOONCAKE = (
    '{"timestamp": 100, "input_length": 600, "output_length": 10, "hash_ids": [7, 8]}\n'
    '{"timestamp": 1100, "input_length": 1030, "output_length": 8, "hash_ids": [7, 9, 10]}'
)
TIMED = (
    '{"timestamp": 0.5, "input_length": 48, "output_length": 10, "hash_ids": [1, 2, 3]}\n'
    '{"timestamp": 1.5, "input_length": 31, "output_length": 8, "hash_ids": [1, 4]}'
)
BAILIAN = (
    '{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 48, "output_length": 10, '
    '"type": "text", "turn": 1, "hash_ids": [1, 2, 3]}\n'
    '{"chat_id": 160, "parent_chat_id": 159, "timestamp": 62.5, "input_length": 31, "output_length": 8, '
    '"type": "text", "turn": 2, "hash_ids": [1, 4]}'
)
RAG_IDS = '"hash_ids": {"sys_prompt": [1], "passages_ids": [2], "history": [], "web_search": [], "user_input": [%d]}'
RAG = (
    '{"timestamp": "27", "input_length": 48, "output_length": 10, ' + RAG_IDS % 3 + ', "session_id": "s"}\n'
    '{"timestamp": "28", "input_length": 31, "output_length": 8, ' + RAG_IDS % 4 + ', "session_id": "s"}'
)
SHARE = json.dumps(
    [
        {"id": "a", "conversations": [{"from": "human", "value": "w " * 48}, {"from": "gpt", "value": "w " * 10}]},
        {"id": "b", "conversations": [{"from": "human", "value": 'no answer: \\ " ] }'}]},
        {"id": "c", "conversations": [{"from": "human", "tokens": 31}, {"from": "gpt", "tokens": 8}]},
    ]
)
CSV = 'arrival_ms,prompt_tokens,output_tokens,tenant\n5,48,10,"a,b"\n1005.0,31,8,'
JSONL = (
    '{"arrival_s": 5, "prompt_tokens": 48, "output_tokens": 10}\n\n'
    '{"arrival_s": 6, "prompt_tokens": 31, "output_tokens": 8}'
)

# Two requests of 48 and 31 prompt tokens (Mooncake: 600 and 1030), 10 and 8 output tokens, a second apart.
SAMPLES: dict[str, tuple[str, str]] = {
    "azure": ("azure", AZURE),
    "azure lmm": ("azure", LMM),
    "burstgpt of 6 columns": ("burstgpt", BURST6),
    "burstgpt of 8 columns": ("burstgpt", BURST8),
    "vidur": ("vidur", VIDUR),
    "mooncake": ("mooncake", MOONCAKE),
    "timed_trace": ("timed_trace", TIMED),
    "bailian": ("bailian", BAILIAN),
    "ragpulse": ("ragpulse", RAG),
    "sharegpt": ("sharegpt", SHARE),
    "csv": ("csv", CSV),
    "jsonl": ("jsonl", JSONL),
}
