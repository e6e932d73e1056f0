# cfglint: gpu=RTX3090 gpus=1
llama-server -hf bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M -c 16384 -np 4 -ngl 99 -fa on --port 8080
