#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100-40gb:4

deepspeed --num_gpus 4 train.py \
    --model_name_or_path Qwen/Qwen2.5-7B \
    --data_path data/train.json \
    --bf16 True \
    --output_dir out \
    --num_train_epochs 3 \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --model_max_length 2048 \
    --gradient_checkpointing True \
    --learning_rate 1e-5 --warmup_ratio 0.03 --lr_scheduler_type cosine \
    --attn_implementation flash_attention_2 \
    --deepspeed ds.json
