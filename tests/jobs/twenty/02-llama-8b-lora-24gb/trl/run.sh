# cfglint: gpu=RTX4090-24GB gpus=1
trl sft \
    --model_name_or_path meta-llama/Llama-3.1-8B-Instruct \
    --torch_dtype bfloat16 --attn_implementation flash_attention_2 \
    --dataset_name tatsu-lab/alpaca \
    --use_peft --lora_r 16 --lora_alpha 32 --lora_dropout 0.0 \
    --lora_target_modules q_proj k_proj v_proj o_proj gate_proj up_proj down_proj \
    --max_length 1024 --packing \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 16 \
    --gradient_checkpointing --bf16 \
    --optim adamw_torch_fused --learning_rate 2e-4 --num_train_epochs 3 \
    --output_dir out
