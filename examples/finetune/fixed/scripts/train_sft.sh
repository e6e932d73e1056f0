#!/usr/bin/env bash
#SBATCH --job-name=llama-sft
#SBATCH --nodes=1
#SBATCH --gres=gpu:a100-80gb:8
#SBATCH --mem=512G
set -euo pipefail

accelerate launch --config_file examples/finetune/fixed/accelerate/fsdp.yaml \
  train.py --config examples/finetune/fixed/trl/llama-sft.yaml
