#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

srun python scripts/training/run_recipe.py \
    --recipe llama3_70b_pretrain_config \
    model.tensor_model_parallel_size=8 model.pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=null \
    model.context_parallel_size=1 model.sequence_parallel=true model.seq_length=8192 dataset.seq_length=8192 \
    model.recompute_granularity=selective \
    train.micro_batch_size=1 train.global_batch_size=512 train.train_iters=250000 \
    optimizer.lr=1.5e-4 ddp.use_distributed_optimizer=true mixed_precision=bf16_mixed
