#!/bin/sh
# No drafts, 100 requests: since vLLM 0.33 the size 100 itself is captured; before,
# batches 97 to 100 had no FULL graph (vLLM #57355; compare --rule vllm-0.28).
#   specgrid explain --config examples/no-speculation-100-requests.sh
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4 --max-num-seqs 100
