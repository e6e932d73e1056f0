#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

srun python megatron_gpt_pretraining.py --config-path=. --config-name=conf \
    trainer.devices=8 trainer.num_nodes=1 model.micro_batch_size=1
