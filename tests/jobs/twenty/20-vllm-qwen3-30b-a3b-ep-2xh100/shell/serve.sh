#!/bin/bash
#SBATCH --gres=gpu:h100:2
vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 2 --enable-expert-parallel \
    --max-model-len 32768 --max-num-batched-tokens 8192 --gpu-memory-utilization 0.9
