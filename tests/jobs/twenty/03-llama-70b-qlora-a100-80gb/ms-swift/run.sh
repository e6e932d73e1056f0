# cfglint: gpu=A100-80GB gpus=1
CUDA_VISIBLE_DEVICES=0 swift sft \
    --model meta-llama/Llama-3.1-70B --use_hf true \
    --quant_method bnb --quant_bits 4 --bnb_4bit_quant_type nf4 --bnb_4bit_use_double_quant true \
    --tuner_type lora --lora_rank 16 --lora_alpha 32 --target_modules all-linear \
    --torch_dtype bfloat16 --attn_impl flash_attn \
    --dataset data/train.jsonl --max_length 2048 --packing true \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 16 \
    --gradient_checkpointing true --optim paged_adamw_8bit \
    --learning_rate 1e-4 --num_train_epochs 1 --output_dir out
