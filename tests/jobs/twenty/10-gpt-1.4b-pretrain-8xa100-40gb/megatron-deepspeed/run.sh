#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100-40gb:8

cat <<EOT > ds_config.json
{
  "train_micro_batch_size_per_gpu": 8,
  "train_batch_size": 256,
  "gradient_clipping": 1.0,
  "zero_optimization": {"stage": 1},
  "bf16": {"enabled": true}
}
EOT
deepspeed --num_gpus 8 pretrain_gpt.py \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 \
    --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --use-rotary-position-embeddings --untie-embeddings-and-output-weights \
    --micro-batch-size 8 --global-batch-size 256 --train-iters 143000 \
    --lr 2e-4 --min-lr 2e-5 --lr-decay-style cosine --weight-decay 0.1 --clip-grad 1.0 \
    --tokenizer-type HFTokenizer --tokenizer-model EleutherAI/pythia-1.4b \
    --data-path data/text_document --split 969,30,1 \
    --bf16 --use-flash-attn-v2 --checkpoint-activations --deepspeed-activation-checkpointing \
    --deepspeed --deepspeed_config ds_config.json --zero-stage 1 --no-pipeline-parallel \
    --save out --save-interval 1000 --log-interval 10 --eval-interval 1000 --eval-iters 10
