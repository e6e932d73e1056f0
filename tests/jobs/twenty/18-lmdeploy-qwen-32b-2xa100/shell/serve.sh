# cfglint: gpu=A100-80GB gpus=2
lmdeploy serve api_server Qwen/Qwen2.5-32B-Instruct --tp 2 --session-len 16384 --cache-max-entry-count 0.8 --max-batch-size 64 --server-port 23333
