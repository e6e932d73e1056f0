#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100_80gb:8

NPROC_PER_NODE=8 swift rlhf --rlhf_type dpo \
    --model meta-llama/Llama-3.1-8B-Instruct --use_hf true \
    --tuner_type full --torch_dtype bfloat16 --attn_impl flash_attn \
    --dataset data/preferences.jsonl --max_length 2048 --beta 0.1 \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 8 \
    --gradient_checkpointing true --optim adamw_torch_fused \
    --learning_rate 5e-7 --num_train_epochs 1 --deepspeed zero3 --output_dir out
