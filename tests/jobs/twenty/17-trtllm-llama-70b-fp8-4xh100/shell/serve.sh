# cfglint: gpu=H100-80GB gpus=4
trtllm-serve nvidia/Llama-3.3-70B-Instruct-FP8 \
    --backend pytorch --tp_size 4 --max_batch_size 128 --max_num_tokens 8192 --max_seq_len 8192 \
    --kv_cache_free_gpu_memory_fraction 0.9
