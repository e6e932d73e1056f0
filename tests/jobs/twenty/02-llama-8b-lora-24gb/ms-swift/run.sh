# cfglint: gpu=RTX4090-24GB gpus=1
CUDA_VISIBLE_DEVICES=0 \
swift sft \
    --model meta-llama/Llama-3.1-8B-Instruct --use_hf true \
    --tuner_type lora --lora_rank 16 --lora_alpha 32 --lora_dropout 0 --target_modules all-linear \
    --torch_dtype bfloat16 --attn_impl flash_attn \
    --dataset tatsu-lab/alpaca --max_length 1024 --packing true \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 16 \
    --gradient_checkpointing true \
    --optim adamw_torch_fused --learning_rate 2e-4 --num_train_epochs 3 \
    --output_dir out
