#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100_80gb:8

FORCE_TORCHRUN=1 NPROC_PER_NODE=8 llamafactory-cli train dpo.yaml
