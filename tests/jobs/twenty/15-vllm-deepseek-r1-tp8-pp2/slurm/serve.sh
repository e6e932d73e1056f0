#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:h100:8
vllm serve deepseek-ai/DeepSeek-R1 --port 8080 \
    --tensor-parallel-size 8 --pipeline-parallel-size 2 \
    --max-model-len 16384 --gpu-memory-utilization 0.92 \
    --distributed-executor-backend ray
