# cfglint: gpu=H100-80GB gpus=4
trtllm-serve nvidia/Llama-3.3-70B-Instruct-FP8 --extra_llm_api_options extra.yaml
