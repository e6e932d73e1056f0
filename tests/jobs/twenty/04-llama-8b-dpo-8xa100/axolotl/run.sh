#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100_80gb:8

accelerate launch --num_processes 8 -m axolotl.cli.train dpo.yaml
