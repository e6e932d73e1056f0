#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

srun torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:29500 pretrain_gpt.py \
    --use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --init-method-std 0.01 --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm \
    --position-embedding-type rope --swiglu --untie-embeddings-and-output-weights \
    --group-query-attention --num-query-groups 8 --no-masked-softmax-fusion \
    --rotary-base 1000000 \
    --num-experts 8 --expert-model-parallel-size 8 --moe-router-load-balancing-type aux_loss \
    --moe-router-topk 2 --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall \
    --overlap-param-gather --overlap-grad-reduce \
    --tokenizer-type Llama2Tokenizer --tokenizer-model tokenizer.model --vocab-size 32000 \
    --data-path data/text_document --split 99,1,0 \
    --micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 500000 \
    --lr-decay-style cosine --min-lr 1.0e-5 --weight-decay 0.1 --lr-warmup-iters 500 --clip-grad 1.0 --bf16 \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --use-distributed-optimizer \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
    --save out --load out --save-interval 10000 --log-interval 1 --eval-interval 1000 --eval-iters 10
