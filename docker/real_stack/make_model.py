"""Makes a language model of a few megabytes: `python make_model.py FOLDER`.

A Llama of two layers with random weights, a byte-level tokenizer trained on one line and a chat template. It answers
noise, which is enough: everything around it is real, and the verifier gives it real (poor) rewards. The weights come
from a fixed seed, so every machine makes the same model.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ROLES = ["<|system|>", "<|user|>", "<|assistant|>"]
# vLLM's CPU attention refuses heads narrower than 32, and a prompt of the benchmark is up to 1,500 bytes long.
HIDDEN_SIZE, HEADS, LAYERS, MAX_TOKENS = 256, 4, 2, 4096


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer that has every byte as a token, so that no text is unknown to it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|pad|>", "<|end|>", *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["The answer is \\boxed{A}, not \\boxed{B}: think step by step."], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=MAX_TOKENS,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Returns the model for that tokenizer, with the same random weights each time."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN_SIZE,
            intermediate_size=2 * HIDDEN_SIZE,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            num_hidden_layers=LAYERS,
            max_position_embeddings=MAX_TOKENS,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def main(folder: str) -> None:
    """Saves the tokenizer and the model into the folder, which is made when it does not exist."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    make_model(tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
