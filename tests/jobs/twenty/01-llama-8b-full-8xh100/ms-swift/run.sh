#!/bin/bash
#SBATCH --job-name=sft-8b
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

NPROC_PER_NODE=8 \
swift sft \
    --model LLM-Research/Meta-Llama-3.1-8B \
    --tuner_type full \
    --torch_dtype bfloat16 \
    --dataset data/train.jsonl \
    --max_length 4096 --packing true \
    --attn_impl flash_attn \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --gradient_checkpointing true \
    --num_train_epochs 1 \
    --learning_rate 2e-5 --warmup_ratio 0.03 \
    --optim adamw_torch_fused \
    --deepspeed zero3 \
    --output_dir out/swift
