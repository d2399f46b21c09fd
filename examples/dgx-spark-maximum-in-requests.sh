#!/bin/sh
# The maximum is in tokens; here it was set to the number of requests. vLLM makes it 4,
# one request of 4 tokens, and a second request drops to under 1 tok/s. 24 is right.
# (tonyd2wild's DeepSeek-v4 recipe for two DGX Sparks, pull request 5.)
#   specgrid explain --config examples/dgx-spark-maximum-in-requests.sh --gpu gb10
MAX_NUM_SEQS=6
vllm serve deepseek-ai/DeepSeek-V4-Flash -tp 2 \
  --max-num-seqs ${MAX_NUM_SEQS} \
  --max-num-batched-tokens 8192 \
  --max-cudagraph-capture-size ${MAX_NUM_SEQS} \
  -sc '{"method": "mtp", "num_speculative_tokens": 3}'
