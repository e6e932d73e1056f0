# cfglint: gpu=A10G
model=meta-llama/Llama-3.1-8B-Instruct
docker run --gpus 1 --shm-size 1g -p 8080:80 -v $PWD/data:/data \
    ghcr.io/huggingface/text-generation-inference:3.3.4 \
    --model-id $model --max-input-tokens 3000 --max-total-tokens 4096 --max-batch-prefill-tokens 4096
