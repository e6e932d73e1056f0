#!/usr/bin/env bash
#SBATCH --job-name=llama-sft
#SBATCH --nodes=1
#SBATCH --gres=gpu:a100-40gb:2
#SBATCH --mem=256G
set -euo pipefail

accelerate launch --config_file examples/finetune/accelerate/fsdp.yaml \
  train.py --config examples/finetune/trl/llama-sft.yaml
