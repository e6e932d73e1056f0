#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

srun python scripts/training/run_recipe.py \
    --recipe mixtral_8x7b_pretrain_config \
    model.tensor_model_parallel_size=1 model.pipeline_model_parallel_size=4 \
    model.expert_model_parallel_size=8 model.context_parallel_size=1 model.sequence_parallel=false \
    model.seq_length=4096 dataset.seq_length=4096 \
    model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1 \
    train.micro_batch_size=1 train.global_batch_size=256 train.train_iters=500000 \
    optimizer.lr=1e-4 ddp.use_distributed_optimizer=true mixed_precision=bf16_mixed
