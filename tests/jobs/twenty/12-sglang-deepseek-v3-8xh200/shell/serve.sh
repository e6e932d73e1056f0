# cfglint: gpu=H200 gpus=8
python3 -m sglang.launch_server \
    --model-path deepseek-ai/DeepSeek-V3 \
    --tp 8 --trust-remote-code \
    --context-length 65536 \
    --mem-fraction-static 0.85 \
    --max-running-requests 128 \
    --host 0.0.0.0 --port 30000
