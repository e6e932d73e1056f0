#!/bin/bash
#SBATCH --gres=gpu:h100:4
docker run --gpus 4 --ipc=host -p 8000:8000 -e HF_TOKEN vllm/vllm-openai:v0.10.1 \
    --model meta-llama/Llama-3.3-70B-Instruct \
    --tensor-parallel-size 4 \
    --max-model-len 32768 \
    --gpu-memory-utilization 0.92 \
    --max-num-seqs 256
