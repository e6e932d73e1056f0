#!/bin/bash
#SBATCH --job-name=run
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8

GPT_ARGS="
    --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672
    --num-attention-heads 64 --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights --vocab-size 128256 --make-vocab-size-divisible-by 128
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-70B
    --attention-dropout 0.0 --hidden-dropout 0.0
    --micro-batch-size 1 --global-batch-size 512 --train-iters 250000
    --lr 1.5e-4 --lr-decay-style cosine --weight-decay 0.1 --clip-grad 1.0 --bf16
"
PARALLEL_ARGS="
    --tensor-model-parallel-size 8 --sequence-parallel
    --pipeline-model-parallel-size 4
    --use-distributed-optimizer --overlap-grad-reduce
    --recompute-granularity selective
"
srun python -u pretrain_gpt.py $GPT_ARGS $PARALLEL_ARGS \
    --use-mcore-models --data-path data/text_document --split 99,1,0 \
    --save out --save-interval 1000 --log-interval 10 --eval-interval 1000 --eval-iters 10
