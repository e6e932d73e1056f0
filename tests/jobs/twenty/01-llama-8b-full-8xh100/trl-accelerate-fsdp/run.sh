#!/bin/bash
#SBATCH --job-name=sft-8b
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

accelerate launch --config_file fsdp.yaml sft.py --config sft.yaml
