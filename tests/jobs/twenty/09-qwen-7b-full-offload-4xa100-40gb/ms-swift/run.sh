#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100-40gb:4

NPROC_PER_NODE=4 swift sft \
    --model Qwen/Qwen2.5-7B --tuner_type full \
    --torch_dtype bfloat16 --attn_impl flash_attn \
    --dataset data/train.jsonl --max_length 2048 \
    --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \
    --gradient_checkpointing true --learning_rate 1e-5 --warmup_ratio 0.03 \
    --num_train_epochs 3 --deepspeed zero3_offload --output_dir out
