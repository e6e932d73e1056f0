#!/bin/bash
#SBATCH --job-name=sft-8b
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

deepspeed --num_nodes 1 --num_gpus 8 --module openrlhf.cli.train_sft \
    --pretrain meta-llama/Llama-3.1-8B \
    --dataset org/instructions --input_key prompt --output_key response \
    --max_len 4096 \
    --packing_samples \
    --train_batch_size 64 \
    --micro_train_batch_size 2 \
    --max_epochs 1 \
    --learning_rate 2e-5 \
    --zero_stage 3 \
    --bf16 --flash_attn --gradient_checkpointing \
    --save_path out/openrlhf
