#!/bin/sh
# vLLM's documented Eagle schedule: its query lengths 4, 2 and 1 share one grid.
#   specgrid explain --config examples/eagle-schedule.sh
vllm serve meta-llama/Meta-Llama-3-8B-Instruct \
  --max-num-seqs 256 \
  --speculative-config '{
    "method": "eagle",
    "model": "yuhuili/EAGLE-LLaMA3-Instruct-8B",
    "num_speculative_tokens": 3,
    "num_speculative_tokens_per_batch_size": [[1, 64, 3], [65, 128, 1], [129, 512, 0]]
  }'
