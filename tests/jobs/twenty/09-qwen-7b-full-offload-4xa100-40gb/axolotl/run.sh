#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100-40gb:4

accelerate launch --num_processes 4 -m axolotl.cli.train sft.yaml
