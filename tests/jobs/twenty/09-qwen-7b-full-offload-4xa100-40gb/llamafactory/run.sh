#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100-40gb:4

FORCE_TORCHRUN=1 NPROC_PER_NODE=4 llamafactory-cli train sft.yaml
