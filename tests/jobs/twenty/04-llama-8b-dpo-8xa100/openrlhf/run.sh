#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100_80gb:8

deepspeed --num_gpus 8 --module openrlhf.cli.train_dpo \
    --pretrain meta-llama/Llama-3.1-8B-Instruct \
    --ref_pretrain meta-llama/Llama-3.1-8B-Instruct \
    --dataset org/preferences --chosen_key chosen --rejected_key rejected \
    --max_len 2048 --beta 0.1 \
    --train_batch_size 64 --micro_train_batch_size 1 \
    --max_epochs 1 --learning_rate 5e-7 \
    --zero_stage 3 --bf16 --flash_attn --gradient_checkpointing \
    --save_path out
