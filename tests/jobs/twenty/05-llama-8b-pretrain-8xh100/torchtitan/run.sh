#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file llama3_8b.toml
