#!/bin/bash
#SBATCH --job-name=sft-8b
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

axolotl train sft.yaml --launcher torchrun -- --nproc_per_node 8
