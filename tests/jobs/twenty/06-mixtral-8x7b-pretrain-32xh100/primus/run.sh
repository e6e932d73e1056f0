#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

export EXP=exp.yaml
NNODES=4 bash examples/run_slurm_pretrain.sh
