# cfglint: gpu=L40S gpus=2
export CUDA_VISIBLE_DEVICES=0,1
vllm serve Qwen/Qwen2.5-72B-Instruct-AWQ --tensor-parallel-size 2 \
    --max-model-len 8192 --max-num-seqs 64 --gpu-memory-utilization 0.95 --enforce-eager
