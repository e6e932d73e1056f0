#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

torchrun --nproc_per_node 8 scripts/training/run_recipe.py \
    --recipe llama3_8b_pretrain_config \
    model.tensor_model_parallel_size=2 \
    model.sequence_parallel=true \
    model.pipeline_model_parallel_size=1 \
    model.context_parallel_size=1 \
    model.seq_length=8192 dataset.seq_length=8192 \
    model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1 \
    train.micro_batch_size=1 train.global_batch_size=128 train.train_iters=100000 \
    optimizer.lr=3e-4 ddp.use_distributed_optimizer=true mixed_precision=bf16_mixed
