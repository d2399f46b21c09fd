#!/bin/sh
# DFlash drafting 16 tokens for 32 requests: the widest decode batch has 544 tokens,
# the default ceiling is 512, and batches 31 and 32 run without a graph (vLLM #50488).
#   specgrid explain --config examples/dflash-32-requests.sh
VLLM_USE_V2_MODEL_RUNNER=1 vllm serve Qwen/Qwen3-8B \
  -tp 1 --max-num-seqs 32 \
  --speculative-config.method dflash \
  --speculative-config.model z-lab/Qwen3-8B-DFlash-b16 \
  --speculative-config.num_speculative_tokens 16
