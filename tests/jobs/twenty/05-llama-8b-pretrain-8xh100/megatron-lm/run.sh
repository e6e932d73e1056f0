#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py \
    --use-mcore-models --transformer-impl transformer_engine \
    --tensor-model-parallel-size 2 --sequence-parallel \
    --pipeline-model-parallel-size 1 --context-parallel-size 1 \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
    --seq-length 8192 --max-position-embeddings 8192 \
    --position-embedding-type rope --rotary-base 500000 --rotary-percent 1.0 \
    --normalization RMSNorm --swiglu --disable-bias-linear \
    --untie-embeddings-and-output-weights \
    --attention-dropout 0.0 --hidden-dropout 0.0 \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B \
    --vocab-size 128256 --make-vocab-size-divisible-by 128 \
    --micro-batch-size 1 --global-batch-size 128 --train-iters 100000 \
    --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 2000 \
    --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --clip-grad 1.0 \
    --bf16 --use-flash-attn \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
    --data-path data/text_document --split 99,1,0 \
    --save out --load out --save-interval 1000 --log-interval 10 --eval-interval 1000 --eval-iters 10
