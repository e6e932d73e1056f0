# cfglint: gpu=A100-80GB gpus=1
python sft.py \
    --model_name_or_path meta-llama/Llama-3.1-70B \
    --torch_dtype bfloat16 --attn_implementation flash_attention_2 \
    --load_in_4bit --bnb_4bit_quant_type nf4 --use_bnb_nested_quant \
    --use_peft --lora_r 16 --lora_alpha 32 --lora_dropout 0.05 --lora_target_modules all-linear \
    --dataset_name org/chat --max_length 2048 --packing \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 16 \
    --gradient_checkpointing --bf16 \
    --optim paged_adamw_8bit --learning_rate 1e-4 --num_train_epochs 1 \
    --output_dir out
