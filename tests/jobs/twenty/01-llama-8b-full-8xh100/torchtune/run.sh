#!/bin/bash
#SBATCH --job-name=sft-8b
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

tune run --nnodes 1 --nproc_per_node 8 full_finetune_distributed --config full.yaml
