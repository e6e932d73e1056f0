#!/bin/bash
#SBATCH --job-name=sft-8b
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

torchrun --nnodes 1 --nproc_per_node 8 sft.py \
    --model_name_or_path meta-llama/Llama-3.1-8B \
    --torch_dtype bfloat16 \
    --attn_implementation flash_attention_2 \
    --dataset_name org/instructions \
    --max_length 4096 --packing True \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --gradient_checkpointing True \
    --num_train_epochs 1 \
    --learning_rate 2e-5 \
    --lr_scheduler_type cosine --warmup_ratio 0.03 \
    --optim adamw_torch_fused \
    --bf16 True \
    --deepspeed zero3.json \
    --output_dir out/trl
